//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/poll"
)

//export softhca_sleep
func softhca_sleep(dev C.handle_t, awake *C.int, channel, signals C.int) C.int {
	a, flag := of[*adapter](dev), (*atomic.Int32)(unsafe.Pointer(awake))
	if err := a.dev.Alive(); err != nil {
		return errno(err)
	}
	// Signals are blocked during the sleep: a pending signal ends it, and is delivered when
	// the library unblocks signals.
	ended := func() bool { return flag.Load() != 0 || poll.Readable(int(signals)) }
	elsewhere := func() {
		fds := []unix.PollFd{{Fd: int32(channel), Events: unix.POLLIN}, {Fd: int32(signals), Events: unix.POLLIN}}
		_ = poll.Wait(fds, nil) // the library looks again, whatever ended the wait
	}
	a.dev.SleepOn(int(signals), ended, elsewhere)
	return 0
}
