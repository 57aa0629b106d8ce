package rping

import (
	"fmt"
	"time"
)

// Options are what the user may choose.
type Options struct {
	Host   string // server: the address to bind to, "" for any; client: the server
	Source string // client: its address; "" is chosen by route
	Port   string
	Size   int // bytes of the text, its final zero included
	Count  int // client: pings; 0 goes on until ctx ends

	Verbose    bool // print what came
	Validate   bool // client: compare what comes back with what was sent
	Debug      bool // print every step
	Persistent bool // server: serve many clients, and do not end with the first
	OwnQP      bool // make and move the queue pair without rdmacm

	Idle time.Duration // give up when nothing happens for so long; 0: never
}

// Limits of Options.Size: the shortest holds the longest number of a ping.
const (
	minSize = len("rdma-ping-2147483647: ") + 1
	maxSize = 1<<16 - 1
)

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	switch {
	case o.Size < minSize || o.Size > maxSize:
		return fmt.Errorf("size %d: want %d to %d", o.Size, minSize, maxSize)
	case o.Count < 0:
		return fmt.Errorf("count %d: want a number of pings, or 0 for no end", o.Count)
	case o.Idle < 0:
		return fmt.Errorf("idle %v: want a time, or 0 for no limit", o.Idle)
	}
	return nil
}
