//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/internal/device"
)

// deviceMemory is device memory. It is C memory, since C copies from and to it.
type deviceMemory struct {
	*adapter
	device.DM
}

//export softhca_alloc_dm
func softhca_alloc_dm(dev C.handle_t, out *C.struct_softhca_dm) C.int {
	m := &deviceMemory{adapter: of[*adapter](dev)}
	err := m.dev.AllocDM(&m.DM, uint64(out.length), uint32(out.log_align))
	if err == nil {
		out.handle = newHandle(m)
		out.memory = (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(m.Bytes())))
	}
	return m.code("allocate device memory", err)
}

//export softhca_free_dm
func softhca_free_dm(dm C.handle_t) C.int {
	m := of[*deviceMemory](dm)
	return end(dm, m.code("free device memory", m.Free()))
}
