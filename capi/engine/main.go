//go:build linux && cgo

package main

// #cgo CFLAGS: -std=gnu11
// #include "engine.h"
import "C"

import (
	"errors"
	"runtime/cgo"
	"syscall"
)

// The runtime never calls main in a shared object.
func main() {}

// softhca_begun returns when the runtime has started. The library looks it up by name, so that
// it also works with an engine of another build, whose table of calls it does not know.
//
//export softhca_begun
func softhca_begun() {}

// newHandle returns a handle of an object.
func newHandle(object any) C.handle_t { return C.handle_t(cgo.NewHandle(object)) }

// of returns the object of a handle.
func of[T any](h C.handle_t) T { return cgo.Handle(h).Value().(T) }

// end releases a handle if its object was destroyed.
func end(h C.handle_t, code C.int) C.int {
	if code == 0 {
		cgo.Handle(h).Delete()
	}
	return code
}

// errno returns the number that a program in C gets for an error.
func errno(err error) C.int {
	var e syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e) && e != 0:
		return C.int(e)
	default:
		return C.int(syscall.EIO)
	}
}

// code returns errno(err) and logs the error: an error number alone says little.
func (a *adapter) code(what string, err error) C.int {
	if err != nil {
		a.dev.CallFailed(what, err)
	}
	return errno(err)
}

// flag converts a bool to C.
func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
