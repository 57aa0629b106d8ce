package capture

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/softhca/softhca/internal/pcapfile"
)

// Names of the fields that each entry has. The others are named after the attributes.
const (
	FieldMsg     = "MSG"     // the message of the log, without attributes
	FieldLevel   = "LEVEL"   // such as WARN
	FieldAdapter = "ADAPTER" // the adapter's addresses, separated by commas
	FieldPID     = "PID"
)

// Gone is the message of an entry that the reader of a capture adds at its end: the process has ended, or has
// closed the adapter.
const Gone = "adapter gone"

// Journal is a log that goes into a capture, between the packets: lines of level Info and above. The zero
// value discards them until Wrap has begun the capture. It is safe for concurrent use.
type Journal struct{ port atomic.Pointer[Port] }

// Handler returns the handler for the log.
func (j *Journal) Handler() slog.Handler {
	return &journal{j, []slog.Attr{slog.Int(FieldPID, os.Getpid())}}
}

// journal is a handler with attributes.
type journal struct {
	to    *Journal
	attrs []slog.Attr
}

var _ slog.Handler = (*journal)(nil)

// Enabled implements slog.Handler.
func (j *journal) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// WithAttrs implements slog.Handler.
func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journal{j.to, append(slices.Clip(j.attrs), attrs...)}
}

// WithGroup implements slog.Handler. The fields of an entry have no groups.
func (j *journal) WithGroup(string) slog.Handler { return j }

// Handle implements slog.Handler. It returns no error: an error of the file ends the capture, and Err
// returns it.
func (j *journal) Handle(_ context.Context, r slog.Record) error {
	p := j.to.port.Load()
	if p == nil {
		return nil
	}
	e := pcapfile.Entry{Fields: []pcapfile.Field{
		{Name: FieldMsg, Value: r.Message}, {Name: FieldLevel, Value: r.Level.String()}, {Name: FieldAdapter, Value: p.addrs()},
	}}
	add := func(a slog.Attr) bool {
		e.Fields = append(e.Fields, pcapfile.Field{Name: fieldName(a.Key), Value: a.Value.Resolve().String()})
		return true
	}
	for _, a := range j.attrs {
		add(a)
	}
	text := strings.Builder{}
	text.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		v := a.Value.Resolve().String()
		if strings.ContainsAny(v, " \"=") {
			v = strconv.Quote(v)
		}
		text.WriteString(" " + a.Key + "=" + v)
		return add(a)
	})
	e.Message = text.String()
	p.entry(&e)
	return nil
}

// addrs returns the adapter's addresses, separated by commas.
func (p *Port) addrs() string {
	all := make([]string, len(p.caps.Addrs))
	for i, a := range p.caps.Addrs {
		all[i] = a.String()
	}
	return strings.Join(all, ",")
}

// fieldName returns the name of a field for that of an attribute.
func fieldName(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '_'
		}
	}, key)
}

// entry writes an entry after the packets that were written before, unless the port is closed.
func (p *Port) entry(e *pcapfile.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.closed {
		return
	}
	e.Time = p.clock()
	p.block = pcapfile.AppendEntry(p.block[:0], e)
	_, err := p.buffer.Write(p.block)
	p.fail(err)
	p.dirty = true
	if p.quick {
		p.flushHeld()
	}
}
