//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/memory"
)

// region is a memory region. A program re-registers it from one thread at a time.
type region struct {
	*adapter
	device.MR
	zero bool // registered at address 0 without the right ZERO_BASED
}

// regionConfig returns the configuration of the region to register.
func regionConfig(m *C.struct_softhca_mr) (memory.RegionConfig, error) {
	c := memory.RegionConfig{IOVA: uint64(m.iova), Access: ib.Access(m.access), Foreign: true}
	if m.zero_iova != 0 {
		c.Access |= ib.AccessZeroBased
	}
	if c.Access&ib.AccessZeroBased != 0 {
		c.IOVA = 0
	}
	var err error
	c.Buf, err = memory.RawBuf(uintptr(m.addr), uint64(m.length))
	return c, err
}

// putKeys passes the keys to C. It passes the RKey even of a region without remote rights,
// where no request may use it: programs pass the RKey on before they add the rights.
func (r *region) putKeys(m *C.struct_softhca_mr) {
	key := C.uint32_t(r.View().LKey)
	m.lkey, m.rkey = key, key
}

//export softhca_reg_mr
func softhca_reg_mr(pd C.handle_t, m *C.struct_softhca_mr) C.int {
	d := of[*domain](pd)
	r := &region{adapter: d.adapter}
	c, err := regionConfig(m)
	if err == nil {
		err = d.RegMR(&r.MR, c)
	}
	if err == nil {
		m.handle = newHandle(r)
		r.zero = m.zero_iova != 0 && ib.Access(m.access)&ib.AccessZeroBased == 0
		r.putKeys(m)
	}
	return r.code("register MR", err)
}

// change returns which properties of a region change, and their new values. It uses the call's
// address and length only for a new translation, and its rights only if they change. The engine
// treats a region at address 0 as zero-based until it gets a new translation.
func (r *region) change(m *C.struct_softhca_mr, what memory.Change) (memory.RegionConfig, memory.Change, error) {
	moves := what&memory.ChangeTranslation != 0
	if !moves {
		m.addr, m.length = 0, 0
	}
	if what&memory.ChangeAccess == 0 {
		m.access = C.uint32_t(r.View().Access)
		if r.zero {
			m.access &^= C.uint32_t(ib.AccessZeroBased)
		}
		if moves {
			what |= memory.ChangeAccess
		}
	}
	m.zero_iova = flag(r.zero && !moves)
	c, err := regionConfig(m)
	return c, what, err
}

//export softhca_rereg_mr
func softhca_rereg_mr(m *C.struct_softhca_mr, what C.uint32_t, pd C.handle_t) C.int {
	r := of[*region](m.handle)
	var to *device.PD
	if pd != 0 {
		to = &of[*domain](pd).PD
	}
	c, change, err := r.change(m, memory.Change(what))
	if err == nil {
		err = r.Rereg(change, c, to)
	}
	if err == nil {
		r.zero = r.zero && change&memory.ChangeTranslation == 0
		r.putKeys(m)
	}
	return r.code("re-register MR", err)
}

//export softhca_dereg_mr
func softhca_dereg_mr(mr C.handle_t) C.int {
	r := of[*region](mr)
	return end(mr, r.code("deregister MR", r.Dereg()))
}
