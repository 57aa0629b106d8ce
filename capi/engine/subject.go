//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/internal/device"
)

// subject is what asynchronous events can be about: part of a queue pair, a
// completion queue and a shared receive queue.
type subject struct {
	obj  device.Object
	user unsafe.Pointer // as C knows it
}

// create makes a subject on the device's thread, and has its events come.
func (a *adapter) create(verb string, s *subject, begin func() error) error {
	return a.dev.Call(verb, nil, func(instant) error {
		if err := begin(); err != nil {
			return err
		}
		s.obj.Owner = s
		a.dev.Add(&s.obj)
		return nil
	})
}

// destroy ends a subject: its events are the program's by then, or vanish.
func (a *adapter) destroy(verb string, s *subject, end func() error) C.int {
	a.taking.Lock()
	defer a.taking.Unlock()
	return a.code(verb, s.obj.Call(verb, errGone, func(instant) error { return s.obj.Remove(end) }))
}
