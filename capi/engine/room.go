//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
)

// rooms is the memory of one object's queues. The queues take the rooms in the order in which they
// allocate. Memory comes from C's allocator if a room has no address, and after the last room, such
// as for a resized queue.
type rooms struct {
	all  []C.struct_softhca_room
	next int
}

// memoryOf returns an allocator that uses these rooms, or the zero value if the program provides no
// memory.
func memoryOf(all ...C.struct_softhca_room) ring.Allocator {
	for i := range all {
		if all[i].addr != nil {
			r := &rooms{all: all}
			return ring.Allocator{Alloc: r.alloc, Free: r.free}
		}
	}
	return ring.Allocator{}
}

func (r *rooms) alloc(size int) []byte {
	if r.next == len(r.all) {
		return alloc(size)
	}
	m := &r.all[r.next]
	r.next++
	if m.addr == nil {
		return alloc(size)
	}
	b := unsafe.Slice((*byte)(m.addr), m.size)
	clear(b)
	return b
}

// free frees memory of C's allocator. The program frees its own memory after the queue is destroyed.
func (r *rooms) free(b []byte) {
	for i := range r.all {
		if r.all[i].addr == unsafe.Pointer(unsafe.SliceData(b)) {
			return
		}
	}
	free(b)
}

//export softhca_size_cq
func softhca_size_cq(c *C.struct_softhca_cq) C.int {
	c.room.size = C.uint64_t(ring.CQBytes(uint32(c.cqe), c.timed != 0))
	return 0
}

//export softhca_size_srq
func softhca_size_srq(c *C.struct_softhca_srq) C.int {
	c.room.size = C.uint64_t(qp.SRQBytes(uint32(c.max_wr), max(uint32(c.max_sge), 1)))
	return 0
}

//export softhca_size_qp
func softhca_size_qp(c *C.struct_softhca_qp) C.int {
	caps := capOf(&c.cap)
	send, recv := qp.QueueBytes(ib.QPType(c._type), &caps)
	c.send_room.size, c.recv_room.size = C.uint64_t(send), C.uint64_t(recv)
	return 0
}
