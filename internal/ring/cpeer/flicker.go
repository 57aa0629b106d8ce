//go:build cgo

package cpeer

// #include "flicker.h"
import "C"

import "unsafe"

// Flicker is a thread of C that writes two values to a word of C's memory in
// turns.
type Flicker struct{ c *C.struct_flicker }

// StartFlicker starts one, nil if there is no memory or thread.
func StartFlicker(word *uint32, one, other uint32) *Flicker {
	f := C.flicker_start((*C.uint32_t)(unsafe.Pointer(word)), C.uint32_t(one), C.uint32_t(other))
	if f == nil {
		return nil
	}
	return &Flicker{f}
}

// Stop ends it. What it wrote last stays.
func (f *Flicker) Stop() { C.flicker_stop(f.c) }
