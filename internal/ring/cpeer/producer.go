//go:build cgo

package cpeer

// #include "peer.h"
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/ring"
)

// Producer is a thread of C that writes a work queue.
type Producer struct{ c *C.struct_producer }

// StartProducer starts a producer of n entries with one element each, nil
// without memory or a thread. It writes a send queue, whose entries Send
// returns, or with receives a receive queue, whose entries Recv returns.
func StartProducer(h *ring.Header, receives bool, n int) *Producer {
	kind := C.int(0)
	if receives {
		kind = 1
	}
	p := C.producer_start((*C.struct_ring)(unsafe.Pointer(h)), kind, C.uint64_t(n))
	if p == nil {
		return nil
	}
	return &Producer{p}
}

// Join waits until the producer has written everything.
func (p *Producer) Join() { C.producer_join(p.c) }

// Send returns entry i of a producer of sends, and its element.
func Send(i uint64) (ring.SendWQE, ib.SGE) {
	n := uint32(i)
	return ring.SendWQE{
		WRID: i, RemoteAddr: i * 5, CompareAdd: i * 7, Swap: i * 11, Length: n, RKey: ib.RKey(n * 13), Imm: n * 17,
		Opcode: ib.WROpcode(i), Flags: ib.SendFlags(i >> 8), NumSGE: 1,
	}, element(i)
}

// Recv returns entry i of a producer of receives, and its element.
func Recv(i uint64) (ring.RecvWQE, ib.SGE) {
	return ring.RecvWQE{WRID: i, Length: uint32(i), NumSGE: 1}, element(i)
}

func element(i uint64) ib.SGE {
	return ib.SGE{Addr: ^i, Length: uint32(i), LKey: ib.LKey(uint32(i) * 3)}
}

// PostSend makes C code add a work request of one element to a send queue. It
// blocks until there is room.
func PostSend(h *ring.Header, w ring.SendWQE, s ib.SGE) {
	C.post_send((*C.struct_ring)(unsafe.Pointer(h)), (*C.struct_ring_send)(unsafe.Pointer(&w)), (*C.struct_ring_sge)(unsafe.Pointer(&s)))
}

// PostRecv makes C code add a work request of one element to a receive queue.
// It blocks until there is room.
func PostRecv(h *ring.Header, w ring.RecvWQE, s ib.SGE) {
	C.post_recv((*C.struct_ring)(unsafe.Pointer(h)), (*C.struct_ring_recv)(unsafe.Pointer(&w)), (*C.struct_ring_sge)(unsafe.Pointer(&s)))
}
