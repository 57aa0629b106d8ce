//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/internal/device"
)

// subject is an object that asynchronous events can refer to: it is embedded in queue pairs,
// completion queues and shared receive queues.
type subject struct {
	obj  *device.Object
	user unsafe.Pointer // the object in C
}

// create creates a subject on the device's thread, and connects its events.
func (a *adapter) create(verb string, s *subject, begin func() error) error {
	return a.dev.Call(verb, nil, func(instant) error {
		if err := begin(); err != nil {
			return err
		}
		s.obj.Owner = s
		a.dev.Add(s.obj)
		return nil
	})
}

// destroy destroys a subject. Its events have been delivered by then, or are dropped.
func (a *adapter) destroy(verb string, destroy func() error) C.int {
	a.taking.Lock()
	defer a.taking.Unlock()
	return a.code(verb, destroy())
}

// remove ends a subject that no verb of the device ends, on the device's thread.
func (s *subject) remove(verb string, end func() error) error {
	return s.obj.Call(verb, errGone, func(instant) error { return s.obj.Remove(end) })
}
