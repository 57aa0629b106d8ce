package hca

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
)

// flight is a request and its way through two adapters in virtual time: what
// the benchmarks take apart and the allocation tests count.
type flight struct {
	*rig
	wr   ib.SendWR
	recv ib.RecvWR
	wcs  [64]ib.WC
	d    fabric.Datagram
}

// newFlight returns two adapters connected at a path MTU of 4096, and a work
// request of n bytes. Receives are posted when the request needs them.
func newFlight(tb testing.TB, op ib.WROpcode, n int) *flight {
	tb.Helper()
	cap := ib.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}
	return newFlightOn(newRig(tb, ib.RC, cap).connect(ib.MTU4096), op, n)
}

// newFlightOn returns the same with adapters that are connected.
func newFlightOn(r *rig, op ib.WROpcode, n int) *flight {
	f := &flight{rig: r}
	a, b := f.side[0], f.side[1]
	f.wr = ib.SendWR{
		Opcode: op, Flags: ib.SendSignaled, SGList: []ib.SGE{a.sge(0, n)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), CompareAdd: 1,
	}
	if op == ib.WRSend {
		f.recv = ib.RecvWR{SGList: []ib.SGE{b.sge(0, n)}}
	}
	return f
}

// request posts n messages and lets the requester transmit them.
func (f *flight) request(n int) {
	for range n {
		if f.recv.SGList != nil {
			if _, err := f.side[1].qp.PostRecv(f.recv); err != nil {
				f.t.Fatal(err)
			}
		}
		f.post(0, f.wr)
	}
	f.side[0].hca.Shard().Transmit(f.now, f.side[0].batch)
}

// arrive hands what side i has built to the other side.
func (f *flight) arrive(i int) {
	s, peer := f.side[i], f.side[1-i]
	for _, run := range s.batch.Pending() {
		f.d = datagram(&run, run.Bytes, 0)
		f.d.Stride = run.Size
		peer.hca.Shard().Receive(f.now, &f.d)
	}
	s.batch.Reset()
}

// respond lets the responder transmit what it owes.
func (f *flight) respond() { f.side[1].hca.Shard().Transmit(f.now, f.side[1].batch) }

// complete takes the completions of n messages and fails if one failed.
func (f *flight) complete(n int) {
	f.completeSide(0, n)
	if f.recv.SGList != nil {
		f.completeSide(1, n)
	}
}

func (f *flight) completeSide(i, n int) {
	got := f.side[i].cq.Poll(f.wcs[:])
	if got != n {
		f.t.Fatalf("side %d has %d completions of %d messages", i, got, n)
	}
	for k := range got {
		if st := f.wcs[k].Status; st != ib.WCSuccess {
			f.t.Fatalf("side %d: a message ended with %v", i, st)
		}
	}
}

// trip is the whole way of one message.
func (f *flight) trip() {
	f.request(1)
	f.arrive(0)
	f.respond()
	f.arrive(1)
	f.complete(1)
}
