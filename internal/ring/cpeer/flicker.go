//go:build cgo

package cpeer

// #cgo CFLAGS: -std=gnu11
// #include "flicker.h"
import "C"

import "unsafe"

// Flicker is a C thread that alternately writes two values to a word of C
// memory.
type Flicker struct{ c *C.struct_flicker }

// StartFlicker starts a Flicker; it returns nil without memory or a thread.
func StartFlicker(word *uint32, one, other uint32) *Flicker {
	f := C.flicker_start((*C.uint32_t)(unsafe.Pointer(word)), C.uint32_t(one), C.uint32_t(other))
	if f == nil {
		return nil
	}
	return &Flicker{f}
}

// Stop ends the thread. The last value stays.
func (f *Flicker) Stop() { C.flicker_stop(f.c) }
