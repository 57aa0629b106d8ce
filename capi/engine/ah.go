//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import "github.com/softhca/softhca/ib"

//export softhca_create_ah
func softhca_create_ah(pd C.handle_t, av *C.struct_softhca_av, ah *C.uint64_t) C.int {
	d, a := of[*domain](pd), avOf(av)
	h, err := d.CreateAH(&a)
	*ah = C.uint64_t(h)
	return d.code("create AH", err)
}

//export softhca_destroy_ah
func softhca_destroy_ah(pd C.handle_t, ah C.uint64_t) C.int {
	d := of[*domain](pd)
	return d.code("destroy AH", d.DestroyAH(ib.AHHandle(ah)))
}
