package sites

import (
	"sync/atomic"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
)

// The layout of a file: words of 64 bits in the order of the machine.
const (
	wordMagic    = iota
	wordProcess  // the ID of the process
	wordStarted  // when it started, in clock ticks since boot: process IDs are used again
	wordActed    // how often a rule acted
	wordCounters = 8
	words        = 256
	size         = words * 8
)

const magic = 0x31736574_69732d61 // "a-sites1"

// Log counts what a process does. The methods of nil do nothing.
type Log struct {
	name string
	mem  []byte // size bytes, shared with the file; never unmapped, as the process counts to its end
}

// Name returns the name of the process in this run: that of its program, a dot, and a number from 1 on.
func (l *Log) Name() string {
	if l == nil {
		return ""
	}
	return l.name
}

// word returns a word of the file.
func (l *Log) word(i int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&l.mem[i*8]))
}

// Call counts a call of a verb.
func (l *Log) Call(verb string) {
	if l == nil {
		return
	}
	for i, name := range fault.Calls() {
		if name == verb {
			l.word(wordCounters + i).Add(1)
			return
		}
	}
}

// Request counts a work request that a queue pair begins.
func (l *Log) Request(op ib.WROpcode) {
	if l == nil {
		return
	}
	for i, o := range fault.WorkRequests() {
		if o == op {
			l.word(wordCounters + len(fault.Calls()) + i).Add(1)
			return
		}
	}
}

// Acted counts an action of a rule.
func (l *Log) Acted() {
	if l != nil {
		l.word(wordActed).Add(1)
	}
}
