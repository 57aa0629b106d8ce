package sites

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
)

// The layout of a file: words of 64 bits in the order of the machine.
const (
	wordMagic    = iota
	wordProcess       // the ID of the process
	wordStarted       // when it started, in clock ticks since boot: process IDs are used again
	wordActed         // how often a rule acted
	wordTimeout       // the longest timeout of a queue pair, in nanoseconds
	wordRetries       // the most retries of a queue pair
	wordMatches  = 16 // what rules have matched
	wordCounters = 32 // of calls; then of requests: for each opcode, one for each status; then of packets: for each use, one for each class
	words        = 1024
	size         = words * 8
)

// Use is a way in which a process uses packets.
type Use int

// The uses of packets.
const (
	Sent     Use = iota // the process sends them
	Received            // the process receives them
	Taken               // they are requests that take a receive, and the process executes them
	numUses
)

// suffix ends the names of the files.
const suffix = ".sites"

const magic = 0x32736574_69732d61 // "a-sites2"

// Log counts what a process does. The methods of nil do nothing.
type Log struct {
	name     string
	mem      []byte         // size bytes, shared with the file; never unmapped, as the process counts to its end
	calls    map[string]int // words of the verbs
	requests map[ib.WROpcode]int
	statuses map[ib.WCStatus]int
	packets  int // the word of the first class
	classes  int // how many there are
}

// number gives calls and requests their words.
func (l *Log) number() {
	l.calls, l.requests, l.statuses = make(map[string]int), make(map[ib.WROpcode]int), make(map[ib.WCStatus]int)
	at := wordCounters
	for _, name := range fault.Calls() {
		l.calls[name] = at
		at++
	}
	all := fault.Statuses()
	for i, s := range all {
		l.statuses[s] = i
	}
	for _, o := range fault.WorkRequests() {
		l.requests[o] = at
		at += len(all)
	}
	l.packets, l.classes = at, len(fault.Classes())
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
	if i, known := l.calls[verb]; known {
		l.word(i).Add(1)
	}
}

// Request counts a work request that a queue pair begins, and that can fail with a status.
func (l *Log) Request(op ib.WROpcode, s ib.WCStatus) {
	if l == nil {
		return
	}
	i, known := l.requests[op]
	if k, can := l.statuses[s]; known && can {
		l.word(i + k).Add(1)
	}
}

// Packet counts a packet that the process uses.
func (l *Log) Packet(u Use, s *fault.Subject) {
	if l == nil {
		return
	}
	s.EachClass(func(i int) { l.word(l.packets + int(u)*l.classes + i).Add(1) })
}

// Timers notes how long a queue pair waits before it repeats a request, and how often it repeats it.
func (l *Log) Timers(timeout time.Duration, retries uint8) {
	if l != nil {
		l.raise(wordTimeout, uint64(timeout))
		l.raise(wordRetries, uint64(retries))
	}
}

// raise raises a word to a number.
func (l *Log) raise(i int, to uint64) {
	w := l.word(i)
	for old := w.Load(); old < to && !w.CompareAndSwap(old, to); old = w.Load() {
	}
}

// Acted counts an action of a rule.
func (l *Log) Acted() {
	if l != nil {
		l.word(wordActed).Add(1)
	}
}

// Matches returns the counter of what the rule with an index has matched in this process; nil for none. Adapters of one process share it.
func (l *Log) Matches(index int) *atomic.Uint64 {
	if l == nil || index >= wordCounters-wordMatches {
		return nil
	}
	return l.word(wordMatches + index)
}
