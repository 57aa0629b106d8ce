package qp_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestWindowShrinksInAMessage shows that a sender whose packets in flight
// requested no acknowledgement requests one when the window shrinks below them,
// instead of waiting for its retry timer.
func TestWindowShrinksInAMessage(t *testing.T) {
	const losses = 28 // of each of two others: four times as many as a round may lose
	s := rig.NewSolo(t, rig.SoloConfig{Batch: rig.MaxPacket, HCA: hca.Config{Settings: qp.Settings{WindowBytes: 256 << 10}}})
	first := s.QP
	var others [2]*qp.QP
	for i := range others {
		limits := rig.Cap
		limits.MaxSendWR = losses + 1
		q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: limits, SigAll: true})
		rig.Must(t, err)
		// They have requests outstanding, so that they can report losses.
		s.QP, others[i] = q, q
		s.Walk(ib.RTS)
		for range losses + 1 {
			s.Send(ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{s.SGE(0, 8)}})
		}
	}
	s.QP = first
	// Two batches of a long message are sent, without AckReq.
	if _, err := first.PostSend(ib.SendWR{WRID: 1, Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{s.SGE(0, rig.Bytes)}}); err != nil {
		t.Fatal(err)
	}
	sh := s.HCA.Single()
	sh.RingDoorbell(first)
	sent := 0
	for range 2 {
		sh.Transmit(s.Now, s.Batch)
		for _, r := range s.Batch.Pending() {
			for k := range r.Count {
				sent++
				if p := s.Parse(&r, k); p.BTH.AckReq {
					t.Fatal("the beginning of the message asks for an acknowledgement already")
				}
			}
		}
		s.Batch.Reset()
	}
	if sent*512 <= 8<<10 {
		t.Fatalf("%d packets are in flight, which the smallest window has room for: the test shows nothing", sent)
	}
	// The losses of the others together show that the peer's buffer is small.
	for i := range uint32(losses) {
		for _, q := range others {
			nak := s.Packet(roce.RCAcknowledge, rig.PSN+i+1, nil)
			nak.BTH.DestQP, nak.AETH.Syndrome = q.Num(), roce.NAKSequence
			s.Deliver(s.Datagram(nak))
		}
	}
	var of []roce.Packet
	for _, p := range s.Out() {
		if p.Info.Kind == roce.KindWrite {
			of = append(of, p)
		}
	}
	if len(of) != 1 || !of[0].BTH.AckReq {
		t.Errorf("%d packets of the message follow, want one, which asks for an acknowledgement", len(of))
	}
}

// TestE8_WindowIsNoRetry shows that a request which waits for room in the
// window does not use up its retries: the room may be taken by a queue pair
// whose own packets are lost forever.
func TestE8_WindowIsNoRetry(t *testing.T) {
	r := rig.New(t, ib.RC, rig.Cap).Connect(ib.MTU4096)
	a, b := r.Sides[0], r.Sides[1]
	lost, err := a.HCA.CreateQP(a.PD, hca.QPConfig{Type: ib.RC, SendCQ: a.CQ, RecvCQ: a.CQ, Cap: rig.Cap})
	rig.Must(t, err)
	attr := r.Attrs(0, ib.MTU4096)
	attr.Timeout = 0 // it waits for its answer forever
	for st := ib.INIT; st <= ib.RTS; st++ {
		attr.State = st
		rig.Must(t, lost.Modify(r.Now, &attr, rig.WalkMask(ib.RC, st)))
	}
	const reads = 5 // that are lost
	seen := 0
	r.Drop = func(from int, p *roce.Packet) bool {
		if p.Info.Kind == roce.KindReadRequest {
			seen++
			return seen <= reads
		}
		return from == 0 && p.BTH.PSN.Diff(ib.NewPSN(0x2000)) < 0 && p.Info.Kind == roce.KindWrite
	}
	_, err = lost.PostSend(ib.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.SGE(0, 8192)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(),
	})
	rig.Must(t, err)
	a.HCA.Single().RingDoorbell(lost)
	r.Post(0, ib.SendWR{
		WRID: 1, Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.SGE(1<<20, 1<<20)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(),
	})
	var wcs []ib.WC
	r.Run(time.Minute, func() bool {
		wcs = append(wcs, r.Poll(0)...)
		return len(wcs) > 0
	})
	if len(wcs) != 1 || wcs[0].WRID != 1 || wcs[0].Status != ib.WCSuccess {
		t.Fatalf("a READ whose first %d requests are lost, with 7 retries, beside a queue pair that fills the window: completions %+v", reads, wcs)
	}
}

// TestFullSocketBufferCostsNoTimeout shows that the window finds its size by
// itself: the receiver accepts only as much of each burst as a small socket
// buffer holds, and the sender continues after sequence NAKs. Only the end of
// the transfer may need the retry timer, because no packet follows it.
func TestFullSocketBufferCostsNoTimeout(t *testing.T) {
	for _, buffer := range []int{32 << 10, 64 << 10, 100 << 10} {
		for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
			t.Run(fmt.Sprintf("%d bytes, mtu %d", buffer, mtu.Bytes()), func(t *testing.T) {
				overflow(t, mtu, buffer)
			})
		}
	}
}

func overflow(t *testing.T, mtu ib.MTU, buffer int) {
	r := rig.New(t, ib.RC, rig.Cap).Connect(mtu)
	var at clock.Instant
	held, lost := 0, 0
	r.Drop = func(from int, p *roce.Packet) bool {
		if from == 1 {
			return false
		}
		if at != r.Now { // the receiver has read what was there
			at, held = r.Now, 0
		}
		if held += max(len(p.Payload)+128, 512); held > buffer {
			lost++
			return true
		}
		return false
	}
	a, b := r.Sides[0], r.Sides[1]
	rig.Fill(a.Buf, 5)
	for i := range 4 {
		r.Post(0, ib.SendWR{
			WRID: uint64(i), Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.SGE(i<<20, 1<<20)},
			RemoteAddr: b.MR.Addr() + uint64(i)<<20, RKey: b.MR.RKey(),
		})
	}
	done := 0
	r.Run(time.Minute, func() bool {
		done += len(r.Poll(0))
		return done == 4
	})
	c := a.HCA.Counters()
	if done != 4 || !bytes.Equal(a.Buf, b.Buf) {
		t.Fatalf("%d of 4 WRITEs are done; the memory is equal: %v", done, bytes.Equal(a.Buf, b.Buf))
	}
	if lost == 0 {
		t.Fatal("the buffer never overflowed: the test shows nothing")
	}
	if c.LocalAckTimeoutErr > 1 {
		t.Errorf("%d timeouts, %d sequence NAKs, %d packets lost, %d sent again", c.LocalAckTimeoutErr, c.RcvdSeqErr, lost, c.RetransPkts)
	}
	t.Logf("%d timeouts, %d sequence NAKs, %d packets lost, %d sent again", c.LocalAckTimeoutErr, c.RcvdSeqErr, lost, c.RetransPkts)
}

// TestReadsFillTheWindow counts the requests of 8 bytes that leave before
// anything is answered: a READ uses as much window as its response, and a WRITE
// as much as its packets, so as many are in flight, up to the connection's
// depth; and all of them complete.
func TestReadsFillTheWindow(t *testing.T) {
	const posted, maxDepth = 300, 128
	inFlight := func(op ib.WROpcode, depth uint8, window int) int {
		f := rig.NewFlightOn(rig.NewDeep(t, depth, window), op, 8)
		for range posted {
			f.Post(0, f.WR)
		}
		n := 0
		f.Sides[0].HCA.Single().Transmit(f.Now, f.Sides[0].Batch)
		for _, run := range f.Sides[0].Batch.Pending() {
			n += int(run.Count)
		}
		f.Arrive(0)
		done := 0
		f.Run(time.Minute, func() bool {
			for _, wc := range f.Poll(0) {
				if done++; wc.Status != ib.WCSuccess {
					t.Fatalf("%v ended with %v", op, wc.Status)
				}
			}
			return done == posted
		})
		if done != posted {
			t.Fatalf("%d of %d messages are complete", done, posted)
		}
		return n
	}
	for _, window := range []int{8 << 10, 20 << 10, 64 << 10, 0} {
		writes := inFlight(ib.WRRDMAWrite, maxDepth, window)
		for _, depth := range []uint8{1, 31, 32, maxDepth} {
			want := min(writes, int(depth))
			for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAdd} {
				if got := inFlight(op, depth, window); got != want {
					t.Errorf("window %d, depth %d: %d %v in flight, want %d where %d WRITEs are", window, depth, got, op, want, writes)
				}
			}
		}
	}
	if n := inFlight(ib.WRRDMARead, maxDepth, 0); n != maxDepth {
		t.Errorf("the usual window lets %d READs of 8 bytes out, want the depth of %d", n, maxDepth)
	}
}
