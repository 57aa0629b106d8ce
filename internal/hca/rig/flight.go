package rig

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/virtual"
)

// Flight takes a request through two adapters in virtual time, step by step,
// for benchmarks and allocation tests.
type Flight struct {
	*Rig
	WR   ib.SendWR
	Recv ib.RecvWR
	WCs  [64]ib.WC
	d    fabric.Datagram
}

// NewFlight returns two adapters connected at a path MTU of 4096, and a work
// request of n bytes. Receives are posted when the request needs them.
func NewFlight(tb testing.TB, op ib.WROpcode, n int) *Flight {
	tb.Helper()
	cap := ib.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}
	return NewFlightOn(New(tb, ib.RC, cap).Connect(ib.MTU4096), op, n)
}

// NewFlightOn returns the same on two connected adapters.
func NewFlightOn(r *Rig, op ib.WROpcode, n int) *Flight {
	f := &Flight{Rig: r}
	a, b := f.Sides[0], f.Sides[1]
	f.WR = ib.SendWR{
		Opcode: op, Flags: ib.SendSignaled, SGList: []ib.SGE{a.SGE(0, n)},
		RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(), CompareAdd: 1, Flush: ib.Flush{Length: 64, Type: ib.FlushGlobal},
	}
	if op == ib.WRSend {
		f.Recv = ib.RecvWR{SGList: []ib.SGE{b.SGE(0, n)}}
	}
	return f
}

// Request posts n messages and lets the requester transmit them.
func (f *Flight) Request(n int) {
	for range n {
		if f.Recv.SGList != nil {
			if _, err := f.Sides[1].QP.PostRecv(f.Recv); err != nil {
				f.T.Fatal(err)
			}
		}
		f.Post(0, f.WR)
	}
	f.Sides[0].HCA.Single().Transmit(f.Now, f.Sides[0].Batch)
}

// Arrive delivers the packets of side i to the other side.
func (f *Flight) Arrive(i int) {
	s, peer := f.Sides[i], f.Sides[1-i]
	for _, run := range s.Batch.Pending() {
		f.d = virtual.Arrival(&run, 0, run.Count)
		peer.HCA.Single().Receive(f.Now, &f.d)
	}
	s.Batch.Reset()
}

// Respond lets the responder transmit its responses.
func (f *Flight) Respond() { f.Sides[1].HCA.Single().Transmit(f.Now, f.Sides[1].Batch) }

// Complete takes the completions of n messages and fails if one failed.
func (f *Flight) Complete(n int) {
	f.completeSide(0, n)
	if f.Recv.SGList != nil {
		f.completeSide(1, n)
	}
}

func (f *Flight) completeSide(i, n int) {
	got := f.Sides[i].CQ.Poll(f.WCs[:])
	if got != n {
		f.T.Fatalf("side %d has %d completions of %d messages", i, got, n)
	}
	for k := range got {
		if st := f.WCs[k].Status; st != ib.WCSuccess {
			f.T.Fatalf("side %d: a message ended with %v", i, st)
		}
	}
}

// Trip takes one message through all steps.
func (f *Flight) Trip() {
	f.Request(1)
	f.Arrive(0)
	f.Respond()
	f.Arrive(1)
	f.Complete(1)
}

// NewDeep returns two adapters whose connection allows depth outstanding READs
// and atomics, with a window in bytes; 0 for the default.
func NewDeep(t testing.TB, depth uint8, window int) *Rig {
	r := &Rig{T: t}
	for i := range r.Sides {
		c := Config{Type: ib.RC, Cap: ib.QPCap{MaxSendWR: 512, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}, Bytes: 64 << 10}
		c.HCA.Settings.WindowBytes = window
		r.Sides[i] = c.NewSide(t, byte(i+1))
	}
	for i := range r.Sides {
		a := r.Attrs(i, ib.MTU4096)
		a.MaxRDAtomic, a.MaxDestRDAtomic = depth, depth
		r.Walk(i, a, ib.RTS)
	}
	return r
}
