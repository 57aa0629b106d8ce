//go:build linux && cgo

package main

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/device"
)

// originOf returns CLOCK_MONOTONIC, in ns, at the instant 0 of a device. Go's runtime reads the
// same clock but does not show it, so originOf reads it before and after the runtime does. The
// readings that are closest together count. The result is never late, so that no completion
// seems to be made after it was polled.
func originOf(d *device.Device) int64 {
	start := d.Time(0)
	origin, least := int64(0), int64(math.MaxInt64)
	for range 8 {
		before := monotonic()
		since := time.Since(start)
		if took := monotonic() - before; took < least {
			origin, least = before-int64(since), took
		}
	}
	return origin
}

// monotonic reads CLOCK_MONOTONIC.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0 // Linux always has this clock
	}
	return t.Nano()
}
