package rping

import (
	"fmt"
	"io"
	"sync"
)

// printer writes the lines of all connections.
type printer struct {
	mu    sync.Mutex // guards the writers
	out   io.Writer
	err   io.Writer
	debug bool
}

// The writers' errors are ignored: if output is gone, nobody is left to tell.

// result prints a line of results.
func (p *printer) result(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// warn prints a line for people.
func (p *printer) warn(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.err, format+"\n", args...)
}

// step prints a line with Options.Debug.
func (p *printer) step(format string, args ...any) {
	if p.debug {
		p.result(format, args...)
	}
}
