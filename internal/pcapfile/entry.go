package pcapfile

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// Entry is what the adapter that made a capture says about itself: a line of its log between the packets.
// In the file, an Entry is a systemd journal export block. Wireshark shows such blocks among the packets and
// counts them as records.
type Entry struct {
	Record  int       // number of the record in the file, from 1
	Time    time.Time // UTC, to the microsecond
	Message string    // the whole line, for people
	Fields  []Field   // its parts
}

// Field is a part of an Entry.
type Field struct {
	Name  string // capital letters, digits and underscores
	Value string // one line
}

// Get returns the value of a field, empty if there is none.
func (e *Entry) Get(name string) string {
	for _, f := range e.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

const (
	blockJournal = 9

	// maxEntry bounds an entry, in bytes. Longer ones are skipped.
	maxEntry = 64 << 10
	// maxFields bounds the fields of an entry. The reader leaves out further ones.
	maxFields = 64

	// maxTime is the year 10000, in microseconds since 1970: later times have no form in JSON.
	maxTime = 253_402_300_800_000_000

	fieldTime    = "__REALTIME_TIMESTAMP" // microseconds since 1970
	fieldMessage = "MESSAGE"
	fieldProgram = "SYSLOG_IDENTIFIER"
	program      = "softhca"
	// own is the prefix of the names of an Entry's fields in the file: names in a journal are shared by all
	// programs.
	own = "SOFTHCA_"
)

// AppendEntry appends the block of an entry to b. Line breaks in it become blanks. Its Record is not used.
func AppendEntry(b []byte, e *Entry) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	add := func(name, value string) {
		b = append(append(b, name...), '=')
		b = append(b, strings.NewReplacer("\n", " ", "\r", " ", "\x00", " ").Replace(value)...)
		b = append(b, '\n')
	}
	add(fieldTime, strconv.FormatInt(e.Time.UnixMicro(), 10))
	add(fieldProgram, program)
	add(fieldMessage, e.Message)
	for _, f := range e.Fields {
		add(own+f.Name, f.Value)
	}
	for len(b)%4 != start%4 {
		b = append(b, 0)
	}
	size := uint32(len(b) - start + 4)
	binary.LittleEndian.PutUint32(b[start:], blockJournal)
	binary.LittleEndian.PutUint32(b[start+4:], size)
	return binary.LittleEndian.AppendUint32(b, size)
}

// parseEntry returns the entry in the body of a block. It reports false for one of another program.
func parseEntry(body []byte) (e Entry, ok bool) {
	for line := range bytes.SplitSeq(bytes.TrimRight(body, "\x00"), []byte{'\n'}) {
		name, value, found := strings.Cut(string(line), "=")
		switch {
		case !found: // the end, or a value in binary form, which softhca never writes
			return e, ok && !e.Time.IsZero()
		case name == fieldTime:
			us, err := strconv.ParseInt(value, 10, 64)
			if err == nil && us >= 0 && us < maxTime {
				e.Time = time.UnixMicro(us).UTC()
			}
		case name == fieldMessage:
			e.Message = value
		case name == fieldProgram:
			ok = value == program
		case strings.HasPrefix(name, own) && len(e.Fields) < maxFields:
			e.Fields = append(e.Fields, Field{name[len(own):], value})
		}
	}
	return e, ok && !e.Time.IsZero()
}
