//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/fabric/poll"
)

//export softhca_sleep
func softhca_sleep(dev C.handle_t, s *C.struct_softhca_sleep) C.int {
	a, flag := of[*adapter](dev), (*atomic.Int32)(unsafe.Pointer(s.awake))
	if err := a.dev.Alive(); err != nil {
		return errno(err)
	}
	channel, set, ends := int(s.channel), int(s.set), int(s.ends)
	// Signals are blocked during the sleep: a pending signal makes ends readable, and is delivered
	// when the library unblocks signals.
	a.dev.SleepOn(&driver.Sleeper{
		Awake: func() bool { return flag.Load() != 0 },
		FDs:   [2]int{set, ends}, Key: uintptr(unsafe.Pointer(s.awake)), Yield: poll.Yield, Usage: usage,
		Ready: func() bool { return poll.Readable(set, ends) },
		Limit: time.Duration(s.limit),
		// The library looks again, whatever ends the wait.
		Elsewhere: func(left time.Duration) bool { return poll.Until(left, channel, set, ends) },
	})
	return 0
}

func usage() (u driver.Usage) {
	u.Processor, u.Blocked = poll.Usage()
	return u
}
