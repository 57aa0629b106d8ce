package hca

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestE11_InitiatorDepth shows that no more READs and atomics are out than
// max_rd_atomic says, also after going back, and that depth 0 is refused when
// they are posted.
func TestE11_InitiatorDepth(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.MaxRDAtomic = 2 }})
	got := s.send(s.wr(ib.WRRDMARead, 1, 0, 8), s.wr(ib.WRAtomicFetchAdd, 2, 8, 8), s.wr(ib.WRRDMARead, 3, 16, 8), s.wr(ib.WRSend, 4, 0, 8))
	s.wantPackets("two of three, and nothing passes the third", got, req(roce.RCRDMAReadRequest, 0x200), req(roce.RCFetchAdd, 0x201))
	s.wantPackets("sent again, they count as before", s.pass(soloTimeout+tick), req(roce.RCRDMAReadRequest, 0x200), req(roce.RCFetchAdd, 0x201))
	s.wantPackets("one is answered", s.inject(s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, make([]byte, 8))),
		req(roce.RCRDMAReadRequest, 0x202), req(roce.RCSendOnly, 0x203))
	s = newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.MaxRDAtomic = 0 }})
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAdd} {
		if _, err := s.qp.PostSend(s.wr(op, 1, 0, 8)); !errors.Is(err, ib.EINVAL) {
			t.Errorf("%v with initiator depth 0: %v", op, err)
		}
	}
}

// TestE22_Fence shows that a fenced work request waits for the READs and
// atomics before it, not for SENDs and WRITEs, and holds back what follows.
func TestE22_Fence(t *testing.T) {
	s := newSolo(t, soloConfig{})
	fenced := s.wr(ib.WRSend, 3, 0, 8)
	fenced.Flags = ib.SendFence
	got := s.send(s.wr(ib.WRRDMARead, 1, 0, 8), s.wr(ib.WRSend, 2, 0, 8), fenced, s.wr(ib.WRSend, 4, 0, 8))
	s.wantPackets("up to the fence", got, req(roce.RCRDMAReadRequest, 0x200), req(roce.RCSendOnly, 0x201))
	got = s.inject(s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, make([]byte, 8)))
	s.wantPackets("the READ is answered, the SEND is not", got, req(roce.RCSendOnly, 0x202), req(roce.RCSendOnly, 0x203))
	s.wantPackets("a fence without READs", s.send(fenced), req(roce.RCSendOnly, 0x204))
}

// TestE12_Credits shows that a sender keeps to the credits of the peer: one
// message beyond them goes as a probe, WRITEs and READs need none, and the
// next count lets it go on.
func TestE12_Credits(t *testing.T) {
	s := newSolo(t, soloConfig{})
	three := roce.ACKCredits(ib.CreditCode(3))
	acked := func(psn uint32, msn ib.MSN, syn roce.Syndrome) []roce.Packet {
		p := s.ackTo(psn, syn)
		p.AETH.MSN = msn
		return s.inject(p)
	}
	s.wantPackets("before any count nothing is limited", s.send(s.wr(ib.WRSend, 1, 0, 8)), req(roce.RCSendOnly, 0x200))
	acked(0x200, 1, three)
	var wrs []ib.SendWR
	for id := uint64(2); id < 9; id++ {
		wrs = append(wrs, s.wr(ib.WRSend, id, 0, 8))
	}
	wrs = slices.Insert(wrs, 1, s.wr(ib.WRRDMAWrite, 100, 0, 8), s.wr(ib.WRRDMARead, 101, 0, 8))
	got := s.send(wrs...)
	s.wantPackets("3 credits: 4 SENDs, and a WRITE and a READ for nothing", got, req(roce.RCSendOnly, 0x201), req(roce.RCRDMAWriteOnly, 0x202),
		req(roce.RCRDMAReadRequest, 0x203), req(roce.RCSendOnly, 0x204), req(roce.RCSendOnly, 0x205), req(roce.RCSendOnly, 0x206))
	s.wantPackets("an ACK without more credits", acked(0x202, 3, roce.ACKCredits(ib.CreditCode(2))))
	rsp := s.answer(roce.RCRDMAReadResponseOnly, 0x203, roce.ACKCredits(ib.CreditCode(2)), make([]byte, 8))
	rsp.AETH.MSN = 4
	s.wantPackets("nor with the READ response", s.inject(rsp))
	s.wantPackets("two receives more", acked(0x206, 7, roce.ACKCredits(ib.CreditCode(1))), req(roce.RCSendOnly, 0x207), req(roce.RCSendOnly, 0x208))
	s.wantPackets("an unsolicited ACK brings news too", acked(0x206, 7, roce.ACKUnlimited), req(roce.RCSendOnly, 0x209))
}

// TestE12_CreditsBetweenAdapters shows that credits keep a fast sender from
// sending what finds no receive: after the first acknowledgement only probes
// meet an RNR NAK; without credits whole bursts do.
func TestE12_CreditsBetweenAdapters(t *testing.T) {
	again := map[bool]uint64{}
	for _, credits := range []bool{false, true} {
		r := newRig(t, ib.RC, rigCap)
		r.side[1].hca.shard.env.Settings.Credits = credits
		r.connect(ib.MTU256)
		a, b := r.side[0], r.side[1]
		arrived, sent := 0, 0
		until := func(n int) {
			r.run(time.Minute, func() bool {
				sent += len(r.poll(0))
				if k := len(r.poll(1)); k > 0 {
					arrived += k
					r.recv(1, ib.RecvWR{SGList: []ib.SGE{b.sge(0, 300)}})
				}
				return sent == n
			})
		}
		r.recv(1, ib.RecvWR{SGList: []ib.SGE{b.sge(0, 300)}}, ib.RecvWR{SGList: []ib.SGE{b.sge(0, 300)}})
		wr := ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.sge(0, 300)}}
		r.post(0, wr)
		until(1)
		for range 15 {
			r.post(0, wr)
		}
		until(16)
		if sent != 16 || arrived != 16 {
			t.Errorf("credits %v: %d sent and %d arrived of 16", credits, sent, arrived)
		}
		again[credits] = a.hca.Counters().RetransPkts
	}
	if again[true] >= 30 || again[false] < 4*again[true] {
		t.Errorf("%d packets are sent again with credits, %d without", again[true], again[false])
	}
}

// TestE14_SendWithInvalidate shows that the last packet of the SEND takes the
// key away, that the completion tells which, and that the key is refused from
// then on; and that a key that may not be invalidated is refused itself.
func TestE14_SendWithInvalidate(t *testing.T) {
	s := newSolo(t, soloConfig{})
	buf := make([]byte, 64)
	mr, err := s.pd.RegMR(memory.RegionConfig{Buf: buf, IOVA: 0x9000, Access: ib.AccessLocalWrite | ib.AccessRemote, Invalidatable: true})
	must(t, err)
	s.recv(1, 600, 600)
	use := func(psn uint32) roce.Packet {
		p := s.packet(roce.RCRDMAWriteOnly, psn, []byte{byte(psn) + 1})
		p.RETH.VA, p.RETH.RKey = 0x9000, mr.RKey()
		return p
	}
	last := s.packet(roce.RCSendLastWithInvalidate, 0x102, []byte{1})
	last.InvRKey = mr.RKey()
	got := s.inject(use(0x100), s.packet(roce.RCSendFirst, 0x101, make([]byte, 256)), last)
	s.wantPackets("used, then invalidated", got, ack(roce.ACKUnlimited, 0x102))
	wcs := s.poll()
	if len(wcs) != 1 || wcs[0].Flags != ib.WCWithInv || wcs[0].InvRKey != mr.RKey() || wcs[0].ByteLen != 257 {
		t.Errorf("the completion is %+v", wcs)
	}
	s.wantPackets("used again", s.inject(use(0x103)), ack(roce.NAKRemoteAccess, 0x103))
	s.wantDead("used again", 2, 2, 0, ib.EventQPAccessErr)
	if want := byte(1); buf[0] != want {
		t.Errorf("the region holds %#x, want the %#x of the first use", buf[0], want)
	}
	s = newSolo(t, soloConfig{})
	s.recv(1, 600, 600)
	only := s.packet(roce.RCSendOnlyWithInvalidate, 0x100, []byte{1})
	only.InvRKey = s.mr.RKey()
	s.wantPackets("a region that may not be", s.inject(only), ack(roce.NAKRemoteAccess, 0x100))
	s.wantDead("a region that may not be", 1, 2, ib.WCLocAccessErr)
}

// TestE14_SendWithInvalidateSent shows the requester's side: the key goes in
// the last packet only.
func TestE14_SendWithInvalidateSent(t *testing.T) {
	s := newSolo(t, soloConfig{})
	wr := s.wr(ib.WRSendWithInv, 1, 0, 300)
	wr.InvRKey = 0xabcdef01
	got := s.send(wr)
	s.wantPackets("SEND with invalidate", got, req(roce.RCSendFirst, 0x200), req(roce.RCSendLastWithInvalidate, 0x201))
	if len(got) == 2 && got[1].InvRKey != wr.InvRKey {
		t.Errorf("the key on the wire is %#x", got[1].InvRKey)
	}
}

// TestV4_Inline shows that inline data is copied when it is posted, may be
// longer than the MTU, and needs no key; and what is refused.
func TestV4_Inline(t *testing.T) {
	s := newSolo(t, soloConfig{})
	data := []byte("sixty-four bytes are what this queue pair takes of inline data..")
	wr := ib.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: bytes.Clone(data)}
	_, err := s.qp.PostSend(wr)
	must(t, err)
	clear(wr.InlineData)
	s.hca.Shard().RingDoorbell(s.qp)
	if got := s.out(); len(got) != 1 || !bytes.Equal(got[0].Payload, data) {
		t.Errorf("inline data leaves as %q", got[0].Payload)
	}
	for what, wr := range map[string]ib.SendWR{
		"too much":           {Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: make([]byte, 65)},
		"READ":               {Opcode: ib.WRRDMARead, Flags: ib.SendInline, InlineData: data},
		"beside an SGE":      {Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: data, SGList: []ib.SGE{s.sge(0, 1)}},
		"three SGEs of two":  {Opcode: ib.WRSend, SGList: []ib.SGE{{}, {}, {}}},
		"atomic of 4 bytes":  {Opcode: ib.WRAtomicFetchAdd, SGList: []ib.SGE{s.sge(0, 4)}},
		"atomic of 16 bytes": {Opcode: ib.WRAtomicCmpAndSwp, SGList: []ib.SGE{s.sge(0, 16)}},
	} {
		if n, err := s.qp.PostSend(wr); n != 0 || !errors.Is(err, ib.EINVAL) {
			t.Errorf("%s is posted: %d, %v", what, n, err)
		}
	}
}

// TestQ22_QueueFull shows that a full queue takes no more, says so with
// ENOMEM, and keeps what it took of the list.
func TestQ22_QueueFull(t *testing.T) {
	s := newSolo(t, soloConfig{})
	var wrs []ib.SendWR
	var recvs []ib.RecvWR
	for i := range 20 {
		wrs = append(wrs, s.wr(ib.WRSend, uint64(i), 0, 1))
		recvs = append(recvs, ib.RecvWR{WRID: uint64(i)})
	}
	if n, err := s.qp.PostSend(wrs...); n != 16 || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("20 sends into a queue of 16: %d, %v", n, err)
	}
	if n, err := s.qp.PostRecv(recvs...); n != 16 || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("20 receives into a queue of 16: %d, %v", n, err)
	}
	s.hca.Shard().RingDoorbell(s.qp)
	if got := s.out(); len(got) != 16 {
		t.Errorf("%d of the 16 that were taken leave", len(got))
	}
	s.inject(s.ackTo(0x207, roce.ACKUnlimited))
	if n, err := s.qp.PostSend(wrs...); n != 8 || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("after 8 are acknowledged %d fit, %v", n, err)
	}
}

// TestQ8_Solicited shows where the solicited bit goes: the last packet of a SEND
// and of a WRITE with immediate, and nothing else.
func TestQ8_Solicited(t *testing.T) {
	for _, c := range []struct {
		op   ib.WROpcode
		want bool
	}{{ib.WRSend, true}, {ib.WRSendWithImm, true}, {ib.WRRDMAWriteWithImm, true}, {ib.WRRDMAWrite, false}, {ib.WRRDMARead, false}} {
		s := newSolo(t, soloConfig{})
		wr := s.wr(c.op, 1, 0, 300)
		wr.Flags = ib.SendSolicited
		got := s.send(wr)
		for i, p := range got {
			if want := c.want && i == len(got)-1; p.BTH.SE != want {
				t.Errorf("%v: packet %d of %d has SE %v", c.op, i+1, len(got), p.BTH.SE)
			}
		}
	}
}

// TestE4_E15_LongestMessage shows that 2^31 bytes may be posted and no more, that
// at path MTU 256 they take 2^23 PSNs, and that the last of them are sent as
// what they are. Nobody moves 2 GiB: acknowledgements far ahead of what a
// peer would see take the place of the data.
func TestE4_E15_LongestMessage(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.SQPSN = ib.NewPSN(0xfffff0) }})
	half, err := s.pd.RegMR(memory.RegionConfig{Buf: make([]byte, 1<<20), IOVA: 1 << 40, Access: ib.AccessLocalWrite})
	must(t, err)
	wr := s.wr(ib.WRRDMARead, 1, 0, 0)
	// The scatter list names memory that is not there: no data comes.
	wr.SGList = []ib.SGE{{Addr: half.Addr(), Length: 1 << 30, LKey: half.LKey()}, {Addr: half.Addr(), Length: 1 << 30, LKey: half.LKey()}}
	over := wr
	over.SGList = []ib.SGE{wr.SGList[0], {Length: 1<<30 + 1}}
	for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead} {
		over.Opcode = op
		if _, err := s.qp.PostSend(over); !errors.Is(err, ib.EINVAL) {
			t.Errorf("%v of 2^31+1 bytes: %v", op, err)
		}
	}
	if _, err := s.qp.PostRecv(ib.RecvWR{SGList: over.SGList}); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a receive of 2^31+1 bytes: %v", err)
	}
	got := s.send(wr, s.wr(ib.WRSend, 2, 0, 8))
	if len(got) == 0 || got[0].BTH.PSN.Value() != 0xfffff0 || got[0].RETH.VA != 0x1000 {
		t.Fatalf("a READ of 2^31 bytes begins with %v", got)
	}
	if a := s.qp.Query(); a.SQPSN != ib.NewPSN(0xfffff0).Add(1<<23) {
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

// TestE9_E15_LongestRequest shows the responder's side: a READ request for 2^31
// bytes takes 2^23 PSNs, all of which are duplicates afterwards, and the next
// one is the next expected.
func TestE9_E15_LongestRequest(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.MaxDestRDAtomic = 1 }})
	buf, err := memory.RawBuf(1<<20, 1<<31) // nobody's memory, and nothing touches it
	must(t, err)
	mr, err := s.pd.RegMR(memory.RegionConfig{Buf: buf, IOVA: 1 << 40, Access: ib.AccessRemoteRead})
	must(t, err)
	p := s.read(soloPeerPSN, 0)
	p.RETH = roce.RETH{VA: mr.Addr(), RKey: mr.RKey(), Length: 1 << 31}
	s.deliver(s.datagram(p))
	if a := s.qp.Query(); a.RQPSN.Value() != soloPeerPSN+1<<23 {
		t.Fatalf("after a READ of 2^31 bytes PSN %v is expected, want %#x", a.RQPSN, soloPeerPSN+1<<23)
	}
	must(t, s.pd.DeregMR(mr)) // ends it without 8 million responses
	got := s.out()
	s.wantPackets("the region has gone", got, ack(roce.NAKRemoteAccess, soloPeerPSN))
}

// statusFlow is how a status comes about between two adapters.
type statusFlow struct {
	typ      ib.QPType
	attr     func(i int, a *ib.QPAttr)
	recvs    []int // bytes of side 1's receives; negative: with a bad lkey
	wr       func(a, b *rigSide) ib.SendWR
	lose     bool
	sent     ib.WCStatus // of the first work request at side 0
	received ib.WCStatus // of the first receive at side 1, if there are receives
	state    [2]ib.QPState
}

// TestE30_EveryStatus shows for every status that this adapter has a flow
// between two adapters that provokes it, and what both sides see. BAD_RESP_ERR
// takes a peer that breaks the rules: TestE24_E26_E28_BadResponses.
func TestE30_EveryStatus(t *testing.T) {
	write := func(change func(*ib.SendWR)) func(a, b *rigSide) ib.SendWR {
		return func(a, b *rigSide) ib.SendWR {
			wr := ib.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.sge(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
			change(&wr)
			return wr
		}
	}
	send := write(func(wr *ib.SendWR) { wr.Opcode = ib.WRSend })
	badKey := func(wr *ib.SendWR) { wr.RKey++ }
	dead := [2]ib.QPState{ib.ERR, ib.ERR}
	flows := map[string]statusFlow{
		"success":                    {ib.RC, nil, []int{100}, send, false, ib.WCSuccess, ib.WCSuccess, [2]ib.QPState{ib.RTS, ib.RTS}},
		"SEND longer than receive":   {ib.RC, nil, []int{99}, send, false, ib.WCRemInvReqErr, ib.WCLocLenErr, dead},
		"bad receive lkey":           {ib.RC, nil, []int{-100}, send, false, ib.WCRemOpErr, ib.WCLocProtErr, dead},
		"bad rkey":                   {ib.RC, nil, []int{1}, write(badKey), false, ib.WCRemAccessErr, ib.WCWRFlushErr, dead},
		"bad rkey, WRITE with imm":   {ib.RC, nil, []int{1}, write(func(wr *ib.SendWR) { wr.Opcode = ib.WRRDMAWriteWithImm; wr.RKey++ }), false, ib.WCRemAccessErr, ib.WCLocAccessErr, dead},
		"bad gather lkey":            {ib.RC, nil, nil, write(func(wr *ib.SendWR) { wr.SGList[0].LKey++ }), false, ib.WCLocProtErr, 0, [2]ib.QPState{ib.ERR, ib.RTS}},
		"no receive":                 {ib.RC, func(_ int, a *ib.QPAttr) { a.RNRRetry = 1 }, nil, send, false, ib.WCRNRRetryExcErr, 0, [2]ib.QPState{ib.ERR, ib.RTS}},
		"no answer":                  {ib.RC, nil, []int{1}, send, true, ib.WCRetryExcErr, 0, [2]ib.QPState{ib.ERR, ib.RTS}},
		"QP does not allow":          {ib.RC, func(_ int, a *ib.QPAttr) { a.AccessFlags = 0 }, []int{1}, write(func(*ib.SendWR) {}), false, ib.WCRemInvReqErr, ib.WCWRFlushErr, dead},
		"UD handle that is gone":     {ib.UD, nil, nil, write(func(wr *ib.SendWR) { wr.Opcode, wr.AH = ib.WRSend, 12345 }), false, ib.WCLocQPOpErr, 0, [2]ib.QPState{ib.SQE, ib.RTS}},
		"UC bad lkey is an SQE":      {ib.UC, nil, nil, write(func(wr *ib.SendWR) { wr.SGList[0].LKey++ }), false, ib.WCLocProtErr, 0, [2]ib.QPState{ib.SQE, ib.RTS}},
		"UC bad rkey goes unnoticed": {ib.UC, nil, nil, write(badKey), false, ib.WCSuccess, 0, [2]ib.QPState{ib.RTS, ib.RTS}},
		"UC no receive is unnoticed": {ib.UC, nil, nil, send, false, ib.WCSuccess, 0, [2]ib.QPState{ib.RTS, ib.RTS}},
	}
	seen := map[ib.WCStatus]bool{ib.WCBadRespErr: true}
	for what, f := range flows {
		t.Run(what, func(t *testing.T) { f.run(t, seen) })
	}
	for _, st := range []ib.WCStatus{
		ib.WCSuccess, ib.WCLocLenErr, ib.WCLocQPOpErr, ib.WCLocProtErr, ib.WCWRFlushErr, ib.WCBadRespErr, ib.WCLocAccessErr,
		ib.WCRemInvReqErr, ib.WCRemAccessErr, ib.WCRemOpErr, ib.WCRetryExcErr, ib.WCRNRRetryExcErr,
	} {
		if !seen[st] {
			t.Errorf("no flow provokes %v", st)
		}
	}
}

func (f *statusFlow) run(t *testing.T, seen map[ib.WCStatus]bool) {
	t.Helper()
	r := newRig(t, f.typ, rigCap)
	for i := range r.side {
		a := r.attrs(i, ib.MTU1024)
		if f.attr != nil {
			f.attr(i, &a)
		}
		r.walk(i, a, ib.RTS)
	}
	if f.lose {
		r.drop = func(int, *roce.Packet) bool { return true }
	}
	a, b := r.side[0], r.side[1]
	for _, n := range f.recvs {
		sge := b.sge(1<<20, max(n, -n))
		if n < 0 {
			sge.LKey++
		}
		r.recv(1, ib.RecvWR{SGList: []ib.SGE{sge}})
	}
	r.post(0, f.wr(a, b))
	r.run(time.Hour, func() bool { return false })
	sent, got := r.poll(0), r.poll(1)
	if len(sent) != 1 || sent[0].Status != f.sent {
		t.Errorf("the sender sees %+v, want %v", sent, f.sent)
	}
	if want := len(f.recvs); !f.lose && (len(got) != want || want > 0 && got[0].Status != f.received) {
		t.Errorf("the receiver sees %+v, want %v", got, f.received)
	}
	if st := [2]ib.QPState{a.qp.State(), b.qp.State()}; st != f.state {
		t.Errorf("the states are %v, want %v", st, f.state)
	}
	for _, wc := range append(sent, got...) {
		seen[wc.Status] = true
	}
	for i, s := range r.side {
		fatal := slices.ContainsFunc(s.events, func(e qp.Event) bool { return e.Type == ib.EventQPFatal })
		if fatal != (f.state[i] == ib.ERR) {
			t.Errorf("side %d is in %v with QP_FATAL %v", i, f.state[i], fatal)
		}
	}
}

// TestE21_BothDirectionsUnderLoss runs every operation in both directions at once with
// packets lost, doubled and exchanged, and compares the memory: the ACK path
// and retransmission work on the same queue without harm.
func TestE21_BothDirectionsUnderLoss(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		r := newRig(t, ib.RC, rigCap).connect(ib.MTU(1 + seed%5))
		src := seed*0x9e3779b97f4a7c15 + 1
		r.drop = func(int, *roce.Packet) bool {
			src ^= src << 13
			src ^= src >> 7
			src ^= src << 17
			return src%100 < 5
		}
		n := 1 + int(src%50_000)
		for i, s := range r.side {
			fill(s.buf[:n], seed+uint64(i))
			peer := r.side[1-i]
			for k := range 4 {
				r.recv(i, ib.RecvWR{WRID: uint64(100 + k), SGList: []ib.SGE{s.sge(1<<20, n)}})
				r.post(i, ib.SendWR{Opcode: ib.WRSend, WRID: uint64(3 * k), SGList: []ib.SGE{s.sge(0, n)}},
					ib.SendWR{Opcode: ib.WRAtomicFetchAdd, WRID: uint64(3*k + 1), SGList: []ib.SGE{s.sge(3<<20, 8)}, CompareAdd: 5, RemoteAddr: peer.mr.Addr() + 3<<20 + 64, RKey: peer.mr.RKey()},
					ib.SendWR{Opcode: ib.WRRDMARead, WRID: uint64(3*k + 2), SGList: []ib.SGE{s.sge(2<<20, n)}, RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey()})
			}
		}
		done := [2]int{}
		r.run(time.Hour, func() bool {
			for i := range done {
				for _, wc := range r.poll(i) {
					if wc.Status != ib.WCSuccess {
						t.Fatalf("seed %d: side %d: %+v", seed, i, wc)
					}
					done[i]++
				}
			}
			return done == [2]int{16, 16}
		})
		if done != [2]int{16, 16} {
			t.Fatalf("seed %d: %v of 16 work requests completed", seed, done)
		}
		for i, s := range r.side {
			peer := r.side[1-i]
			if !bytes.Equal(s.buf[1<<20:1<<20+n], peer.buf[:n]) || !bytes.Equal(s.buf[2<<20:2<<20+n], peer.buf[:n]) {
				t.Errorf("seed %d: side %d has other bytes", seed, i)
			}
			if v := s.buf[3<<20+64]; v != 20 {
				t.Errorf("seed %d: 4 additions of 5 make %d", seed, v)
			}
		}
	}
}
