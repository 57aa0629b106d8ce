//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// errControlled is returned to a thread that sets a controlled Q_Key without CAP_NET_RAW.
var errControlled = fmt.Errorf("a Q_Key with bit 31 set needs CAP_NET_RAW: %w", ib.EPERM)

// pair is a queue pair.
type pair struct {
	*domain
	subject
	qp *qp.QP

	groups int // number of multicast groups it is attached to; guarded by the device's thread
}

//export softhca_create_qp
func softhca_create_qp(pd C.handle_t, c *C.struct_softhca_qp) C.int {
	q := &pair{domain: of[*domain](pd), subject: subject{user: unsafe.Pointer(c.object)}}
	cfg := hca.QPConfig{Type: ib.QPType(c._type), Cap: capOf(&c.cap), SigAll: c.sig_all != 0}
	cfg.SendCQ, cfg.RecvCQ = of[*completions](c.send_cq).cq, of[*completions](c.recv_cq).cq
	if c.srq != 0 {
		cfg.SRQ = of[*shared](c.srq).srq
	}
	err := q.create("CreateQP", &q.subject, func() (err error) {
		if cfg.Type == ib.GSI { // the adapter's own queue pair
			return ib.ErrInvalidServiceType
		}
		q.qp, err = q.dev.HCA.CreateQP(q.pd, cfg)
		q.obj.QP = q.qp
		return err
	})
	if err == nil {
		send, recv := q.qp.Queues()
		c.handle, c.send, c.recv, c.qpn = newHandle(q), ringOf(send), ringOf(recv), C.uint32_t(q.qp.Num())
		putCap(&c.cap, q.qp.Cap())
		c.watched = flag(q.dev.Watched("PostSend") || q.dev.Watched("PostRecv"))
	}
	return q.code("create QP", err)
}

//export softhca_modify_qp
func softhca_modify_qp(h C.handle_t, c *C.struct_softhca_qp_attr, mask C.uint32_t) C.int {
	q, a := of[*pair](h), attrOf(c)
	return q.code("modify QP", q.obj.Call("ModifyQP", errGone, func(now instant) error {
		if ib.AttrMask(mask)&ib.AttrQKey != 0 && a.QKey&ib.QKeyControlled != 0 && !hasNetRaw() {
			return errControlled
		}
		err := q.qp.Modify(now, &a, ib.AttrMask(mask))
		q.dev.HCA.Shard().Arm(&q.qp.End)
		return err
	}))
}

// hasNetRaw reports whether the calling thread has CAP_NET_RAW in its network namespace, which
// is also the adapter's. Linux checks the same when a thread sets a controlled Q_Key and when
// it opens a raw socket, so hasNetRaw tries to open one.
func hasNetRaw() bool {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} { // a host may lack one of them
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		switch {
		case err == nil:
			return unix.Close(fd) == nil
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE): // the kernel checks the capability before it needs a descriptor
			return true
		case errors.Is(err, unix.EPERM):
			return false
		}
	}
	return false
}

//export softhca_limit_qp
func softhca_limit_qp(h C.handle_t, rate, burst C.uint32_t) C.int {
	q := of[*pair](h)
	return q.code("limit the rate of a QP", q.obj.Call("ModifyQPRateLimit", errGone, func(instant) error {
		err := q.qp.SetRateLimit(qp.RateLimit{Rate: uint32(rate), Burst: uint32(burst)})
		q.dev.HCA.Shard().Arm(&q.qp.End)
		return err
	}))
}

//export softhca_query_qp
func softhca_query_qp(h C.handle_t, c *C.struct_softhca_qp_attr) C.int {
	q := of[*pair](h)
	return q.code("query QP", q.obj.Call("QueryQP", errGone, func(instant) error {
		a := q.qp.Query()
		putAttr(c, &a)
		return nil
	}))
}

//export softhca_destroy_qp
func softhca_destroy_qp(h C.handle_t, detach C.int) C.int {
	q := of[*pair](h)
	var groups []netip.Addr
	code := q.destroy("DestroyQP", &q.subject, func() error {
		if q.groups > 0 && detach == 0 {
			return fmt.Errorf("the QP is attached to %d multicast groups: %w", q.groups, ib.EBUSY)
		}
		groups = q.dev.HCA.LeaveGroups(q.qp)
		q.dev.HCA.DestroyQP(q.pd, q.qp)
		return nil
	})
	q.leave(groups...)
	return end(h, code)
}

//export softhca_check
func softhca_check(h C.handle_t, kind C.int) C.int {
	q, verb := of[*pair](h), "PostSend"
	if kind == C.SOFTHCA_RECV {
		verb = "PostRecv"
	}
	return q.code(verb, q.obj.Called(verb, errGone))
}

//export softhca_doorbell
func softhca_doorbell(h C.handle_t, p *C.struct_softhca_posted, waits *C.int) C.int {
	q := of[*pair](h)
	q.dev.Post(q.qp, qp.Posted{Requests: int(p.requests), Bytes: uint64(p.bytes), Behind: p.behind != 0, Heeds: true})
	*waits = flag(q.dev.PostsWait())
	return 0
}
