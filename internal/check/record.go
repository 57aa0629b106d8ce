package check

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Bounds of what a process can report. The library writes less.
const (
	maxBytes   = 64 << 20 // of a file
	maxLine    = 256 << 10
	maxRecords = 4096 // findings of a process
	maxStacks  = 8    // of a finding
	maxFrames  = 64   // of a stack
	maxPath    = 4096
)

// processRecord is the first line of a file.
type processRecord struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// frameRecord is a frame of a stack: an address in a file, and what the dynamic linker knows. Programs in Go
// know the function, and the line in the source file.
type frameRecord struct {
	File         string `json:"file"`
	Offset       uint64 `json:"offset"` // virtual address in the file
	Symbol       string `json:"symbol"`
	SymbolOffset uint64 `json:"symbol_offset"`
	Function     string `json:"function"` // of a program in Go; File is then its source file
	Line         int    `json:"line"`
}

// stackRecord is the stack of a call.
type stackRecord struct {
	Title  string        `json:"title"`
	Frames []frameRecord `json:"frames"`
}

// findingRecord is a line with a finding, or with the count of an earlier one.
type findingRecord struct {
	Process *processRecord `json:"process"`
	ID      uint64         `json:"id"`
	Finding string         `json:"finding"`
	Advice  bool           `json:"advice"` // only advice, although the finding is an error in other programs
	Time    int64          `json:"time"`   // in nanoseconds since 1970
	TID     int            `json:"tid"`
	Text    string         `json:"text"`
	Stacks  []stackRecord  `json:"stacks"`
	Count   uint64         `json:"count"`
}

// recordFile is what is in a file of records.
type recordFile struct {
	process  processRecord
	findings []*findingRecord
	wrong    int  // lines that are no records
	more     bool // there was more than the bounds allow
}

// readFile reads a file of records. It returns an error only if the file cannot be read at all.
func readFile(name string) (*recordFile, error) {
	// The program may have put a FIFO there: do not wait for its writer.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file: %w", name, fs.ErrInvalid))
	}
	r := &recordFile{}
	return r, r.read(f)
}

// read reads records. The last line may be cut off.
func (r *recordFile) read(from io.Reader) error {
	limited := &io.LimitedReader{R: from, N: maxBytes}
	lines := bufio.NewReaderSize(limited, maxLine)
	byID := map[uint64]*findingRecord{}
	for {
		line, err := lines.ReadSlice('\n')
		long := false
		for errors.Is(err, bufio.ErrBufferFull) {
			long = true
			_, err = lines.ReadSlice('\n')
		}
		switch {
		case long:
			r.wrong++
		case len(line) > 0:
			r.add(line, byID)
		}
		if err == nil {
			continue
		}
		r.more = r.more || limited.N <= 0
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
}

// add adds the record of a line.
func (r *recordFile) add(line []byte, byID map[uint64]*findingRecord) {
	var f findingRecord
	if err := json.Unmarshal(line, &f); err != nil {
		r.wrong++
		return
	}
	known := byID[f.ID]
	switch {
	case f.Process != nil:
		r.process = *f.Process
	case f.Finding != "" && known == nil && len(r.findings) >= maxRecords:
		r.more = true
	case f.Finding != "" && known == nil:
		f.Count = max(f.Count, 1)
		f.Stacks = f.Stacks[:min(len(f.Stacks), maxStacks)]
		for i := range f.Stacks {
			s := &f.Stacks[i]
			s.Frames = s.Frames[:min(len(s.Frames), maxFrames)]
		}
		byID[f.ID] = &f
		r.findings = append(r.findings, &f)
	case f.Finding == "" && f.Count > 0:
		if known != nil {
			known.Count = f.Count
		}
	default:
		r.wrong++
	}
}
