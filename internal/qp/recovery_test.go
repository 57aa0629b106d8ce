package qp_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// another connects one more pair of queue pairs of a rig.
func another(r *rig.Rig) (pair [2]*qp.QP) {
	for i, s := range r.Sides {
		q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: rig.Cap, SigAll: true})
		rig.Must(r.T, err)
		pair[i] = q
	}
	for i := range pair {
		a := r.Attrs(i, ib.MTU4096)
		a.DestQPN = pair[1-i].Num()
		for st := ib.INIT; st <= ib.RTS; st++ {
			a.State = st
			rig.Must(r.T, pair[i].Modify(r.Now, &a, rig.WalkMask(ib.RC, st)))
		}
	}
	return pair
}

// write posts a WRITE of n bytes on a queue pair of side 0.
func write(r *rig.Rig, q *qp.QP, id uint64, n int) {
	r.T.Helper()
	a, b := r.Sides[0], r.Sides[1]
	_, err := q.PostSend(ib.SendWR{
		WRID: id, Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.SGE(0, n)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(),
	})
	rig.Must(r.T, err)
	a.HCA.Single().RingDoorbell(q)
}

// TestL1_ManyQueuePairs lets a thousand queue pairs send 4 KiB at once to a peer
// whose socket buffer holds 208 KiB: they take turns, and no retry timer fires.
func TestL1_ManyQueuePairs(t *testing.T) {
	const pairs, buffer = 1000, 208 << 10
	r := rig.New(t, ib.RC, rig.Cap).Connect(ib.MTU4096)
	var at clock.Instant
	held, lost, most := 0, 0, 0
	r.Drop = func(from int, p *roce.Packet) bool {
		if from == 1 {
			return false
		}
		if at != r.Now { // the peer has read what was there
			at, held = r.Now, 0
		}
		if held += len(p.Payload) + 128; held > buffer {
			lost++
			return true
		}
		most = max(most, held)
		return false
	}
	for i := range pairs {
		write(r, another(r)[0], uint64(i), 4096)
	}
	done := 0
	r.Run(time.Minute, func() bool {
		for _, wc := range r.Poll(0) {
			if done++; wc.Status != ib.WCSuccess {
				t.Fatalf("WRITE %d ends with %v", wc.WRID, wc.Status)
			}
		}
		return done == pairs
	})
	c := r.Sides[0].HCA.Counters()
	if done != pairs || c.LocalAckTimeoutErr != 0 {
		t.Errorf("%d of %d WRITEs are complete after %v, with %d timeouts and %d packets lost", done, pairs, time.Duration(r.Now), c.LocalAckTimeoutErr, lost)
	}
	if lost > pairs/50 {
		t.Errorf("%d packets overflow the buffer: want no more than the window takes to learn its size", lost)
	}
	if most < buffer/4 {
		t.Errorf("no more than %d bytes were on their way at once: the test shows nothing", most)
	}
}

// TestL1_DeadQueuePair shows that a queue pair whose peer is gone hardly slows
// another one to the same address, although its packets in flight are never
// acknowledged.
func TestL1_DeadQueuePair(t *testing.T) {
	const size, depth, length = 256 << 10, 8, 150 * time.Millisecond
	rate := func(withDead bool) int {
		r := rig.New(t, ib.RC, rig.Cap).Connect(ib.MTU4096)
		if withDead {
			dead := another(r)
			r.Sides[1].HCA.DestroyQP(r.Sides[1].PD, dead[1])
			for range depth {
				write(r, dead[0], 1000, size)
			}
			r.Transmit(0) // it fills the window
		}
		live := r.Sides[0].QP
		posted, done := 0, 0
		for ; posted < depth; posted++ {
			write(r, live, 1, size)
		}
		r.Run(length, func() bool {
			for _, wc := range r.Poll(0) {
				if wc.Status != ib.WCSuccess || wc.WRID != 1 {
					t.Fatalf("WRITE %d ends with %v", wc.WRID, wc.Status)
				}
				done++
				write(r, live, 1, size)
			}
			return r.Now >= clock.Instant(length)
		})
		return done
	}
	alone, beside := rate(false), rate(true)
	if beside*100 < alone*95 {
		t.Errorf("%d WRITEs in %v beside a dead queue pair, %d alone: want 95 %% of that", beside, length, alone)
	}
	if alone < 1000 {
		t.Errorf("only %d WRITEs in %v", alone, length)
	}
}

// TestL2_HostileGaps opens gaps on many queue pairs, fills their reorder buffers,
// and never closes the gaps. An honest connection can still buffer as much as it
// needs.
func TestL2_HostileGaps(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{MTU: ib.MTU4096})
	honest := s.QP
	payload := make([]byte, 4096)
	for range 20 {
		q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: rig.Cap})
		rig.Must(t, err)
		s.QP = q
		s.Walk(ib.RTS)
		for i := range uint32(1200) {
			s.Deliver(s.Datagram(s.Packet(roce.RCRDMAWriteMiddle, rig.PeerPSN+1+i, payload)))
		}
	}
	if c := s.HCA.Counters(); c.EarlyKept < 5000 || c.EarlyRefused < 5000 {
		t.Fatalf("20 hostile queue pairs have %d packets kept and %d refused: no bound was reached", c.EarlyKept, c.EarlyRefused)
	}
	s.QP = honest
	before := s.HCA.Counters()
	const n = 64 // which are a window
	for i := range payload {
		payload[i] = byte(i)
	}
	first := s.Packet(roce.RCRDMAWriteFirst, rig.PeerPSN, payload)
	first.RETH.Length = rig.Bytes / 4096 * 4096
	first.BTH.AckReq = true // the peer sends again only what is missing
	var rest []roce.Packet
	for i := range uint32(rig.Bytes/4096 - 2) {
		rest = append(rest, s.Packet(roce.RCRDMAWriteMiddle, rig.PeerPSN+1+i, payload))
	}
	rest = append(rest, s.Packet(roce.RCRDMAWriteLast, rig.PeerPSN+rig.Bytes/4096-1, payload))
	for i := len(rest); i < n; i++ {
		rest = append(rest, s.Packet(roce.RCRDMAWriteOnly, rig.PeerPSN+1+uint32(i), payload))
	}
	for _, p := range rest {
		s.Deliver(s.Datagram(p))
	}
	c := s.HCA.Counters()
	if kept := c.EarlyKept - before.EarlyKept; kept != n || c.EarlyRefused != before.EarlyRefused {
		t.Errorf("%d of the %d packets of an honest peer are kept", kept, n)
	}
	s.Out() // a NAK for each gap
	s.WantPackets("the gap closes", s.Inject(first), rig.Ack(roce.ACKUnlimited, rig.PeerPSN+n))
	if !bytes.Equal(s.Buf[rig.Bytes-4096:], payload) {
		t.Error("the end of the message is not in memory")
	}
}

// TestL2_StrangersAreNotKept shows that packets buffered beyond a gap are executed
// only if they came from the same port as the packet that closed the gap: a PSN in
// the window is easier to guess than the expected one.
func TestL2_StrangersAreNotKept(t *testing.T) {
	at := func(s *rig.Solo, psn uint32, b byte, port uint16) {
		t.Helper()
		p := s.Packet(roce.RCRDMAWriteOnly, psn, []byte{b, 0, 0, 0})
		p.RETH.VA += uint64(psn - rig.PeerPSN)
		raw := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
		p.Build(raw)
		d := s.Sealed(raw)
		if port != 0 {
			d.SrcPort = port
			roce.Seal(raw, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(raw)).WithID(d.ID))
		}
		s.Deliver(d)
	}
	const stranger = 4791
	// The peer's port is unknown: a stranger's packets are buffered, and dropped
	// when the peer's first packet shows its port.
	s := rig.NewSolo(t, rig.SoloConfig{})
	at(s, rig.PeerPSN+1, 'x', stranger)
	at(s, rig.PeerPSN+1, '1', 0)
	at(s, rig.PeerPSN, '0', 0)
	if got := s.Buf[0]; got != '0' {
		t.Errorf("the peer's packet left %q in memory", got)
	}
	if got := s.Buf[1]; got != 0 {
		t.Errorf("a stranger's packet, or none of the peer's, left %q in memory", got)
	}
	at(s, rig.PeerPSN+1, '1', 0)
	// From then on no packet of a stranger is buffered.
	at(s, rig.PeerPSN+3, 'x', stranger)
	at(s, rig.PeerPSN+3, '3', 0)
	at(s, rig.PeerPSN+2, '2', 0)
	if got := string(s.Buf[:4]); got != "0123" {
		t.Errorf("in memory is %q, want what the peer has sent", got)
	}
}
