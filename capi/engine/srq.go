//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/qp"
)

// shared is a shared receive queue.
type shared struct {
	*domain
	subject
	srq *qp.SRQ
}

//export softhca_create_srq
func softhca_create_srq(pd C.handle_t, c *C.struct_softhca_srq) C.int {
	s := &shared{domain: of[*domain](pd), subject: subject{new(device.Object), unsafe.Pointer(c.object)}}
	err := s.create("CreateSRQ", &s.subject, func() (err error) {
		s.srq, err = s.pd.CreateSRQ(uint32(c.max_wr), uint32(c.max_sge), uint32(c.limit))
		s.obj.SRQ = s.srq
		return err
	})
	if err == nil {
		wr, sge := s.srq.Cap()
		c.handle, c.ring = newHandle(s), ringOf(s.srq.Queue())
		c.max_wr, c.max_sge = C.uint32_t(wr), C.uint32_t(sge)
		c.watched = flag(s.dev.Watched("PostSRQRecv"))
	}
	return s.code("create SRQ", err)
}

//export softhca_limit_srq
func softhca_limit_srq(srq C.handle_t, limit C.uint32_t) C.int {
	s := of[*shared](srq)
	err := s.obj.Called("SetSRQLimit", errGone)
	if err == nil {
		err = s.srq.SetLimit(uint32(limit))
	}
	return s.code("modify SRQ", err)
}

//export softhca_query_srq
func softhca_query_srq(srq C.handle_t, c *C.struct_softhca_srq) C.int {
	s := of[*shared](srq)
	wr, sge := s.srq.Cap()
	c.max_wr, c.max_sge, c.limit = C.uint32_t(wr), C.uint32_t(sge), C.uint32_t(s.srq.Limit())
	return 0
}

//export softhca_check_srq
func softhca_check_srq(srq C.handle_t) C.int {
	s := of[*shared](srq)
	return s.code("post to SRQ", s.obj.Called("PostSRQRecv", errGone))
}

//export softhca_destroy_srq
func softhca_destroy_srq(srq C.handle_t) C.int {
	s := of[*shared](srq)
	return end(srq, s.destroy("DestroySRQ", func() error { return s.remove("DestroySRQ", func() error { return s.pd.DestroySRQ(s.srq) }) }))
}
