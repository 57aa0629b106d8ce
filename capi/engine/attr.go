//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// capOf and putCap convert sizes from C to Go and back.
func capOf(c *C.struct_softhca_cap) ib.QPCap {
	return ib.QPCap{
		MaxSendWR: uint32(c.send_wr), MaxRecvWR: uint32(c.recv_wr), MaxSendSGE: uint32(c.send_sge), MaxRecvSGE: uint32(c.recv_sge),
		MaxInlineData: uint32(c.inline_data),
	}
}

func putCap(c *C.struct_softhca_cap, g ib.QPCap) {
	*c = C.struct_softhca_cap{
		send_wr: C.uint32_t(g.MaxSendWR), recv_wr: C.uint32_t(g.MaxRecvWR), send_sge: C.uint32_t(g.MaxSendSGE),
		recv_sge: C.uint32_t(g.MaxRecvSGE), inline_data: C.uint32_t(g.MaxInlineData),
	}
}

// avOf and putAV convert address vectors.
func avOf(c *C.struct_softhca_av) ib.AHAttr {
	return ib.AHAttr{
		DGID: *(*ib.GID)(unsafe.Pointer(&c.dgid)), FlowLabel: uint32(c.flow_label), SGIDIndex: uint8(c.sgid_index),
		HopLimit: uint8(c.hop_limit), TrafficClass: uint8(c.traffic_class), SL: uint8(c.sl),
		StaticRate: ib.Rate(c.static_rate), Port: uint8(c.port),
	}
}

func putAV(c *C.struct_softhca_av, g *ib.AHAttr) {
	*c = C.struct_softhca_av{
		flow_label: C.uint32_t(g.FlowLabel), sgid_index: C.uint8_t(g.SGIDIndex), hop_limit: C.uint8_t(g.HopLimit),
		traffic_class: C.uint8_t(g.TrafficClass), sl: C.uint8_t(g.SL), static_rate: C.uint8_t(g.StaticRate), port: C.uint8_t(g.Port),
	}
	*(*ib.GID)(unsafe.Pointer(&c.dgid)) = g.DGID
}

// attrOf and putAttr convert the attributes of a queue pair.
func attrOf(c *C.struct_softhca_qp_attr) ib.QPAttr {
	return ib.QPAttr{
		State: ib.QPState(c.state), CurState: ib.QPState(c.cur_state), PathMTU: ib.MTU(c.path_mtu), PathMigState: ib.MigState(c.mig_state),
		QKey: ib.QKey(c.qkey), RQPSN: ib.NewPSN(uint32(c.rq_psn)), SQPSN: ib.NewPSN(uint32(c.sq_psn)), DestQPN: ib.QPN(c.dest_qpn),
		AccessFlags: ib.Access(c.access), Cap: capOf(&c.cap), AV: avOf(&c.av), AltAV: avOf(&c.alt_av),
		PKeyIndex: uint16(c.pkey_index), AltPKeyIndex: uint16(c.alt_pkey_index), EnSQDAsyncNotify: c.sqd_notify != 0,
		MaxRDAtomic: uint8(c.max_rd_atomic), MaxDestRDAtomic: uint8(c.max_dest_rd_atomic), MinRNRTimer: uint8(c.min_rnr_timer),
		Port: uint8(c.port), Timeout: uint8(c.timeout), RetryCnt: uint8(c.retry_cnt), RNRRetry: uint8(c.rnr_retry),
		AltPort: uint8(c.alt_port), AltTimeout: uint8(c.alt_timeout), RateLimit: uint32(c.rate_limit),
	}
}

func putAttr(c *C.struct_softhca_qp_attr, g *ib.QPAttr) {
	*c = C.struct_softhca_qp_attr{
		state: C.uint32_t(g.State), cur_state: C.uint32_t(g.CurState), path_mtu: C.uint32_t(g.PathMTU), mig_state: C.uint32_t(g.PathMigState),
		qkey: C.uint32_t(g.QKey), rq_psn: C.uint32_t(g.RQPSN.Value()), sq_psn: C.uint32_t(g.SQPSN.Value()), dest_qpn: C.uint32_t(g.DestQPN),
		access: C.uint32_t(g.AccessFlags), rate_limit: C.uint32_t(g.RateLimit),
		pkey_index: C.uint16_t(g.PKeyIndex), alt_pkey_index: C.uint16_t(g.AltPKeyIndex), sqd_notify: C.uint8_t(flag(g.EnSQDAsyncNotify)),
		sq_draining: C.uint8_t(flag(g.SQDraining)), max_rd_atomic: C.uint8_t(g.MaxRDAtomic), max_dest_rd_atomic: C.uint8_t(g.MaxDestRDAtomic),
		min_rnr_timer: C.uint8_t(g.MinRNRTimer), port: C.uint8_t(g.Port), timeout: C.uint8_t(g.Timeout), retry_cnt: C.uint8_t(g.RetryCnt),
		rnr_retry: C.uint8_t(g.RNRRetry), alt_port: C.uint8_t(g.AltPort), alt_timeout: C.uint8_t(g.AltTimeout),
	}
	putCap(&c.cap, g.Cap)
	putAV(&c.av, &g.AV)
	putAV(&c.alt_av, &g.AltAV)
}
