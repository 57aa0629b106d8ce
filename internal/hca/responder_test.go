package hca

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// read returns a READ request for n bytes.
func (s *solo) read(psn uint32, n int) roce.Packet {
	p := s.packet(roce.RCRDMAReadRequest, psn, nil)
	p.RETH.Length = uint32(n)
	return p
}

// write returns the packet of a WRITE whose whole length is n.
func (s *solo) write(op roce.Opcode, psn uint32, part []byte, n int) roce.Packet {
	p := s.packet(op, psn, part)
	p.RETH.Length = uint32(n)
	return p
}

// fetchAdd returns a FETCH_ADD of v to the word at byte off of the region.
func (s *solo) fetchAdd(psn uint32, off, v uint64) roce.Packet {
	p := s.packet(roce.RCFetchAdd, psn, nil)
	p.AtomicETH = roce.AtomicETH{VA: s.mr.Addr() + off, RKey: s.mr.RKey(), SwapAdd: v}
	return p
}

// word returns the number at byte off of the region.
func (s *solo) word(off int) uint64 { return binary.NativeEndian.Uint64(s.buf[off:]) }

// TestE8_OneNAKPerGap shows that a gap draws one sequence NAK with the PSN
// that is expected, that nothing of what is ahead is executed, and that a new
// gap draws a new NAK.
func TestE8_OneNAKPerGap(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.recv(1, 100, 100, 100, 100)
	only := func(psn uint32) roce.Packet { return s.packet(roce.RCSendOnly, psn, []byte{1, 2}) }
	s.wantPackets("PSN 2 ahead", s.inject(only(0x102)), ack(roce.NAKSequence, 0x100))
	s.wantPackets("a second packet of the same gap", s.inject(only(0x103)))
	s.wantPackets("just inside the half ahead", s.inject(only(soloPeerPSN+1<<23-1)))
	s.wantWCs("nothing ahead is executed")
	s.wantPackets("the gap closes", s.inject(only(0x100)), ack(roce.ACKUnlimited, 0x100))
	s.wantPackets("a new gap", s.inject(only(0x105)), ack(roce.NAKSequence, 0x101))
	s.wantWCs("what was in order is executed once", wc{1, ib.WCSuccess})
	s.wantState("a gap is no error", ib.RTS)
	if c := s.counters(); c.OutOfSeqRequest != 2 || c.Drops[counters.DropSequence] != 2 {
		t.Errorf("2 gaps and 2 more packets ahead count as %d and %d", c.OutOfSeqRequest, c.Drops[counters.DropSequence])
	}
}

// TestE8_GapClosesBeforeTheNAK shows that packets that were only reordered on
// the way draw no NAK that would throw acknowledgements away.
func TestE8_GapClosesBeforeTheNAK(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.recv(1, 100, 100)
	got := s.inject(
		s.packet(roce.RCSendOnly, 0x100, []byte{1}), s.packet(roce.RCSendOnly, 0x102, []byte{3}), s.packet(roce.RCSendOnly, 0x101, []byte{2}))
	s.wantPackets("three packets in one datagram, the last two exchanged", got, ack(roce.NAKSequence, 0x102))
	s.wantWCs("both in order are executed", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	s = newSolo(t, soloConfig{})
	var ps []roce.Packet
	for _, psn := range []uint32{0x100, 0x102, 0x101, 0x102} {
		ps = append(ps, s.packet(roce.RCRDMAWriteOnly, psn, []byte{1}))
		ps[len(ps)-1].BTH.AckReq = psn == 0x100
	}
	s.wantPackets("the NAK is void, the ACK that it stood for is not", s.inject(ps...), ack(roce.ACKUnlimited, 0x102))
}

// TestE9_DuplicateSendAndWrite shows that duplicates are acknowledged with
// the newest PSN and leave memory and receives alone.
func TestE9_DuplicateSendAndWrite(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.recv(1, 100, 100)
	s.inject(s.packet(roce.RCSendOnly, 0x100, []byte("first")), s.packet(roce.RCRDMAWriteOnly, 0x101, []byte("second")))
	s.wantWCs("the originals", wc{1, ib.WCSuccess})
	before := bytes.Clone(s.buf)
	for _, p := range []roce.Packet{
		s.packet(roce.RCSendOnly, 0x100, []byte("other")),
		s.packet(roce.RCRDMAWriteOnly, 0x101, []byte("others")),
		s.packet(roce.RCSendFirst, 0x0f0, bytes.Repeat([]byte{9}, 256)),
		s.packet(roce.RCRDMAWriteOnly, soloPeerPSN+1<<23+2, []byte("oldest")),
	} {
		s.wantPackets("a duplicate "+p.BTH.Opcode.String(), s.inject(p), ack(roce.ACKUnlimited, 0x101))
	}
	bad := s.packet(roce.RCRDMAWriteOnly, 0x101, []byte("wrong"))
	bad.RETH.RKey ^= 0x100
	s.wantPackets("a duplicate is never refused", s.inject(bad), ack(roce.ACKUnlimited, 0x101))
	s.wantWCs("duplicates complete nothing")
	if !bytes.Equal(before, s.buf) {
		t.Error("a duplicate changed memory")
	}
	if c := s.counters(); c.DuplicateRequest != 5 {
		t.Errorf("5 duplicates count as %d", c.DuplicateRequest)
	}
}

// TestE9_DuplicateRead shows that a READ is read again, from the start or
// from the middle, and that one that does not lie in the original is dropped.
func TestE9_DuplicateRead(t *testing.T) {
	s := newSolo(t, soloConfig{})
	fill(s.buf, 1)
	want := []sig{
		{roce.RCRDMAReadResponseFirst, 0x100, roce.ACKUnlimited}, req(roce.RCRDMAReadResponseMiddle, 0x101),
		{roce.RCRDMAReadResponseLast, 0x102, roce.ACKUnlimited},
	}
	s.wantPackets("a READ of 3 packets", s.inject(s.read(0x100, 600)), want...)
	s.wantPackets("the same again", s.inject(s.read(0x100, 600)), want...)
	tail := s.read(0x101, 344)
	tail.RETH.VA += 256
	got := s.inject(tail)
	s.wantPackets("again from the second packet", got, want[1:]...)
	if !bytes.Equal(got[0].Payload, s.buf[256:512]) || !bytes.Equal(got[1].Payload, s.buf[512:600]) {
		t.Error("the part that is read again holds other bytes")
	}
	part := s.read(0x101, 100)
	part.RETH.VA += 256
	s.wantPackets("again from the middle, but not to the end", s.inject(part), sig{roce.RCRDMAReadResponseLast, 0x101, roce.ACKUnlimited})
	for what, change := range map[string]func(*roce.Packet){
		"another address":        func(p *roce.Packet) { p.RETH.VA++ },
		"another rkey":           func(p *roce.Packet) { p.RETH.RKey++ },
		"past the original":      func(p *roce.Packet) { p.RETH.Length++ },
		"a PSN before any READ":  func(p *roce.Packet) { p.BTH.PSN = ib.NewPSN(0x0ff) },
		"length 2^32-1":          func(p *roce.Packet) { p.RETH.Length = 1<<32 - 1 },
		"an atomic at a READ":    func(p *roce.Packet) { p.BTH.Opcode = roce.RCFetchAdd },
		"a FLUSH, not done here": func(p *roce.Packet) { p.BTH.Opcode = roce.RCFlush },
	} {
		p := s.read(0x101, 344)
		p.RETH.VA += 256
		change(&p)
		s.wantSilence("a duplicate READ with "+what, s.inject(p), ib.RTS)
	}
	must(t, s.pd.DeregMR(s.mr))
	s.wantSilence("the region has gone: its rkey is checked anew, but a duplicate is never refused", s.inject(s.read(0x100, 600)), ib.RTS)
}

// TestE9_AtomicOnce shows that an atomic is executed once and answered from
// its saved result ever after, whatever the duplicate says.
func TestE9_AtomicOnce(t *testing.T) {
	s := newSolo(t, soloConfig{})
	first := s.inject(s.fetchAdd(0x100, 8, 5))
	s.inject(s.fetchAdd(0x101, 8, 7))
	for _, add := range []uint64{5, 99} {
		p := s.fetchAdd(0x100, 8, add)
		p.AtomicETH.RKey += uint32Key(add)
		again := s.inject(p)
		s.wantPackets("a duplicate atomic", again, sig{roce.RCAtomicAcknowledge, 0x100, roce.ACKUnlimited})
		if len(again) == 1 && again[0].AtomicAck != first[0].AtomicAck {
			t.Errorf("the duplicate returns %d, the original returned %d", again[0].AtomicAck, first[0].AtomicAck)
		}
	}
	if got := s.word(8); got != 12 {
		t.Errorf("5 and 7 were added once each, the word is %d", got)
	}
}

func uint32Key(v uint64) ib.RKey { return ib.RKey(v) }

// TestE9_E11_ResourcesAreFirstInFirstOut shows that as many READ and atomic
// results are kept as agreed: an older duplicate is dropped.
func TestE9_E11_ResourcesAreFirstInFirstOut(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.MaxDestRDAtomic = 2 }})
	for i := range uint32(3) {
		s.inject(s.fetchAdd(0x100+i, 0, 1))
	}
	s.wantSilence("the oldest of three, two are kept", s.inject(s.fetchAdd(0x100, 0, 1)), ib.RTS)
	for i := uint32(1); i < 3; i++ {
		got := s.inject(s.fetchAdd(0x100+i, 0, 1))
		s.wantPackets("one of the two that are kept", got, sig{roce.RCAtomicAcknowledge, 0x100 + i, roce.ACKUnlimited})
		if len(got) == 1 && got[0].AtomicAck != uint64(i) {
			t.Errorf("the result of atomic %d is %d", i, got[0].AtomicAck)
		}
	}
	if s.word(0) != 3 {
		t.Errorf("three atomics and three duplicates add up to %d", s.word(0))
	}
}

// TestE10_OpcodeSequence shows that an opcode that does not follow the one
// before, or that is not done here, is an invalid request.
func TestE10_OpcodeSequence(t *testing.T) {
	mtu := make([]byte, 256)
	for _, c := range []struct {
		what   string
		before []roce.Opcode // in order, fine
		bad    roce.Opcode
		status ib.WCStatus // of the receive in hand; 0: none, an event instead
	}{
		{"MIDDLE without FIRST", nil, roce.RCSendMiddle, 0},
		{"LAST without FIRST", nil, roce.RCSendLast, 0},
		{"WRITE LAST without FIRST", nil, roce.RCRDMAWriteLast, 0},
		{"WRITE LAST with immediate without FIRST", nil, roce.RCRDMAWriteLastWithImm, 0},
		{"FIRST after FIRST", []roce.Opcode{roce.RCSendFirst}, roce.RCSendFirst, ib.WCRemInvReqErr},
		{"ONLY after FIRST", []roce.Opcode{roce.RCSendFirst}, roce.RCSendOnly, ib.WCRemInvReqErr},
		{"ONLY after MIDDLE", []roce.Opcode{roce.RCSendFirst, roce.RCSendMiddle}, roce.RCSendOnly, ib.WCRemInvReqErr},
		{"WRITE MIDDLE in a SEND", []roce.Opcode{roce.RCSendFirst}, roce.RCRDMAWriteMiddle, ib.WCRemInvReqErr},
		{"SEND LAST in a WRITE", []roce.Opcode{roce.RCRDMAWriteFirst}, roce.RCSendLast, 0},
		{"READ in a SEND", []roce.Opcode{roce.RCSendFirst}, roce.RCRDMAReadRequest, ib.WCRemInvReqErr},
		{"atomic in a WRITE", []roce.Opcode{roce.RCRDMAWriteFirst}, roce.RCFetchAdd, 0},
		{"MIDDLE after LAST", []roce.Opcode{roce.RCSendFirst, roce.RCSendLast}, roce.RCSendMiddle, 0},
		{"FLUSH, which is not done here", nil, roce.RCFlush, 0},
		{"ATOMIC WRITE, which is not done here", nil, roce.RCAtomicWrite, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newSolo(t, soloConfig{})
			s.recv(1, 2000, 2000)
			psn := uint32(soloPeerPSN)
			for _, op := range c.before {
				s.inject(s.write(op, psn, mtu, 4096))
				psn++
			}
			done := len(s.poll())
			p := s.write(c.bad, psn, mtu, 4096)
			if c.bad.Info().Payload == roce.PayloadNone {
				p.Payload = nil
			}
			s.wantPackets(c.what, s.inject(p), ack(roce.NAKInvalidRequest, psn))
			s.wantDead(c.what, uint64(done+1), 2, c.status)
		})
	}
}

// wantDead checks what every fatal error of the responder leaves: the receive
// in hand completes with status, or the event event of the fault is raised;
// then QP_FATAL, and the receives from the next to last are flushed in order.
func (s *solo) wantDead(what string, next, last uint64, status ib.WCStatus, event ...ib.EventType) {
	s.t.Helper()
	var want []wc
	events := []ib.EventType{ib.EventQPReqErr, ib.EventQPFatal}
	if len(event) > 0 {
		events[0] = event[0]
	}
	if status != 0 {
		want = append(want, wc{next, status})
		next++
		events = events[1:]
	}
	for ; next <= last; next++ {
		want = append(want, wc{next, ib.WCWRFlushErr})
	}
	s.wantState(what, ib.ERR)
	s.wantWCs(what, want...)
	s.wantEvents(what, events...)
	s.wantSilence(what+": then silence", s.inject(s.packet(roce.RCSendOnly, soloPeerPSN+50, nil)), ib.ERR)
}

// TestE10_Rights shows that an operation that the queue pair does not allow is
// refused as an invalid request, and so are READs and atomics without
// responder resources.
func TestE10_Rights(t *testing.T) {
	for _, c := range []struct {
		what   string
		op     roce.Opcode
		access ib.Access
		depth  uint8
	}{
		{"WRITE", roce.RCRDMAWriteOnly, ib.AccessRemoteRead | ib.AccessRemoteAtomic, 4},
		{"READ", roce.RCRDMAReadRequest, ib.AccessRemoteWrite | ib.AccessRemoteAtomic, 4},
		{"atomic", roce.RCFetchAdd, ib.AccessRemoteRead | ib.AccessRemoteWrite, 4},
		{"READ, no resources", roce.RCRDMAReadRequest, ib.AccessRemote, 0},
		{"atomic, no resources", roce.RCCompareSwap, ib.AccessRemote, 0},
	} {
		s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.AccessFlags, a.MaxDestRDAtomic = c.access, c.depth }})
		s.recv(1, 100)
		p := s.fetchAdd(0x100, 0, 1)
		p.BTH.Opcode = c.op
		s.wantPackets(c.what, s.inject(p), ack(roce.NAKInvalidRequest, 0x100))
		s.wantDead(c.what, 1, 1, 0)
		if s.word(0) != 0 {
			t.Errorf("%s was executed all the same", c.what)
		}
	}
}

// TestE12_RNRNAK shows the responder's side: the timer code, the PSN, silence
// about the rest of the burst, and that all goes on once there is a receive.
func TestE12_RNRNAK(t *testing.T) {
	mtu := make([]byte, 256)
	for _, c := range []struct {
		what  string
		first roce.Packet
	}{
		{"SEND", roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendFirst}}},
		{"SEND from the SRQ", roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendFirst}}},
	} {
		cfg := soloConfig{attr: func(a *ib.QPAttr) { a.MinRNRTimer = 9 }}
		if c.what != "SEND" {
			cfg.srq = 8
		}
		s := newSolo(t, cfg)
		rnr := ack(roce.RNRNAK(9), 0x100)
		s.wantPackets(c.what, s.inject(s.packet(roce.RCSendFirst, 0x100, mtu)), rnr)
		s.wantPackets("the rest of the burst", s.inject(s.packet(roce.RCSendMiddle, 0x101, mtu), s.packet(roce.RCSendLast, 0x102, mtu)))
		s.wantPackets("too early again", s.inject(s.packet(roce.RCSendFirst, 0x100, mtu)), rnr)
		s.recv(1, 600)
		s.wantPackets("with a receive", s.inject(s.packet(roce.RCSendFirst, 0x100, mtu), s.packet(roce.RCSendLast, 0x101, mtu)), ack(roce.ACKUnlimited, 0x101))
		s.wantWCs("delivered once", wc{1, ib.WCSuccess})
		if n := s.counters().SendRNRErr; n != 2 {
			t.Errorf("2 RNR NAKs count as %d", n)
		}
	}
}

// TestE12_WriteWithImmRetriesOnlyTheLast shows that the packets of a WRITE
// with immediate before the last are executed though there is no receive.
func TestE12_WriteWithImmRetriesOnlyTheLast(t *testing.T) {
	s := newSolo(t, soloConfig{})
	data := make([]byte, 300)
	fill(data, 3)
	last := s.write(roce.RCRDMAWriteLastWithImm, 0x101, data[256:], 300)
	last.Imm = 0xabcd
	got := s.inject(s.write(roce.RCRDMAWriteFirst, 0x100, data[:256], 300), last)
	s.wantPackets("no receive for the immediate", got, ack(roce.RNRNAK(12), 0x101))
	s.recv(7, 0)
	s.wantPackets("the last packet alone, again", s.inject(last), ack(roce.ACKUnlimited, 0x101))
	wcs := s.poll()
	if len(wcs) != 1 || wcs[0].Opcode != ib.WCRecvRDMAWithImm || wcs[0].ImmData != 0xabcd || wcs[0].ByteLen != 300 {
		t.Errorf("the immediate completes as %+v", wcs)
	}
	if !bytes.Equal(s.buf[:300], data) {
		t.Error("the WRITE placed other bytes")
	}
}

// TestE13_ZeroLength shows that no bytes need no key: rkey and address of a
// READ and a WRITE of length zero are not looked at.
func TestE13_ZeroLength(t *testing.T) {
	s := newSolo(t, soloConfig{})
	w := s.packet(roce.RCRDMAWriteOnly, 0x100, nil)
	r := s.read(0x101, 0)
	for _, p := range []*roce.Packet{&w, &r} {
		p.RETH.RKey, p.RETH.VA = 0xbad, 3
	}
	s.wantPackets("a WRITE of nothing", s.inject(w), ack(roce.ACKUnlimited, 0x100))
	got := s.inject(r)
	s.wantPackets("a READ of nothing", got, sig{roce.RCRDMAReadResponseOnly, 0x101, roce.ACKUnlimited})
	if len(got) == 1 && (len(got[0].Payload) != 0 || got[0].AETH.MSN != 2) {
		t.Errorf("the answer to a READ of nothing has %d bytes and MSN %d", len(got[0].Payload), got[0].AETH.MSN)
	}
}

// TestE14_RemoteAccess shows the NAK, the event and the silence after an
// access to memory that the key does not give.
func TestE14_RemoteAccess(t *testing.T) {
	all := ib.AccessLocalWrite | ib.AccessRemote
	for _, c := range []struct {
		what   string
		op     roce.Opcode
		access ib.Access
		va     uint64
		rkey   ib.RKey // changes it
	}{
		{"WRITE, no such key", roce.RCRDMAWriteOnly, all, 0, 0x100},
		{"WRITE, wrong low byte of the key", roce.RCRDMAWriteOnly, all, 0, 1},
		{"READ, no such key", roce.RCRDMAReadRequest, all, 0, 0x100},
		{"atomic, no such key", roce.RCFetchAdd, all, 0, 0x100},
		{"WRITE over the end", roce.RCRDMAWriteOnly, all, soloBytes - 15, 0},
		{"READ before the start", roce.RCRDMAReadRequest, all, 1<<64 - 8, 0},
		{"READ that wraps 2^64", roce.RCRDMAReadRequest, all, 1<<64 - 8 - 1<<32, 0},
		{"atomic at the end", roce.RCCompareSwap, all, soloBytes, 0},
		{"WRITE to a read-only region", roce.RCRDMAWriteOnly, ib.AccessLocalWrite | ib.AccessRemoteRead, 0, 0},
		{"READ of a write-only region", roce.RCRDMAReadRequest, ib.AccessLocalWrite | ib.AccessRemoteWrite, 0, 0},
		{"atomic without the right", roce.RCFetchAdd, ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead, 0, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newSolo(t, soloConfig{mrAccess: c.access})
			s.recv(1, 100, 100)
			var payload []byte
			if c.op == roce.RCRDMAWriteOnly {
				payload = bytes.Repeat([]byte{0xff}, 16)
			}
			p := s.packet(c.op, 0x100, payload)
			p.RETH.Length = 16
			p.RETH.VA += c.va
			p.RETH.RKey ^= c.rkey
			p.AtomicETH = roce.AtomicETH{VA: p.RETH.VA, RKey: p.RETH.RKey, SwapAdd: 1}
			s.wantPackets(c.what, s.inject(p), ack(roce.NAKRemoteAccess, 0x100))
			s.wantDead(c.what, 1, 2, 0, ib.EventQPAccessErr)
			if !bytes.Equal(s.buf, make([]byte, soloBytes)) {
				t.Error("memory was changed all the same")
			}
		})
	}
}

// TestE14_OtherDomain shows that a key of another protection domain is no key.
func TestE14_OtherDomain(t *testing.T) {
	s := newSolo(t, soloConfig{})
	pd, err := s.hca.AllocPD()
	must(t, err)
	mr, err := pd.RegMR(memory.RegionConfig{Buf: make([]byte, 64), Access: ib.AccessLocalWrite | ib.AccessRemote})
	must(t, err)
	p := s.packet(roce.RCRDMAWriteOnly, 0x100, []byte{1})
	p.RETH.RKey, p.RETH.VA = mr.RKey(), mr.Addr()
	s.wantPackets("a key of another domain", s.inject(p), ack(roce.NAKRemoteAccess, 0x100))
	s.wantDead("a key of another domain", 1, 0, 0, ib.EventQPAccessErr)
}

// TestE14_RegionGoesInTheMiddle shows that each packet is checked: when the
// region goes away in the middle of a WRITE the rest is refused; in the
// middle of READ responses the peer is told with the PSN that is missing.
func TestE14_RegionGoesInTheMiddle(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.inject(s.write(roce.RCRDMAWriteFirst, 0x100, make([]byte, 256), 300))
	must(t, s.pd.DeregMR(s.mr))
	s.wantPackets("the rest of a WRITE", s.inject(s.write(roce.RCRDMAWriteLast, 0x101, make([]byte, 44), 300)), ack(roce.NAKRemoteAccess, 0x101))
	s.wantState("the rest of a WRITE", ib.ERR)

	s = newSolo(t, soloConfig{batch: maxPacket + 100})
	s.deliver(s.datagram(s.read(0x100, soloBytes)))
	s.hca.Shard().Transmit(s.now, s.batch) // as many as the batch holds
	sent := uint32(s.packets())
	s.batch.Reset()
	must(t, s.pd.DeregMR(s.mr))
	s.wantPackets("the rest of a READ", s.out(), ack(roce.NAKRemoteAccess, 0x100+sent))
	s.wantDead("the rest of a READ", 1, 0, 0, ib.EventQPAccessErr)
	if sent == 0 || sent >= soloBytes/256 {
		t.Fatalf("%d of %d responses were sent before the region went", sent, soloBytes/256)
	}
}

// TestE15_Lengths shows that a packet whose length does not fit its opcode,
// the receive or the RETH is an invalid request, and what the receive in
// hand completes with.
func TestE15_Lengths(t *testing.T) {
	first := func(s *solo) { s.inject(s.packet(roce.RCSendFirst, 0x100, make([]byte, 256))) }
	firstWrite := func(n int) func(s *solo) {
		return func(s *solo) { s.inject(s.write(roce.RCRDMAWriteFirst, 0x100, make([]byte, 256), n)) }
	}
	for _, c := range []struct {
		what   string
		before func(*solo) // takes PSN 0x100, if any
		op     roce.Opcode
		n      int // bytes of payload
		reth   int
		status ib.WCStatus
	}{
		{"SEND FIRST shorter than the MTU", nil, roce.RCSendFirst, 252, 0, ib.WCLocLenErr},
		{"SEND FIRST longer than the MTU", nil, roce.RCSendFirst, 260, 0, ib.WCLocLenErr},
		{"SEND MIDDLE shorter than the MTU", first, roce.RCSendMiddle, 255, 0, ib.WCLocLenErr},
		{"SEND LAST of nothing", first, roce.RCSendLast, 0, 0, ib.WCLocLenErr},
		{"SEND LAST over the MTU", first, roce.RCSendLast, 257, 0, ib.WCLocLenErr},
		{"SEND ONLY over the MTU", nil, roce.RCSendOnly, 257, 0, ib.WCLocLenErr},
		{"SEND ONLY longer than the receive", nil, roce.RCSendOnly, 201, 0, ib.WCLocLenErr},
		{"SEND longer than the receive", nil, roce.RCSendFirst, 256, 0, ib.WCLocLenErr},
		{"WRITE ONLY shorter than its RETH", nil, roce.RCRDMAWriteOnly, 8, 9, 0},
		{"WRITE ONLY longer than its RETH", nil, roce.RCRDMAWriteOnly, 9, 8, 0},
		{"WRITE FIRST with the length of one packet", nil, roce.RCRDMAWriteFirst, 256, 256, 0},
		{"WRITE LAST before the end", firstWrite(600), roce.RCRDMAWriteLast, 256, 0, 0},
		{"WRITE MIDDLE past the end", firstWrite(500), roce.RCRDMAWriteMiddle, 256, 0, 0},
		{"WRITE LAST past the end", firstWrite(300), roce.RCRDMAWriteLast, 45, 0, 0},
		{"READ over 2^31", nil, roce.RCRDMAReadRequest, 0, 1<<31 + 1, 0},
		{"WRITE over 2^31", nil, roce.RCRDMAWriteFirst, 256, 1<<31 + 1, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newSolo(t, soloConfig{})
			if c.what == "SEND ONLY longer than the receive" || c.what == "SEND longer than the receive" {
				s.recv(1, 200, 200)
			} else {
				s.recv(1, 2000, 2000)
			}
			psn := uint32(0x100)
			if c.before != nil {
				c.before(s)
				psn++
			}
			p := s.write(c.op, psn, make([]byte, c.n), c.reth)
			s.wantPackets(c.what, s.inject(p), ack(roce.NAKInvalidRequest, psn))
			s.wantDead(c.what, 1, 2, c.status)
		})
	}
}

// TestE16_BadReceiveLKey shows that the peer learns of a bad receive, and that
// the receive completes with LOC_PROT_ERR.
func TestE16_BadReceiveLKey(t *testing.T) {
	s := newSolo(t, soloConfig{})
	_, err := s.qp.PostRecv(ib.RecvWR{WRID: 1, SGList: []ib.SGE{{Addr: s.mr.Addr(), Length: 100, LKey: s.mr.LKey() + 1}}})
	must(t, err)
	s.recv(2, 100)
	s.wantPackets("a receive with a bad lkey", s.inject(s.packet(roce.RCSendOnly, 0x100, []byte{1})), ack(roce.NAKRemoteOperational, 0x100))
	s.wantDead("a receive with a bad lkey", 1, 2, ib.WCLocProtErr)
}

// TestE17_MisalignedAtomic shows that alignment is looked at before the key.
func TestE17_MisalignedAtomic(t *testing.T) {
	for off := uint64(1); off < 8; off++ {
		s := newSolo(t, soloConfig{})
		p := s.fetchAdd(0x100, off, 1)
		p.AtomicETH.RKey ^= ib.RKey(off & 1)
		s.wantPackets("a misaligned atomic", s.inject(p), ack(roce.NAKInvalidRequest, 0x100))
		s.wantDead("a misaligned atomic", 1, 0, 0)
	}
}

// TestE18_ReceiveCQOverflow shows the order: CQ_ERR, then QP_FATAL; and that
// the completions that found no room are counted, not lost in silence.
func TestE18_ReceiveCQOverflow(t *testing.T) {
	s := newSolo(t, soloConfig{cqe: 2})
	s.recv(1, 9, 9, 9, 9, 9)
	for i := range uint32(3) {
		s.inject(s.packet(roce.RCSendOnly, 0x100+i, []byte{1}))
	}
	s.wantEvents("three receives into a CQ of two", ib.EventCQErr, ib.EventQPFatal)
	s.wantState("three receives into a CQ of two", ib.ERR)
	if !s.cq.Failed() || s.counters().CQEOverflow != 3 {
		t.Errorf("failed %v, %d lost; want receives 3 to 5 lost", s.cq.Failed(), s.counters().CQEOverflow)
	}
	s.wantWCs("what was there stays", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	s.recv(6, 9)
	s.out()
	s.wantWCs("a CQ that failed takes no more, though it has room")
}

// TestE19_ReadResponseWithoutRoom shows that responses that find the batch
// full are sent in the next ones, each once and in order.
func TestE19_ReadResponseWithoutRoom(t *testing.T) {
	s := newSolo(t, soloConfig{batch: maxPacket + 300})
	fill(s.buf, 19)
	s.deliver(s.datagram(s.read(0x100, 32<<10)))
	s.deliver(s.datagram(s.packet(roce.RCRDMAWriteOnly, 0x100+128, nil)))
	got := s.out()
	if len(got) != 129 {
		t.Fatalf("%d packets answer a READ of 128 and a WRITE", len(got))
	}
	for i, p := range got[:128] {
		if p.BTH.PSN.Value() != 0x100+uint32(i) || !bytes.Equal(p.Payload, s.buf[i*256:(i+1)*256]) {
			t.Fatalf("response %d has PSN %v or other bytes", i, p.BTH.PSN)
		}
	}
	s.wantPackets("the ACK of what came after the READ comes last", got[128:], ack(roce.ACKUnlimited, 0x100+128))
	if got := s.pass(time.Second); len(got) != 0 {
		t.Errorf("%d packets more", len(got))
	}
}

// TestE19_ACKWithoutRoom shows that an ACK that finds the batch full, behind
// requests of our own, is the first packet of the next.
func TestE19_ACKWithoutRoom(t *testing.T) {
	const room = 16*(12+256+4) + 10 // whole SEND packets, and less than an ACK
	s := newSolo(t, soloConfig{batch: room})
	_, err := s.qp.PostSend(s.wr(ib.WRSend, 1, 0, 8000))
	must(t, err)
	s.hca.Shard().RingDoorbell(s.qp)
	s.deliver(s.datagram(s.packet(roce.RCRDMAWriteOnly, 0x100, []byte{1})))
	if !s.hca.Shard().Transmit(s.now, s.batch) {
		t.Error("there is more to send and Transmit says no")
	}
	if n := s.packets(); n != 16 {
		t.Fatalf("%d packets are in the first batch, want 16 SENDs and no ACK", n)
	}
	s.batch.Reset()
	got := s.out()
	if len(got) == 0 || sigOf(&got[0]) != ack(roce.ACKUnlimited, 0x100) {
		t.Errorf("the next batch does not begin with the ACK but with %v", got[:min(1, len(got))])
	}
}

// TestE8_PSNWraps shows that 0 follows 2^24-1, for what is expected, behind
// and ahead.
func TestE8_PSNWraps(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.RQPSN = ib.NewPSN(0xffffff) }})
	s.recv(1, 300)
	s.wantPackets("the last PSN", s.inject(s.packet(roce.RCRDMAWriteOnly, 0xffffff, []byte{1})), ack(roce.ACKUnlimited, 0xffffff))
	s.wantPackets("PSN 0 is next", s.inject(s.packet(roce.RCSendOnly, 0, []byte{1})), ack(roce.ACKUnlimited, 0))
	s.wantPackets("the last PSN is a duplicate now", s.inject(s.packet(roce.RCRDMAWriteOnly, 0xffffff, []byte{1})), ack(roce.ACKUnlimited, 0))
	s.wantPackets("PSN 2 is ahead", s.inject(s.packet(roce.RCRDMAWriteOnly, 2, []byte{1})), ack(roce.NAKSequence, 1))
}

// TestE9_AcknowledgementsAreCumulative shows that requests that arrive
// together are acknowledged together, behind the responses that come first.
func TestE9_AcknowledgementsAreCumulative(t *testing.T) {
	s := newSolo(t, soloConfig{})
	got := s.inject(s.packet(roce.RCRDMAWriteOnly, 0x100, []byte{1}), s.packet(roce.RCRDMAWriteOnly, 0x101, []byte{1}),
		s.read(0x102, 10), s.fetchAdd(0x103, 8, 1), s.packet(roce.RCRDMAWriteOnly, 0x104, []byte{1}))
	s.wantPackets("five requests at once", got, sig{roce.RCRDMAReadResponseOnly, 0x102, roce.ACKUnlimited},
		sig{roce.RCAtomicAcknowledge, 0x103, roce.ACKUnlimited}, ack(roce.ACKUnlimited, 0x104))
	for i, msn := range []ib.MSN{3, 4, 5} {
		if i < len(got) && got[i].AETH.MSN != msn {
			t.Errorf("answer %d has MSN %d, want %d", i, got[i].AETH.MSN, msn)
		}
	}
	if n := s.counters().AckDeferred; n != 2 {
		t.Errorf("2 acknowledgements were merged, %d are counted", n)
	}
	quiet := s.packet(roce.RCRDMAWriteOnly, 0x105, []byte{1})
	quiet.BTH.AckReq = false
	s.wantPackets("a request that asks for no ACK", s.inject(quiet))
}

// TestE9_ReadOverMTUChange shows that a READ that came before the path MTU was
// changed is answered again in packets of the size that its requester counts
// in, whole or from the middle.
func TestE9_ReadOverMTUChange(t *testing.T) {
	s := newSolo(t, soloConfig{})
	fill(s.buf[:600], 1)
	read := s.packet(roce.RCRDMAReadRequest, soloPeerPSN, nil)
	read.RETH.Length = 600
	s.inject(read)
	s.modify(ib.SQD)
	must(t, s.qp.Modify(s.now, &ib.QPAttr{State: ib.RTS, PathMTU: ib.MTU512}, ib.AttrState|ib.AttrPathMTU))
	rest := read
	rest.BTH.PSN, rest.RETH.VA, rest.RETH.Length = read.BTH.PSN.Next(), read.RETH.VA+256, 344
	for from, again := range []roce.Packet{read, rest} {
		for i, p := range s.inject(again) {
			at := (from + i) * 256
			if want := s.buf[at:min(at+256, 600)]; !bytes.Equal(p.Payload, want) {
				t.Errorf("%v with %d bytes, want the %d at %d", p.BTH.Opcode, len(p.Payload), len(want), at)
			}
		}
	}
	if n := s.counters().SentPkts; n != 3+3+2 {
		t.Errorf("%d packets answer the READ and its duplicates, want 8", n)
	}
}
