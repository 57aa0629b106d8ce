//go:build cgo

package hca_test

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/ring/cpeer"
)

// TestCProgram has C write receives and sends into the queues of a queue pair
// and take its completions, in memory of C: messages move both ways, and what
// C writes wrong ends as if Go had.
func TestCProgram(t *testing.T) {
	for _, kind := range wildKinds {
		var m cpeer.Memory
		rec := &recorder{t: t}
		alloc := func(n int) []byte {
			b := m.Alloc(n)
			rec.blocks = append(rec.blocks, b)
			return b
		}
		w := newWild(t, kind.typ, kind.shared, ring.Allocator{Alloc: alloc, Free: m.Free}, rec)
		w.nurse()
		board := cpeer.NewBoard(&m)
		reader := cpeer.StartReader(w.cq[0].Header(), board, 16)
		send, recv := (*ring.Header)(unsafe.Pointer(&w.send[0])), (*ring.Header)(unsafe.Pointer(&w.recv[0]))
		cpeer.PostRecv(recv, ring.RecvWQE{WRID: 10, Length: 100, NumSGE: 1}, w.mem[0].sge(1024, 100))
		w.Post(1, w.message(1, ib.WRSend, 60))
		w.settle()
		if kind.typ == ib.UD {
			// The address handle after the elements' room is the one that Go
			// wrote: these entries go to the same peer.
			for i := range uint32(3) {
				put(w.send[ring.HeaderSize+(i+1)*send.Stride-16:], ring.SendTo{AH: uint64(w.ah[0]), QPN: w.Sides[1].QP.Num(), QKey: wildQKey})
			}
		}
		for i := range uint64(3) {
			e := ring.SendWQE{WRID: i, Length: 32, Opcode: ib.WRSend, Flags: ib.SendSignaled, NumSGE: 1}
			if i == 1 {
				e.Opcode = 99
			}
			cpeer.PostSend(send, e, w.mem[0].sge(0, 32))
		}
		w.Sides[0].HCA.Single().RingDoorbell(w.Sides[0].QP)
		w.settle()
		n := w.Sides[0].QP.Num()
		want := []cpeer.Taken{
			{WRID: 10, QPN: n}, {WRID: 0, QPN: n}, {WRID: 1, QPN: n, Status: ib.WCLocQPOpErr}, {WRID: 2, QPN: n, Status: ib.WCWRFlushErr},
		}
		if got := reader.Stop(); !slices.Equal(got, want) {
			t.Errorf("%v: C took %+v, want %+v", kind.typ, got, want)
		}
		w.healthyAll()
		board.Free(&m)
	}
}
