//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
)

// region is a memory region.
type region struct {
	*adapter
	r *memory.Region

	// The device's thread guards what follows.
	d    *domain
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
	m.lkey, m.rkey = C.uint32_t(r.r.LKey()), C.uint32_t(r.r.LKey())
}

//export softhca_reg_mr
func softhca_reg_mr(pd C.handle_t, m *C.struct_softhca_mr) C.int {
	r := &region{d: of[*domain](pd)}
	r.adapter = r.d.adapter
	c, err := regionConfig(m)
	if err == nil {
		err = r.dev.Call("RegMR", nil, func(instant) (err error) {
			r.r, err = r.d.pd.RegMR(c)
			return err
		})
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
		m.access = C.uint32_t(r.r.Access())
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
	to := r.d
	if pd != 0 {
		to = of[*domain](pd)
	}
	err := r.dev.Call("ReregMR", nil, func(instant) error {
		c, change, err := r.change(m, memory.Change(what))
		if err != nil {
			return err
		}
		if err := r.d.pd.ReregMR(r.r, change, c, to.pd); err != nil {
			return err
		}
		r.d = to
		r.zero = r.zero && change&memory.ChangeTranslation == 0
		r.putKeys(m)
		return nil
	})
	return r.code("re-register MR", err)
}

//export softhca_dereg_mr
func softhca_dereg_mr(mr C.handle_t) C.int {
	r := of[*region](mr)
	return end(mr, r.code("deregister MR", r.dev.Call("DeregMR", nil, func(instant) error { return r.d.pd.DeregMR(r.r) })))
}
