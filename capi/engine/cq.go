//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
)

// completions is a completion queue.
type completions struct {
	*adapter
	subject
	device.CQ

	mu   lock.Mutex[lock.Completions] // guards gone
	gone bool                         // C has destroyed it
}

// ringOf returns the memory of a queue in C's form.
func ringOf(h *ring.Header) *C.struct_ring { return (*C.struct_ring)(unsafe.Pointer(h)) }

//export softhca_create_cq
func softhca_create_cq(dev C.handle_t, c *C.struct_softhca_cq) C.int {
	q := &completions{adapter: of[*adapter](dev)}
	q.subject = subject{unsafe.Pointer(c.object)}
	header := C.struct_softhca_room{size: ring.HeaderSize} // without address: the header is not in the program's memory
	cfg := device.CQConfig{Entries: uint32(c.cqe), Timed: c.timed != 0, Queues: memoryOf(header, c.room)}
	err := q.dev.CreateCQ(&q.CQ, cfg, &q.subject, q.notify, q.wake)
	if err == nil {
		c.handle, c.ring, c.cqe = newHandle(q), ringOf(q.CQ.CQ.Header()), C.uint32_t(q.CQ.CQ.Cap())
	}
	return q.code("create CQ", err)
}

// notify is called on the shard's thread when the armed queue gets an entry.
func (q *completions) notify() {
	q.host.completed(q.user)
}

// wake wakes threads that sleep until the queue has an entry, because the device is gone. Any
// thread may call it, even just after the queue was destroyed.
func (q *completions) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.gone {
		q.host.completed(q.user)
	}
}

//export softhca_resize_cq
func softhca_resize_cq(cq C.handle_t, cqe *C.uint32_t) C.int {
	q := of[*completions](cq)
	err := q.Resize(uint32(*cqe))
	if err == nil {
		*cqe = C.uint32_t(q.CQ.CQ.Cap())
	}
	return q.code("resize CQ", err)
}

//export softhca_arm_cq
func softhca_arm_cq(cq C.handle_t, solicited C.int) C.int {
	q := of[*completions](cq)
	err := q.Called("ReqNotify", ib.ErrInvalidCQ)
	if err == nil {
		q.Arm(solicited != 0)
	}
	return q.code("arm CQ", err)
}

//export softhca_moderate_cq
func softhca_moderate_cq(cq C.handle_t, count, periodUS C.uint32_t) C.int {
	q := of[*completions](cq)
	return q.code("modify CQ", q.Moderate(qp.Moderation{Count: uint32(count), Period: time.Duration(periodUS) * time.Microsecond}))
}

//export softhca_await_cq
func softhca_await_cq(cq C.handle_t, n C.uint32_t) C.int {
	q := of[*completions](cq)
	return q.code("arm CQ", q.Waiting(uint32(n)))
}

//export softhca_destroy_cq
func softhca_destroy_cq(cq C.handle_t) C.int {
	q := of[*completions](cq)
	code := q.destroy("DestroyCQ", q.Destroy)
	if code == 0 {
		q.mu.Lock()
		q.gone = true
		q.mu.Unlock()
	}
	return end(cq, code)
}

//export softhca_progress
func softhca_progress(cq C.handle_t, waits *C.int) C.int {
	q := of[*completions](cq)
	if err := q.dev.Alive(); err != nil {
		return errno(err)
	}
	q.dev.Progress()
	*waits = flag(q.dev.PostsWait())
	return 0
}

//export softhca_overdue
func softhca_overdue(dev C.handle_t, waits *C.int) C.int {
	a := of[*adapter](dev)
	a.dev.SendOverdue()
	*waits = flag(a.dev.PostsWait())
	return 0
}
