//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/memory"
)

// region is a memory region. A program re-registers it from one thread at a time.
type region struct {
	*adapter
	device.MR
}

// config returns the configuration of a region that is not of device memory.
func (r *region) config(m *C.struct_softhca_mr) (c memory.RegionConfig, err error) {
	c = memory.RegionConfig{IOVA: uint64(m.iova), HasIOVA: true, Access: ib.Access(m.access), Foreign: true}
	if c.Access&ib.AccessZeroBased != 0 {
		c.IOVA = 0
	}
	switch m.memory {
	case C.SOFTHCA_IMPLICIT:
		c.Form = memory.FormImplicit
	case C.SOFTHCA_NULL:
		c.Form = memory.FormNull
	default:
		c.Buf, err = memory.RawBuf(uintptr(m.addr), uint64(m.length))
	}
	c.By = r.names.of(m)
	return c, err
}

// putKeys passes the keys to C. It passes the RKey even of a region without remote rights,
// where no request may use it: programs pass the RKey on before they add the rights.
func (r *region) putKeys(m *C.struct_softhca_mr) {
	key := C.uint32_t(r.View().LKey)
	m.lkey, m.rkey = key, key
}

// register registers the memory that C describes.
func (r *region) register(d *domain, m *C.struct_softhca_mr) error {
	if m.memory == C.SOFTHCA_DM {
		dm := of[*deviceMemory](m.dm)
		return d.RegDM(&r.MR, &dm.DM, uint64(m.addr), uint64(m.length), memory.RegionConfig{Access: ib.Access(m.access)})
	}
	c, err := r.config(m)
	if err != nil {
		return err
	}
	return d.RegMR(&r.MR, c)
}

//export softhca_reg_mr
func softhca_reg_mr(pd C.handle_t, m *C.struct_softhca_mr) C.int {
	d := of[*domain](pd)
	r := &region{adapter: d.adapter}
	err := r.register(d, m)
	if err == nil {
		m.handle = newHandle(r)
		r.putKeys(m)
	}
	return r.code("register MR", err)
}

//export softhca_rereg_mr
func softhca_rereg_mr(m *C.struct_softhca_mr, what C.uint32_t, pd C.handle_t) C.int {
	r := of[*region](m.handle)
	var to *device.PD
	if pd != 0 {
		to = &of[*domain](pd).PD
	}
	change, c := memory.Change(what), memory.RegionConfig{Access: ib.Access(m.access)}
	var err error
	if change&memory.ChangeTranslation != 0 {
		c, err = r.config(m)
	}
	if err == nil {
		err = r.Rereg(change, c, to)
	}
	if err == nil {
		r.putKeys(m)
	}
	return r.code("re-register MR", err)
}

//export softhca_dereg_mr
func softhca_dereg_mr(mr C.handle_t) C.int {
	r := of[*region](mr)
	return end(mr, r.code("deregister MR", r.Dereg()))
}

//export softhca_advise_mr
func softhca_advise_mr(pd C.handle_t, advice C.uint32_t, wait C.int, list *C.struct_softhca_sge, n C.uint32_t) C.int {
	d := of[*domain](pd)
	sges := make([]ib.SGE, n)
	for i, e := range unsafe.Slice(list, n) {
		sges[i] = ib.SGE{Addr: uint64(e.addr), Length: uint32(e.length), LKey: ib.LKey(e.lkey)}
	}
	return d.code("advise MR", d.Advise(ib.Advice(advice), wait != 0, sges))
}
