//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import "github.com/softhca/softhca/internal/device"

// domain is a protection domain.
type domain struct {
	*adapter
	device.PD
}

//export softhca_alloc_pd
func softhca_alloc_pd(dev C.handle_t, pd *C.handle_t) C.int {
	d := &domain{adapter: of[*adapter](dev)}
	err := d.dev.AllocPD(&d.PD)
	if err == nil {
		*pd = newHandle(d)
	}
	return d.code("allocate PD", err)
}

//export softhca_dealloc_pd
func softhca_dealloc_pd(pd C.handle_t) C.int {
	d := of[*domain](pd)
	return end(pd, d.code("deallocate PD", d.Dealloc()))
}
