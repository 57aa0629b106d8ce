//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/fabric/poll"
)

//export softhca_sleep
func softhca_sleep(dev C.handle_t, s *C.struct_softhca_sleep) (code C.int) {
	a, flag := of[*adapter](dev), (*atomic.Int32)(unsafe.Pointer(s.awake))
	if err := a.dev.Alive(); err != nil {
		return errno(err)
	}
	channel, set, ends := int(s.channel), int(s.set), int(s.ends)
	// Signals are blocked during the sleep: a pending signal makes ends readable, and is delivered
	// when the library unblocks signals.
	a.dev.SleepOn(&driver.Sleeper{
		Awake: func() bool { return flag.Load() != 0 },
		FDs:   [2]int{set, ends}, Foreign: true,
		Ready: func() bool { return poll.Readable(set, ends) },
		Limit: time.Duration(s.limit),
		// The library looks again, whatever ends the wait.
		Elsewhere: func(left time.Duration) {
			if set >= 0 {
				code = C.int(unix.EBUSY)
				return
			}
			var limit *unix.Timespec
			if left >= 0 {
				limit = new(unix.NsecToTimespec(int64(left)))
			}
			_ = poll.Wait(poll.Reading(channel, set, ends), limit)
		},
	})
	return code
}
