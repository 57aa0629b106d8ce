package qp_test

import (
	"bytes"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestE8_GapClosesBeforeTheNAK shows that merely reordered packets cause no
// NAK, which would replace pending acknowledgements.
func TestE8_GapClosesBeforeTheNAK(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		cfg := rig.SoloConfig{HCA: hca.Config{Settings: qp.Settings{InOrderOnly: !keeps}}}
		s := rig.NewSolo(t, cfg)
		s.Recv(1, 100, 100, 100)
		got := s.Inject(
			s.Packet(roce.RCSendOnly, 0x100, []byte{1}), s.Packet(roce.RCSendOnly, 0x102, []byte{3}), s.Packet(roce.RCSendOnly, 0x101, []byte{2}))
		const what = "three packets in one datagram, the last two exchanged"
		if keeps {
			s.WantPackets(what, got, rig.Ack(roce.ACKUnlimited, 0x102))
			s.WantWCs("all are executed", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess), rig.WC(3, ib.WCSuccess))
		} else {
			s.WantPackets(what, got, rig.Ack(roce.NAKSequence, 0x102))
			s.WantWCs("both in order are executed", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess))
		}
		s = rig.NewSolo(t, cfg)
		var ps []roce.Packet
		for _, psn := range []uint32{0x100, 0x102, 0x101, 0x102} {
			ps = append(ps, s.Packet(roce.RCRDMAWriteOnly, psn, []byte{1}))
			ps[len(ps)-1].BTH.AckReq = psn == 0x100
		}
		s.WantPackets("the NAK is void, the ACK that it stood for is not", s.Inject(ps...), rig.Ack(roce.ACKUnlimited, 0x102))
	}
}

// TestE9_DuplicateRead shows that a duplicate READ is executed again, from the
// start or the middle, and that one outside the original is dropped.
func TestE9_DuplicateRead(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	rig.Fill(s.Buf, 1)
	want := []rig.Signature{
		rig.Sig(roce.RCRDMAReadResponseFirst, 0x100, roce.ACKUnlimited), rig.Req(roce.RCRDMAReadResponseMiddle, 0x101),
		rig.Sig(roce.RCRDMAReadResponseLast, 0x102, roce.ACKUnlimited),
	}
	s.WantPackets("a READ of 3 packets", s.Inject(s.Read(0x100, 600)), want...)
	s.WantPackets("the same again", s.Inject(s.Read(0x100, 600)), want...)
	tail := s.Read(0x101, 344)
	tail.RETH.VA += 256
	got := s.Inject(tail)
	s.WantPackets("again from the second packet", got, want[1:]...)
	if !bytes.Equal(got[0].Payload, s.Buf[256:512]) || !bytes.Equal(got[1].Payload, s.Buf[512:600]) {
		t.Error("the part that is read again holds other bytes")
	}
	part := s.Read(0x101, 100)
	part.RETH.VA += 256
	s.WantPackets("again from the middle, but not to the end", s.Inject(part), rig.Sig(roce.RCRDMAReadResponseLast, 0x101, roce.ACKUnlimited))
	for what, change := range map[string]func(*roce.Packet){
		"another address":        func(p *roce.Packet) { p.RETH.VA++ },
		"another rkey":           func(p *roce.Packet) { p.RETH.RKey++ },
		"past the original":      func(p *roce.Packet) { p.RETH.Length++ },
		"a PSN before any READ":  func(p *roce.Packet) { p.BTH.PSN = ib.NewPSN(0x0ff) },
		"length 2^32-1":          func(p *roce.Packet) { p.RETH.Length = 1<<32 - 1 },
		"an atomic at a READ":    func(p *roce.Packet) { p.BTH.Opcode = roce.RCFetchAdd },
		"a FLUSH, not done here": func(p *roce.Packet) { p.BTH.Opcode = roce.RCFlush },
	} {
		p := s.Read(0x101, 344)
		p.RETH.VA += 256
		change(&p)
		s.WantSilence("a duplicate READ with "+what, s.Inject(p), ib.RTS)
	}
	rig.Must(t, s.PD.DeregMR(s.MR))
	s.WantSilence("the region has gone: its rkey is checked anew, but a duplicate is never refused", s.Inject(s.Read(0x100, 600)), ib.RTS)
}

// TestE10_OpcodeSequence shows that an opcode that may not follow the previous
// one, or is not supported, is an invalid request.
func TestE10_OpcodeSequence(t *testing.T) {
	mtu := make([]byte, 256)
	for _, c := range []struct {
		what   string
		before []roce.Opcode // in order, fine
		bad    roce.Opcode
		status ib.WCStatus // of the current receive; 0: no receive, an event instead
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
		{"FLUSH in a WRITE", []roce.Opcode{roce.RCRDMAWriteFirst}, roce.RCFlush, 0},
		{"ATOMIC WRITE in a SEND", []roce.Opcode{roce.RCSendFirst}, roce.RCAtomicWrite, ib.WCRemInvReqErr},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := rig.NewSolo(t, rig.SoloConfig{})
			s.Recv(1, 2000, 2000)
			psn := uint32(rig.PeerPSN)
			for _, op := range c.before {
				s.Inject(s.Write(op, psn, mtu, 4096))
				psn++
			}
			done := len(s.Poll())
			p := s.Write(c.bad, psn, mtu, 4096)
			if c.bad.Info().Payload == roce.PayloadNone {
				p.Payload = nil
			}
			s.WantPackets(c.what, s.Inject(p), rig.Ack(roce.NAKInvalidRequest, psn))
			s.WantDead(c.what, uint64(done+1), 2, c.status)
		})
	}
}

// TestE14_RemoteAccess shows the NAK, the event and the silence after an access
// that the key does not permit.
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
		{"WRITE over the end", roce.RCRDMAWriteOnly, all, rig.Bytes - 15, 0},
		{"READ before the start", roce.RCRDMAReadRequest, all, 1<<64 - 8, 0},
		{"READ that wraps 2^64", roce.RCRDMAReadRequest, all, 1<<64 - 8 - 1<<32, 0},
		{"atomic at the end", roce.RCCompareSwap, all, rig.Bytes, 0},
		{"WRITE to a read-only region", roce.RCRDMAWriteOnly, ib.AccessLocalWrite | ib.AccessRemoteRead, 0, 0},
		{"READ of a write-only region", roce.RCRDMAReadRequest, ib.AccessLocalWrite | ib.AccessRemoteWrite, 0, 0},
		{"atomic without the right", roce.RCFetchAdd, ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead, 0, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := rig.NewSolo(t, rig.SoloConfig{MRAccess: c.access})
			s.Recv(1, 100, 100)
			var payload []byte
			if c.op == roce.RCRDMAWriteOnly {
				payload = bytes.Repeat([]byte{0xff}, 16)
			}
			p := s.Packet(c.op, 0x100, payload)
			p.RETH.Length = 16
			p.RETH.VA += c.va
			p.RETH.RKey ^= c.rkey
			p.AtomicETH = roce.AtomicETH{VA: p.RETH.VA, RKey: p.RETH.RKey, SwapAdd: 1}
			s.WantPackets(c.what, s.Inject(p), rig.Ack(roce.NAKRemoteAccess, 0x100))
			s.WantDead(c.what, 1, 2, 0, ib.EventQPAccessErr)
			if !bytes.Equal(s.Buf, make([]byte, rig.Bytes)) {
				t.Error("memory was changed all the same")
			}
		})
	}
}

// TestE15_Lengths shows that a packet whose length does not fit its opcode, the
// receive or the RETH is an invalid request, and the status of the current
// receive.
func TestE15_Lengths(t *testing.T) {
	first := func(s *rig.Solo) { s.Inject(s.Packet(roce.RCSendFirst, 0x100, make([]byte, 256))) }
	firstWrite := func(n int) func(s *rig.Solo) {
		return func(s *rig.Solo) { s.Inject(s.Write(roce.RCRDMAWriteFirst, 0x100, make([]byte, 256), n)) }
	}
	for _, c := range []struct {
		what   string
		before func(*rig.Solo) // takes PSN 0x100, if any
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
			s := rig.NewSolo(t, rig.SoloConfig{})
			if c.what == "SEND ONLY longer than the receive" || c.what == "SEND longer than the receive" {
				s.Recv(1, 200, 200)
			} else {
				s.Recv(1, 2000, 2000)
			}
			psn := uint32(0x100)
			if c.before != nil {
				c.before(s)
				psn++
			}
			p := s.Write(c.op, psn, make([]byte, c.n), c.reth)
			s.WantPackets(c.what, s.Inject(p), rig.Ack(roce.NAKInvalidRequest, psn))
			s.WantDead(c.what, 1, 2, c.status)
		})
	}
}

// TestE17_MisalignedAtomic shows that alignment is checked before the key.
func TestE17_MisalignedAtomic(t *testing.T) {
	for off := uint64(1); off < 8; off++ {
		s := rig.NewSolo(t, rig.SoloConfig{})
		p := s.FetchAdd(0x100, off, 1)
		p.AtomicETH.RKey ^= ib.RKey(off & 1)
		s.WantPackets("a misaligned atomic", s.Inject(p), rig.Ack(roce.NAKInvalidRequest, 0x100))
		s.WantDead("a misaligned atomic", 1, 0, 0)
	}
}

// TestE19_ACKWithoutRoom shows that an ACK that does not fit into the batch
// after our requests is the first packet of the next batch.
func TestE19_ACKWithoutRoom(t *testing.T) {
	const room = 16*(12+256+4) + 10 // whole SEND packets, and less than an ACK
	s := rig.NewSolo(t, rig.SoloConfig{Batch: room})
	_, err := s.QP.PostSend(s.WR(ib.WRSend, 1, 0, 8000))
	rig.Must(t, err)
	s.HCA.Single().RingDoorbell(s.QP)
	s.Deliver(s.Datagram(s.Packet(roce.RCRDMAWriteOnly, 0x100, []byte{1})))
	if !s.HCA.Single().Transmit(s.Now, s.Batch) {
		t.Error("there is more to send and Transmit says no")
	}
	if n := s.Packets(); n != 16 {
		t.Fatalf("%d packets are in the first batch, want 16 SENDs and no ACK", n)
	}
	s.Batch.Reset()
	got := s.Out()
	if len(got) == 0 || rig.SigOf(&got[0]) != rig.Ack(roce.ACKUnlimited, 0x100) {
		t.Errorf("the next batch does not begin with the ACK but with %v", got[:min(1, len(got))])
	}
}

// TestE9_AcknowledgementsAreCumulative shows that requests that arrive together
// are acknowledged together, after the responses before them.
func TestE9_AcknowledgementsAreCumulative(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	got := s.Inject(s.Packet(roce.RCRDMAWriteOnly, 0x100, []byte{1}), s.Packet(roce.RCRDMAWriteOnly, 0x101, []byte{1}),
		s.Read(0x102, 10), s.FetchAdd(0x103, 8, 1), s.Packet(roce.RCRDMAWriteOnly, 0x104, []byte{1}))
	s.WantPackets("five requests at once", got, rig.Sig(roce.RCRDMAReadResponseOnly, 0x102, roce.ACKUnlimited),
		rig.Sig(roce.RCAtomicAcknowledge, 0x103, roce.ACKUnlimited), rig.Ack(roce.ACKUnlimited, 0x104))
	for i, msn := range []ib.MSN{3, 4, 5} {
		if i < len(got) && got[i].AETH.MSN != msn {
			t.Errorf("answer %d has MSN %d, want %d", i, got[i].AETH.MSN, msn)
		}
	}
	if n := s.Counters().AckDeferred; n != 2 {
		t.Errorf("2 acknowledgements were merged, %d are counted", n)
	}
	quiet := s.Packet(roce.RCRDMAWriteOnly, 0x105, []byte{1})
	quiet.BTH.AckReq = false
	s.WantPackets("a request that asks for no ACK", s.Inject(quiet))
}

// TestE9_ReadOverMTUChange shows that a duplicate of a READ from before a path
// MTU change is answered in packets of the old size, from the start or the
// middle.
func TestE9_ReadOverMTUChange(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	rig.Fill(s.Buf[:600], 1)
	read := s.Packet(roce.RCRDMAReadRequest, rig.PeerPSN, nil)
	read.RETH.Length = 600
	s.Inject(read)
	s.Modify(ib.SQD)
	rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{State: ib.RTS, PathMTU: ib.MTU512}, ib.AttrState|ib.AttrPathMTU))
	rest := read
	rest.BTH.PSN, rest.RETH.VA, rest.RETH.Length = read.BTH.PSN.Next(), read.RETH.VA+256, 344
	for from, again := range []roce.Packet{read, rest} {
		for i, p := range s.Inject(again) {
			at := (from + i) * 256
			if want := s.Buf[at:min(at+256, 600)]; !bytes.Equal(p.Payload, want) {
				t.Errorf("%v with %d bytes, want the %d at %d", p.BTH.Opcode, len(p.Payload), len(want), at)
			}
		}
	}
	if n := s.Counters().SentPkts; n != 3+3+2 {
		t.Errorf("%d packets answer the READ and its duplicates, want 8", n)
	}
}

// TestE14_TopOfTheAddressSpace shows that a request whose address range wraps
// at 2^64 accesses nothing, for a region that ends there: neither by WRITE,
// READ and atomic nor by a duplicate READ, whose address is compared with the
// original.
func TestE14_TopOfTheAddressSpace(t *testing.T) {
	const size = 4096
	top := func(t *testing.T) (s *rig.Solo, mem []byte, start uint64) {
		s = rig.NewSolo(t, rig.SoloConfig{})
		mem = make([]byte, size)
		start = 1<<64 - size
		mr, err := s.PD.RegMR(memory.RegionConfig{Buf: mem, IOVA: start, Access: ib.AccessLocalWrite | ib.AccessRemote})
		rig.Must(t, err)
		s.MR = mr
		return s, mem, start
	}
	for _, c := range []struct {
		op     roce.Opcode
		va     uint64 // from the start of the region
		length uint32
		ok     bool
	}{
		{roce.RCRDMAReadRequest, size - 8, 8, true},
		{roce.RCRDMAReadRequest, size - 8, 9, false},
		{roce.RCRDMAReadRequest, size - 1, 1 << 31, false},
		{roce.RCRDMAReadRequest, size, 1, false}, // address 0
		{roce.RCRDMAReadRequest, 1<<64 - 1, 8, false},
		{roce.RCRDMAWriteOnly, size - 8, 8, true},
		{roce.RCRDMAWriteOnly, size - 7, 8, false},
		{roce.RCRDMAWriteFirst, size - 256, 512, false},
		{roce.RCFetchAdd, size - 8, 8, true},
		{roce.RCFetchAdd, size, 8, false},
	} {
		s, mem, start := top(t)
		p := s.Packet(c.op, rig.PeerPSN, nil)
		if p.BTH.Opcode.Info().Kind == roce.KindWrite {
			p.Payload = bytes.Repeat([]byte{7}, int(min(c.length, 256)))
		}
		p.RETH = roce.RETH{VA: start + c.va, RKey: s.MR.RKey(), Length: c.length}
		p.AtomicETH = roce.AtomicETH{VA: start + c.va, RKey: s.MR.RKey(), SwapAdd: 7}
		got := s.Inject(p)
		refused := len(got) == 1 && rig.SigOf(&got[0]) == rig.Ack(roce.NAKRemoteAccess, rig.PeerPSN)
		if refused == c.ok || len(got) != 1 {
			t.Errorf("%v of %d bytes at the region's start + %#x: answered by %v", c.op, c.length, c.va, got)
		}
		if !c.ok && !bytes.Equal(mem, make([]byte, size)) {
			t.Errorf("%v of %d bytes at the region's start + %#x changed memory", c.op, c.length, c.va)
		}
	}
	s, _, start := top(t)
	read := s.Packet(roce.RCRDMAReadRequest, rig.PeerPSN, nil)
	read.RETH = roce.RETH{VA: start + size - 600, RKey: s.MR.RKey(), Length: 600}
	s.Inject(read)
	for _, c := range []struct {
		psn, length uint32
		va          uint64
	}{
		{0x101, 345, start + size - 344}, {0x101, 1<<32 - 1, start + size - 344}, {0x102, 89, start + size - 88},
		{0x102, 88, start + size - 88 - 1}, {0x102, 1<<32 - 512, start + size - 88}, {0x101, 344, start + size - 344 - 1<<32},
	} {
		p := read
		p.BTH.PSN, p.RETH.VA, p.RETH.Length = ib.NewPSN(c.psn), c.va, c.length
		s.WantSilence("a duplicate READ past the top", s.Inject(p), ib.RTS)
	}
}

// TestE11_ResourcesChangeUnderReads shows that the depth of the responder may
// be changed, as software may in SQD, while READs are answered: all of them are
// answered completely, in order, and afterwards as many are stored as the new
// depth.
func TestE11_ResourcesChangeUnderReads(t *testing.T) {
	for _, depth := range []uint8{1, 2, 4, 16} {
		s := rig.NewSolo(t, rig.SoloConfig{Batch: rig.MaxPacket})
		rig.Fill(s.Buf, 11)
		const reads, n = 4, 32 << 8 // each of 32 packets: two batches at least
		for i := range uint32(reads) {
			p := s.Read(rig.PeerPSN+32*i, n)
			p.RETH.VA += uint64(i) * n
			s.Deliver(s.Datagram(p))
		}
		s.HCA.Single().Transmit(s.Now, s.Batch) // some of the first
		got := s.Packets()
		s.Batch.Reset()
		s.Modify(ib.SQD)
		rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{MaxDestRDAtomic: depth}, ib.AttrMaxDestRDAtomic))
		s.Modify(ib.RTS)
		s.Deliver(s.Datagram(s.FetchAdd(rig.PeerPSN+reads*32, rig.Bytes-8, 1))) // uses a resource too
		rest := s.Out()
		if got == 0 || got+len(rest) != reads*32+1 {
			t.Fatalf("depth %d: %d responses before the change and %d after, want %d in all", depth, got, len(rest), reads*32+1)
		}
		for i, p := range rest[:len(rest)-1] {
			k := got + i
			if p.BTH.PSN != ib.NewPSN(uint32(rig.PeerPSN+k)) || !bytes.Equal(p.Payload, s.Buf[k<<8:(k+1)<<8]) {
				t.Fatalf("depth %d: response %d has PSN %v or other bytes", depth, k, p.BTH.PSN)
			}
		}
		s.Inject(s.FetchAdd(rig.PeerPSN+reads*32+1, 0, 1))
		for back := range uint32(reads) { // of the READs, the newest first
			p := s.Read(rig.PeerPSN+32*(reads-1-back), n)
			p.RETH.VA += uint64(reads-1-back) * n
			kept := back+2 < uint32(depth) // two atomics came after
			if answered := len(s.Inject(p)) != 0; answered != kept {
				t.Errorf("depth %d: the READ %d back is answered again: %v", depth, back+1, answered)
			}
		}
	}
}

// TestE14_SendWithInvalidate shows that the last packet of the SEND invalidates
// the key, that the completion has the key, and that it is refused from then
// on; and that invalidating any other key is refused.
func TestE14_SendWithInvalidate(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	buf := make([]byte, 64)
	mr, err := s.PD.RegMR(memory.RegionConfig{Buf: buf, IOVA: 0x9000, Access: ib.AccessLocalWrite | ib.AccessRemote, Invalidatable: true})
	rig.Must(t, err)
	s.Recv(1, 600, 600)
	use := func(psn uint32) roce.Packet {
		p := s.Packet(roce.RCRDMAWriteOnly, psn, []byte{byte(psn) + 1})
		p.RETH.VA, p.RETH.RKey = 0x9000, mr.RKey()
		return p
	}
	last := s.Packet(roce.RCSendLastWithInvalidate, 0x102, []byte{1})
	last.InvRKey = mr.RKey()
	got := s.Inject(use(0x100), s.Packet(roce.RCSendFirst, 0x101, make([]byte, 256)), last)
	s.WantPackets("used, then invalidated", got, rig.Ack(roce.ACKUnlimited, 0x102))
	wcs := s.Poll()
	if len(wcs) != 1 || wcs[0].Flags != ib.WCWithInv || wcs[0].InvRKey != mr.RKey() || wcs[0].ByteLen != 257 {
		t.Errorf("the completion is %+v", wcs)
	}
	s.WantPackets("used again", s.Inject(use(0x103)), rig.Ack(roce.NAKRemoteAccess, 0x103))
	s.WantDead("used again", 2, 2, 0, ib.EventQPAccessErr)
	if want := byte(1); buf[0] != want {
		t.Errorf("the region holds %#x, want the %#x of the first use", buf[0], want)
	}
	s = rig.NewSolo(t, rig.SoloConfig{})
	s.Recv(1, 600, 600)
	only := s.Packet(roce.RCSendOnlyWithInvalidate, 0x100, []byte{1})
	only.InvRKey = s.MR.RKey()
	s.WantPackets("a region that may not be", s.Inject(only), rig.Ack(roce.NAKRemoteAccess, 0x100))
	s.WantDead("a region that may not be", 1, 2, ib.WCLocAccessErr)
}

// TestE9_E15_LongestRequest shows the responder's side: a READ request for 2^31
// bytes takes 2^23 PSNs, all of which are duplicates afterwards, and the next
// one is the next expected.
func TestE9_E15_LongestRequest(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.MaxDestRDAtomic = 1 }})
	buf, err := memory.RawBuf(1<<20, 1<<31) // unmapped memory, which nothing accesses
	rig.Must(t, err)
	mr, err := s.PD.RegMR(memory.RegionConfig{Buf: buf, IOVA: 1 << 40, Access: ib.AccessRemoteRead})
	rig.Must(t, err)
	p := s.Read(rig.PeerPSN, 0)
	p.RETH = roce.RETH{VA: mr.Addr(), RKey: mr.RKey(), Length: 1 << 31}
	s.Deliver(s.Datagram(p))
	if a := s.QP.Query(); a.RQPSN.Value() != rig.PeerPSN+1<<23 {
		t.Fatalf("after a READ of 2^31 bytes PSN %v is expected, want %#x", a.RQPSN, rig.PeerPSN+1<<23)
	}
	rig.Must(t, s.PD.DeregMR(mr)) // ends the READ without 8 million responses
	got := s.Out()
	s.WantPackets("the region has gone", got, rig.Ack(roce.NAKRemoteAccess, rig.PeerPSN))
}
