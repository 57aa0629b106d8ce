//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// window is a memory window.
type window struct {
	*adapter
	device.MW
}

//export softhca_alloc_mw
func softhca_alloc_mw(pd C.handle_t, typ C.uint32_t, mw *C.handle_t, rkey *C.uint32_t) C.int {
	d := of[*domain](pd)
	w := &window{adapter: d.adapter}
	err := d.AllocMW(&w.MW, ib.MWType(min(typ, 0xff)))
	if err == nil {
		*mw, *rkey = newHandle(w), C.uint32_t(w.RKey())
	}
	return w.code("allocate MW", err)
}

//export softhca_dealloc_mw
func softhca_dealloc_mw(mw C.handle_t) C.int {
	w := of[*window](mw)
	return end(mw, w.code("deallocate MW", w.Dealloc()))
}
