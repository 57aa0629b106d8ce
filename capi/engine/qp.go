//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// errControlled is returned to a thread that sets a controlled Q_Key without CAP_NET_RAW.
var errControlled = fmt.Errorf("a Q_Key with bit 31 set needs CAP_NET_RAW: %w", ib.EPERM)

// pair is a queue pair.
type pair struct {
	*adapter
	subject
	device.QP
}

// code is that of the adapter. The log says which queue pair it is.
func (q *pair) code(what string, err error) C.int {
	if err != nil && q.QP.QP != nil {
		q.dev.CallFailed(what, err, slog.String("qp", q.QP.QP.Num().String()))
		return errno(err)
	}
	return q.adapter.code(what, err)
}

//export softhca_create_qp
func softhca_create_qp(pd C.handle_t, c *C.struct_softhca_qp) C.int {
	d := of[*domain](pd)
	q := &pair{adapter: d.adapter, subject: subject{unsafe.Pointer(c.object)}}
	cfg := hca.QPConfig{Type: ib.QPType(c._type), Cap: capOf(&c.cap), SigAll: c.sig_all != 0, Flags: ib.QPCreateFlags(c.create_flags)}
	cfg.Queues = memoryOf(c.send_room, c.recv_room)
	cfg.SendCQ = of[*completions](c.send_cq).CQ.CQ
	if c.recv_cq != 0 {
		cfg.RecvCQ = of[*completions](c.recv_cq).CQ.CQ
	}
	if c.srq != 0 {
		cfg.SRQ = of[*shared](c.srq).SRQ.SRQ
	}
	err := d.CreateQP(&q.QP, &q.subject, func() (hca.QPConfig, error) { return cfg, nil })
	if err == nil {
		send, recv := q.QP.QP.Queues()
		c.handle, c.send, c.recv, c.qpn = newHandle(q), ringOf(send), ringOf(recv), C.uint32_t(q.QP.QP.Num())
		putCap(&c.cap, q.QP.QP.Cap())
		c.watched = flag(q.dev.Watched("PostSend") || q.dev.Watched("PostRecv"))
	}
	return q.code("create QP", err)
}

//export softhca_modify_qp
func softhca_modify_qp(h C.handle_t, c *C.struct_softhca_qp_attr, mask C.uint32_t) C.int {
	q, a := of[*pair](h), attrOf(c)
	if ib.AttrMask(mask)&ib.AttrQKey != 0 && a.QKey&ib.QKeyControlled != 0 && !hasNetRaw() {
		return q.code("modify QP", errControlled)
	}
	return q.code("modify QP", q.Modify(&a, ib.AttrMask(mask)))
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
	return q.code("limit the rate of a QP", q.SetRateLimit(qp.RateLimit{Rate: uint32(rate), Burst: uint32(burst)}))
}

//export softhca_query_qp
func softhca_query_qp(h C.handle_t, c *C.struct_softhca_qp_attr) C.int {
	q := of[*pair](h)
	a, err := q.Query()
	if err == nil {
		putAttr(c, &a)
	}
	return q.code("query QP", err)
}

//export softhca_destroy_qp
func softhca_destroy_qp(h C.handle_t, detach C.int) C.int {
	q := of[*pair](h)
	return end(h, q.destroy("DestroyQP", func() error { return q.Destroy(detach != 0) }))
}

//export softhca_attach
func softhca_attach(h C.handle_t, gid *C.uint8_t) C.int {
	q := of[*pair](h)
	return q.code("attach to multicast group", q.Attach(*(*ib.GID)(unsafe.Pointer(gid))))
}

//export softhca_detach
func softhca_detach(h C.handle_t, gid *C.uint8_t) C.int {
	q := of[*pair](h)
	return q.code("detach from multicast group", q.Detach(*(*ib.GID)(unsafe.Pointer(gid))))
}

//export softhca_check
func softhca_check(h C.handle_t, kind C.int) C.int {
	q, verb := of[*pair](h), "PostSend"
	if kind == C.SOFTHCA_RECV {
		verb = "PostRecv"
	}
	return q.code(verb, q.Called(verb, device.ErrNoQP))
}

//export softhca_refused
func softhca_refused(h C.handle_t, call *C.char, code C.int, why *C.char) C.int {
	return of[*pair](h).code(C.GoString(call), fmt.Errorf("%s: %w", C.GoString(why), syscall.Errno(code)))
}

//export softhca_doorbell
func softhca_doorbell(h C.handle_t, p *C.struct_softhca_posted, waits *C.int) C.int {
	q := of[*pair](h)
	q.dev.Post(q.QP.QP, qp.Posted{Requests: int(p.requests), Bytes: uint64(p.bytes), Behind: p.behind != 0, HonorsSuppression: true})
	*waits = flag(q.dev.PostsWait())
	return 0
}
