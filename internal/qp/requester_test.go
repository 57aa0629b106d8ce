package qp_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestE2_DepthTakenAway shows that a READ or atomic that was posted while the
// QP had an initiator depth does not wait forever after the depth became 0.
func TestE2_DepthTakenAway(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAdd} {
		s := rig.NewSolo(t, rig.SoloConfig{})
		s.Modify(ib.SQD)
		s.Send(s.WR(ib.WRRDMAWrite, 1, 0, 8), s.WR(op, 2, 0, 8), s.WR(ib.WRSend, 3, 0, 8))
		rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{State: ib.RTS}, ib.AttrState|ib.AttrMaxRDAtomic))
		s.WantPackets("what comes before", s.Out(), rig.Req(roce.RCRDMAWriteOnly, rig.PSN))
		s.WantState("an answer is awaited", ib.RTS)
		s.Inject(s.AckTo(rig.PSN, roce.ACKUnlimited))
		s.WantWCs(op.String(), rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCLocQPOpErr), rig.WC(3, ib.WCWRFlushErr))
	}
}

// TestE12_CreditsThatCannotBe shows that a peer whose AETH has an impossible
// MSN does not stop the send queue for good: with nothing outstanding, one
// message is sent, and its answer or its timer decides.
func TestE12_CreditsThatCannotBe(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRSend, 2, 0, 8), s.WR(ib.WRSend, 3, 0, 8))
	none := s.AckTo(rig.PSN+2, roce.ACKCredits(0))
	none.AETH.MSN = 0
	s.Inject(none)
	s.WantWCs("acknowledged", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess), rig.WC(3, ib.WCSuccess))
	s.WantPackets("one goes", s.Send(s.WR(ib.WRSend, 4, 0, 8), s.WR(ib.WRSend, 5, 0, 8)), rig.Req(roce.RCSendOnly, rig.PSN+3))
	none.BTH.PSN = none.BTH.PSN.Next()
	s.WantPackets("and then the next", s.Inject(none), rig.Req(roce.RCSendOnly, rig.PSN+4))
	s.Pass(time.Minute)
	s.WantWCs("a silent peer", rig.WC(4, ib.WCSuccess), rig.WC(5, ib.WCRetryExcErr))
}

// TestE11_InitiatorDepth shows that at most max_rd_atomic READs and atomics are
// outstanding, also after going back, and that posting them at depth 0 is
// refused.
func TestE11_InitiatorDepth(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{HCA: inOrder(), Attr: func(a *ib.QPAttr) { a.MaxRDAtomic = 2 }})
	got := s.Send(s.WR(ib.WRRDMARead, 1, 0, 8), s.WR(ib.WRAtomicFetchAdd, 2, 8, 8), s.WR(ib.WRRDMARead, 3, 16, 8), s.WR(ib.WRSend, 4, 0, 8))
	s.WantPackets("two of three, and nothing passes the third", got, rig.Req(roce.RCRDMAReadRequest, 0x200), rig.Req(roce.RCFetchAdd, 0x201))
	s.WantPackets("sent again, they count as before", s.Pass(rig.Timeout+rig.Tick), rig.Req(roce.RCRDMAReadRequest, 0x200), rig.Req(roce.RCFetchAdd, 0x201))
	s.WantPackets("one is answered", s.Inject(s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, make([]byte, 8))),
		rig.Req(roce.RCRDMAReadRequest, 0x202), rig.Req(roce.RCSendOnly, 0x203))
	s = rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.MaxRDAtomic = 0 }})
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAdd} {
		if _, err := s.QP.PostSend(s.WR(op, 1, 0, 8)); !errors.Is(err, ib.EINVAL) {
			t.Errorf("%v with initiator depth 0: %v", op, err)
		}
	}
}

// TestE22_Fence shows that a fenced work request waits for the READs and
// atomics before it, not for SENDs and WRITEs, and delays the requests after
// it.
func TestE22_Fence(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	fenced := s.WR(ib.WRSend, 3, 0, 8)
	fenced.Flags = ib.SendFence
	got := s.Send(s.WR(ib.WRRDMARead, 1, 0, 8), s.WR(ib.WRSend, 2, 0, 8), fenced, s.WR(ib.WRSend, 4, 0, 8))
	s.WantPackets("up to the fence", got, rig.Req(roce.RCRDMAReadRequest, 0x200), rig.Req(roce.RCSendOnly, 0x201))
	got = s.Inject(s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, make([]byte, 8)))
	s.WantPackets("the READ is answered, the SEND is not", got, rig.Req(roce.RCSendOnly, 0x202), rig.Req(roce.RCSendOnly, 0x203))
	s.WantPackets("a fence without READs", s.Send(fenced), rig.Req(roce.RCSendOnly, 0x204))
}

// TestE12_Credits shows that a sender keeps to the credits of the peer: it
// sends one message beyond them as a probe, WRITEs and READs need none, and the
// next credits let it continue.
func TestE12_Credits(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	three := roce.ACKCredits(ib.CreditCode(3))
	acked := func(psn uint32, msn ib.MSN, syn roce.Syndrome) []roce.Packet {
		p := s.AckTo(psn, syn)
		p.AETH.MSN = msn
		return s.Inject(p)
	}
	s.WantPackets("before any count nothing is limited", s.Send(s.WR(ib.WRSend, 1, 0, 8)), rig.Req(roce.RCSendOnly, 0x200))
	acked(0x200, 1, three)
	var wrs []ib.SendWR
	for id := uint64(2); id < 9; id++ {
		wrs = append(wrs, s.WR(ib.WRSend, id, 0, 8))
	}
	wrs = slices.Insert(wrs, 1, s.WR(ib.WRRDMAWrite, 100, 0, 8), s.WR(ib.WRRDMARead, 101, 0, 8))
	got := s.Send(wrs...)
	s.WantPackets("3 credits: 4 SENDs, and a WRITE and a READ for nothing", got, rig.Req(roce.RCSendOnly, 0x201), rig.Req(roce.RCRDMAWriteOnly, 0x202),
		rig.Req(roce.RCRDMAReadRequest, 0x203), rig.Req(roce.RCSendOnly, 0x204), rig.Req(roce.RCSendOnly, 0x205), rig.Req(roce.RCSendOnly, 0x206))
	s.WantPackets("an ACK without more credits", acked(0x202, 3, roce.ACKCredits(ib.CreditCode(2))))
	rsp := s.Answer(roce.RCRDMAReadResponseOnly, 0x203, roce.ACKCredits(ib.CreditCode(2)), make([]byte, 8))
	rsp.AETH.MSN = 4
	s.WantPackets("nor with the READ response", s.Inject(rsp))
	s.WantPackets("two receives more", acked(0x206, 7, roce.ACKCredits(ib.CreditCode(1))), rig.Req(roce.RCSendOnly, 0x207), rig.Req(roce.RCSendOnly, 0x208))
	s.WantPackets("an unsolicited ACK brings news too", acked(0x206, 7, roce.ACKUnlimited), rig.Req(roce.RCSendOnly, 0x209))
}

// TestE12_CreditsBetweenAdapters shows that credits keep a fast sender from
// sending messages without a receive: after the first acknowledgement only
// probes meet an RNR NAK; without credits whole bursts do.
func TestE12_CreditsBetweenAdapters(t *testing.T) {
	again := map[bool]uint64{}
	for _, credits := range []bool{false, true} {
		r := &rig.Rig{T: t}
		for i := range r.Sides {
			r.Sides[i] = rig.Config{Type: ib.RC, Cap: rig.Cap, Bytes: 4 << 10, HCA: hca.Config{Settings: qp.Settings{Credits: credits}}}.NewSide(t, byte(i+1))
		}
		r.Connect(ib.MTU256)
		a, b := r.Sides[0], r.Sides[1]
		arrived, sent := 0, 0
		until := func(n int) {
			r.Run(time.Minute, func() bool {
				sent += len(r.Poll(0))
				if k := len(r.Poll(1)); k > 0 {
					arrived += k
					r.Recv(1, ib.RecvWR{SGList: []ib.SGE{b.SGE(0, 300)}})
				}
				return sent == n
			})
		}
		r.Recv(1, ib.RecvWR{SGList: []ib.SGE{b.SGE(0, 300)}}, ib.RecvWR{SGList: []ib.SGE{b.SGE(0, 300)}})
		wr := ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.SGE(0, 300)}}
		r.Post(0, wr)
		until(1)
		for range 15 {
			r.Post(0, wr)
		}
		until(16)
		if sent != 16 || arrived != 16 {
			t.Errorf("credits %v: %d sent and %d arrived of 16", credits, sent, arrived)
		}
		again[credits] = a.HCA.Counters().RetransPkts
	}
	if again[true] >= 30 || again[false] < 4*again[true] {
		t.Errorf("%d packets are sent again with credits, %d without", again[true], again[false])
	}
}

// TestE14_SendWithInvalidateSent shows the requester's side: the key goes in
// the last packet only.
func TestE14_SendWithInvalidateSent(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	wr := s.WR(ib.WRSendWithInv, 1, 0, 300)
	wr.InvRKey = 0xabcdef01
	got := s.Send(wr)
	s.WantPackets("SEND with invalidate", got, rig.Req(roce.RCSendFirst, 0x200), rig.Req(roce.RCSendLastWithInvalidate, 0x201))
	if len(got) == 2 && got[1].InvRKey != wr.InvRKey {
		t.Errorf("the key on the wire is %#x", got[1].InvRKey)
	}
}

// TestQ8_Solicited shows where the solicited bit goes: the last packet of a SEND
// and of a WRITE with immediate, and nothing else.
func TestQ8_Solicited(t *testing.T) {
	for _, c := range []struct {
		op   ib.WROpcode
		want bool
	}{{ib.WRSend, true}, {ib.WRSendWithImm, true}, {ib.WRRDMAWriteWithImm, true}, {ib.WRRDMAWrite, false}, {ib.WRRDMARead, false}} {
		s := rig.NewSolo(t, rig.SoloConfig{})
		wr := s.WR(c.op, 1, 0, 300)
		wr.Flags = ib.SendSolicited
		got := s.Send(wr)
		for i, p := range got {
			if want := c.want && i == len(got)-1; p.BTH.SE != want {
				t.Errorf("%v: packet %d of %d has SE %v", c.op, i+1, len(got), p.BTH.SE)
			}
		}
	}
}

// TestE4_E15_LongestMessage shows that 2^31 bytes may be posted and no more, that
// at path MTU 256 they take 2^23 PSNs, and that the last packets have the right
// opcodes. The test moves no 2 GiB: it forges acknowledgements far ahead of the
// data.
func TestE4_E15_LongestMessage(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.SQPSN = ib.NewPSN(0xfffff0) }})
	half, err := s.PD.RegMR(memory.RegionConfig{Buf: make([]byte, 1<<20), IOVA: 1 << 40, Access: ib.AccessLocalWrite})
	rig.Must(t, err)
	wr := s.WR(ib.WRRDMARead, 1, 0, 0)
	// The scatter list names memory that does not exist: no data arrives.
	wr.SGList = []ib.SGE{{Addr: half.Addr(), Length: 1 << 30, LKey: half.LKey()}, {Addr: half.Addr(), Length: 1 << 30, LKey: half.LKey()}}
	over := wr
	over.SGList = []ib.SGE{wr.SGList[0], {Length: 1<<30 + 1}}
	for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead} {
		over.Opcode = op
		if _, err := s.QP.PostSend(over); !errors.Is(err, ib.EINVAL) {
			t.Errorf("%v of 2^31+1 bytes: %v", op, err)
		}
	}
	if _, err := s.QP.PostRecv(ib.RecvWR{SGList: over.SGList}); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a receive of 2^31+1 bytes: %v", err)
	}
	got := s.Send(wr, s.WR(ib.WRSend, 2, 0, 8))
	if len(got) == 0 || got[0].BTH.PSN.Value() != 0xfffff0 || got[0].RETH.VA != 0x1000 {
		t.Fatalf("a READ of 2^31 bytes begins with %v", got)
	}
	if a := s.QP.Query(); a.SQPSN != ib.NewPSN(0xfffff0).Add(1<<23) {
		t.Errorf("after a READ of 2^31 bytes the next PSN is %v, want 2^23 on", a.SQPSN)
	}
	asked := uint32(0)
	for _, p := range got {
		if p.BTH.PSN != ib.NewPSN(0xfffff0).Add(asked/256) || p.RETH.VA != 0x1000+uint64(asked) {
			t.Errorf("a request at PSN %v asks for %#x, want the place %d bytes on", p.BTH.PSN, p.RETH.VA, asked)
		}
		asked += p.RETH.Length
	}
}
