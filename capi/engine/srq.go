//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// shared is a shared receive queue.
type shared struct {
	*domain
	subject
	device.SRQ
}

//export softhca_create_srq
func softhca_create_srq(pd C.handle_t, c *C.struct_softhca_srq) C.int {
	s := &shared{domain: of[*domain](pd)}
	s.subject = subject{unsafe.Pointer(c.object)}
	cfg := device.SRQConfig{MaxWR: uint32(c.max_wr), MaxSGE: uint32(c.max_sge), Limit: uint32(c.limit), Queues: memoryOf(c.room)}
	var err error
	if c.xrcd != 0 {
		err = s.domain.CreateXRCSRQ(&s.SRQ, &s.subject, cfg, func() (*device.XRCD, *device.CQ, error) {
			return &of[*xrcDomain](c.xrcd).XRCD, &of[*completions](c.cq).CQ, nil
		})
	} else {
		err = s.domain.CreateSRQ(&s.SRQ, &s.subject, cfg)
	}
	if err == nil {
		c.srqn = C.uint32_t(s.SRQ.SRQ.Num())
		wr, sge := s.SRQ.SRQ.Cap()
		c.handle, c.ring = newHandle(s), ringOf(s.SRQ.SRQ.Queue())
		c.max_wr, c.max_sge = C.uint32_t(wr), C.uint32_t(sge)
		c.watched = flag(s.dev.Watched("PostSRQRecv"))
	}
	return s.code("create SRQ", err)
}

//export softhca_limit_srq
func softhca_limit_srq(srq C.handle_t, limit C.uint32_t) C.int {
	s := of[*shared](srq)
	return s.code("modify SRQ", s.SetLimit(uint32(limit)))
}

//export softhca_resize_srq
func softhca_resize_srq(srq C.handle_t, wr C.uint32_t) C.int {
	s := of[*shared](srq)
	return s.code("modify SRQ", s.Resize(uint32(wr)))
}

//export softhca_query_srq
func softhca_query_srq(srq C.handle_t, c *C.struct_softhca_srq) C.int {
	s := of[*shared](srq)
	wr, sge := s.SRQ.SRQ.Cap()
	c.max_wr, c.max_sge, c.limit = C.uint32_t(wr), C.uint32_t(sge), C.uint32_t(s.SRQ.SRQ.Limit())
	return 0
}

//export softhca_check_srq
func softhca_check_srq(srq C.handle_t) C.int {
	s := of[*shared](srq)
	return s.code("post to SRQ", s.Called("PostSRQRecv", ib.ErrInvalidSRQ))
}

//export softhca_refused_srq
func softhca_refused_srq(srq C.handle_t, call *C.char, code C.int, why *C.char) C.int {
	return of[*shared](srq).code(C.GoString(call), fmt.Errorf("%s: %w", C.GoString(why), syscall.Errno(code)))
}

//export softhca_destroy_srq
func softhca_destroy_srq(srq C.handle_t) C.int {
	s := of[*shared](srq)
	return end(srq, s.destroy("DestroySRQ", s.Destroy))
}
