//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import "unsafe"

// subject is an object that asynchronous events can refer to: it is embedded in queue pairs,
// completion queues and shared receive queues.
type subject struct {
	user unsafe.Pointer // the object in C
}

// destroy destroys a subject. Its events have been delivered by then, or are dropped.
func (a *adapter) destroy(verb string, destroy func() error) C.int {
	a.taking.Lock()
	defer a.taking.Unlock()
	return a.code(verb, destroy())
}
