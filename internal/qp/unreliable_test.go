package qp_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestE14_E15_UC shows what an unreliable receiver does with messages that lost a
// packet, come without a receive, or break a rule: the message is dropped, its
// receive serves the next message, and there is no answer and no error.
func TestE14_E15_UC(t *testing.T) {
	mtu := bytes.Repeat([]byte{7}, 256)
	const first, middle, last, only = roce.UCSendFirst, roce.UCSendMiddle, roce.UCSendLast, roce.UCSendOnly
	type pk struct {
		op  roce.Opcode
		psn uint32
		n   int
	}
	for _, c := range []struct {
		what  string
		in    []pk
		bytes []uint32 // of the receives that complete
	}{
		{"a whole message", []pk{{first, 0x100, 256}, {middle, 0x101, 256}, {last, 0x102, 9}}, []uint32{521}},
		{"FIRST lost", []pk{{middle, 0x101, 256}, {last, 0x102, 9}, {only, 0x103, 5}}, []uint32{5}},
		{"MIDDLE lost", []pk{{first, 0x100, 256}, {last, 0x102, 9}, {only, 0x103, 5}}, []uint32{5}},
		{"LAST lost", []pk{{first, 0x100, 256}, {only, 0x102, 5}}, []uint32{5}},
		{"FIRST, ONLY without a gap", []pk{{first, 0x100, 256}, {only, 0x101, 5}}, []uint32{5}},
		{"a jump ahead", []pk{{only, 0x500, 5}, {only, 0x501, 6}}, []uint32{5, 6}},
		{"a jump back", []pk{{only, 0x010, 5}}, []uint32{5}},
		{"LAST of nothing", []pk{{first, 0x100, 256}, {last, 0x101, 0}, {only, 0x102, 5}}, []uint32{5}},
		{"FIRST not of the MTU", []pk{{first, 0x100, 255}, {last, 0x101, 9}, {only, 0x102, 5}}, []uint32{5}},
		{"longer than the receive", []pk{{first, 0x100, 256}, {middle, 0x101, 256}, {middle, 0x102, 256}, {last, 0x103, 5}, {only, 0x104, 5}}, []uint32{5}},
		{"WRITE MIDDLE in a SEND", []pk{{first, 0x100, 256}, {roce.UCRDMAWriteMiddle, 0x101, 256}, {last, 0x102, 1}, {only, 0x103, 5}}, []uint32{5}},
	} {
		s := rig.NewSolo(t, rig.SoloConfig{Type: ib.UC})
		s.Recv(1, 600, 600)
		for _, p := range c.in {
			if got := s.Inject(s.Packet(p.op, p.psn, mtu[:min(p.n, 256)])); len(got) != 0 {
				t.Errorf("%s: UC answers", c.what)
			}
		}
		for i, wc := range s.Poll() {
			if i >= len(c.bytes) || wc.Status != ib.WCSuccess || wc.ByteLen != c.bytes[i] || wc.WRID != uint64(i+1) {
				t.Errorf("%s: completion %d is %+v, want %v bytes", c.what, i, wc, c.bytes)
			}
			c.bytes[i] = 0
		}
		for i, n := range c.bytes {
			if n != 0 {
				t.Errorf("%s: message %d of %d bytes is not delivered", c.what, i, n)
			}
		}
		s.WantState(c.what, ib.RTS)
	}
}

// onesSum is the Internet checksum: 0xffff over a correct header.
func onesSum(b []byte) uint32 {
	sum := uint32(0)
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

// TestV14_GRHArea shows the 40 bytes before a UD payload: the packet's IPv6
// header, or 20 zero bytes and its IPv4 header; and the fields of the
// completion.
func TestV14_GRHArea(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		s := rig.NewSolo(t, rig.SoloConfig{Type: ib.UD, V6: v6})
		payload := []byte("seventeen bytes..")
		s.Recv(1, 40+len(payload))
		p := s.Packet(roce.UDSendOnlyWithImm, 99, payload)
		p.Imm, p.BTH.SE = 0xfeed, true
		d := s.Datagram(p)
		d.FlowLabel = 0x12345
		s.Deliver(d)
		got := s.Poll()
		want := ib.WC{
			WRID: 1, Opcode: ib.WCRecv, Flags: ib.WCGRH | ib.WCWithImm, ByteLen: 57, ImmData: 0xfeed, QPN: s.QP.Num(), SrcQP: rig.PeerQPN,
			SL: ib.SLIPv4,
		}
		if v6 {
			want.SL = ib.SLIPv6
		}
		if len(got) != 1 || got[0] != want {
			t.Fatalf("completion %+v, want %+v", got, want)
		}
		area := s.Buf[32<<10:][:57]
		if !bytes.Equal(area[40:], payload) {
			t.Error("the payload is not after 40 bytes")
		}
		src, dst := s.Peer.AsSlice(), s.Addr.AsSlice()
		if v6 {
			head := []byte{0x62, 0x81, 0x23, 0x45, 0, byte(len(d.Bytes) + 8), 17, 61} // class 0x28, label, length, UDP, hops
			if !bytes.Equal(area[:40], bytes.Join([][]byte{head, src, dst}, nil)) {
				t.Errorf("the area of an IPv6 packet holds % x", area[:40])
			}
			continue
		}
		head := []byte{0x45, 0x28, 0, byte(len(d.Bytes) + 28), 0, 0, 0x40, 0, 61, 17}
		if !bytes.Equal(area[:20], make([]byte, 20)) || !bytes.Equal(area[20:30], head) || !bytes.Equal(area[32:40], append(src, dst...)) {
			t.Errorf("the area of an IPv4 packet holds % x", area[:40])
		}
		if onesSum(area[20:40]) != 0xffff {
			t.Error("the IPv4 header in the area has a wrong checksum")
		}
	}
}

// TestV14_Sent shows which keys are sent: the P_Key of the index, the Q_Key of
// the work request, or the queue pair's own for a controlled one.
func TestV14_Sent(t *testing.T) {
	keys := hca.Config{PKeys: []ib.PKey{0xffff, 0x8123}, Privileged: true}
	s := rig.NewSolo(t, rig.SoloConfig{Type: ib.UD, HCA: keys, Attr: func(a *ib.QPAttr) { a.PKeyIndex, a.QKey = 1, 0x80007777 }})
	plain := s.WR(ib.WRSend, 1, 0, 5)
	controlled := plain
	controlled.RemoteQKey = 0x80000000
	controlled.Flags = ib.SendSolicited
	got := s.Send(plain, controlled)
	for i, want := range []ib.QKey{rig.QKey, 0x80007777} {
		p := got[i]
		if p.BTH.PKey != 0x8123 || p.DETH.QKey != want || p.DETH.SrcQP != s.QP.Num() || p.BTH.DestQP != rig.PeerQPN || p.BTH.PadCnt != 3 || p.BTH.SE != (i == 1) {
			t.Errorf("packet %d leaves with %+v %+v, want Q_Key %#x", i, p.BTH, p.DETH, uint32(want))
		}
	}
	s.Poll()
	s.Recv(5, 100, 100)
	p := s.Packet(roce.UDSendOnly, 0, nil)
	s.Inject(p)
	p.BTH.PKey = 0x0123
	s.Inject(p)
	s.WantWCs("the default key does not match index 1, a limited 0x123 does", rig.WC(5, ib.WCSuccess))
}

// TestE15_UDLengths shows the limits of UD messages: the MTU when sending and
// receiving, the room of the receive, which serves the next message.
func TestE15_UDLengths(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Type: ib.UD})
	s.Recv(1, 40+5000)
	for _, n := range []int{4097, 5000} {
		s.WantSilence("a message over the MTU", s.Inject(s.Packet(roce.UDSendOnly, 0, make([]byte, n))), ib.RTS)
	}
	s.Inject(s.Packet(roce.UDSendOnly, 0, make([]byte, 4096)))
	s.WantWCs("a message of the MTU", rig.WC(1, ib.WCSuccess))
	s.Recv(1, 40+100)
	for _, n := range []int{101, 4096} {
		s.WantSilence("a message that does not fit", s.Inject(s.Packet(roce.UDSendOnly, 0, make([]byte, n))), ib.RTS)
	}
	if n := s.Counters().Drops[counters.DropLength]; n != 4 {
		t.Errorf("4 messages that do not fit count as %d", n)
	}
	s.Inject(s.Packet(roce.UDSendOnly, 77, make([]byte, 100)))
	s.WantWCs("the receive serves the next", rig.WC(1, ib.WCSuccess))
	s.WantSilence("no receive", s.Inject(s.Packet(roce.UDSendOnly, 78, nil)), ib.RTS)
	if n := s.Counters().OutOfBuffer; n != 1 {
		t.Errorf("a message without a receive counts as %d", n)
	}
	if got := s.Send(s.WR(ib.WRSend, 2, 0, 4096)); len(got) != 1 || len(got[0].Payload) != 4096 {
		t.Error("a message of the MTU does not leave whole")
	}
	s.WantPackets("a message over the MTU", s.Send(s.WR(ib.WRSend, 3, 0, 4097)))
	s.WantWCs("a message over the MTU", rig.WC(2, ib.WCSuccess), rig.WC(3, ib.WCLocLenErr))
	s.WantState("a message over the MTU", ib.SQE)
}

// TestV14_UDBetweenAdapters shows two adapters that exchange datagrams with
// their own address resolution and numbers.
func TestV14_UDBetweenAdapters(t *testing.T) {
	r := rig.New(t, ib.UD, rig.Cap)
	for i := range r.Sides {
		a := r.Attrs(i, ib.MTU1024)
		a.QKey = rig.QKey
		r.Walk(i, a, ib.RTS)
	}
	a, b := r.Sides[0], r.Sides[1]
	av := r.Attrs(0, ib.MTU1024).AV
	h, err := a.PD.CreateAH(&av)
	rig.Must(t, err)
	rig.Fill(a.Buf[:4096], 5)
	r.Recv(1, ib.RecvWR{WRID: 1, SGList: []ib.SGE{b.SGE(0, 4136)}})
	r.Post(0, ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: []ib.SGE{a.SGE(0, 4096)}, AH: h, RemoteQPN: b.QP.Num(), RemoteQKey: rig.QKey})
	var got []ib.WC
	r.Run(1e9, func() bool { got = append(got, r.Poll(1)...); return len(got) > 0 })
	if len(got) != 1 || got[0].SrcQP != a.QP.Num() || !bytes.Equal(b.Buf[40:4136], a.Buf[:4096]) {
		t.Errorf("the datagram arrives as %+v", got)
	}
}

// TestUnknownOperationsAreDropped shows that a service without acknowledgements drops and
// counts an operation that it does not have, and keeps the receive.
func TestUnknownOperationsAreDropped(t *testing.T) {
	for _, c := range []struct {
		typ  ib.QPType
		only roce.Opcode
	}{{ib.UC, roce.UCSendOnly}, {ib.UD, roce.UDSendOnly}, {ib.GSI, roce.UDSendOnly}} {
		for _, kind := range []roce.Kind{roce.KindReadRequest, roce.KindFetchAdd, roce.KindFlush, roce.KindAtomicWrite, roce.KindResync, 200} {
			s := rig.NewSolo(t, rig.SoloConfig{Type: c.typ})
			s.Recv(1, 100)
			p := s.Packet(c.only, 0x100, []byte{1, 2, 3, 4, 5, 6, 7, 8})
			d := s.Datagram(p)
			info := *c.only.Info()
			info.Kind = kind
			p.Info = &info
			s.QP.Receive(s.Now, &qp.Packet{Packet: p, Port: 1, Data: &d, Size: len(d.Bytes)})
			if n := s.Counters().Drops[counters.DropService]; n != 1 {
				t.Errorf("%v: %v: %d packets are dropped for their service, want 1", c.typ, kind, n)
			}
			if wcs := s.Poll(); len(wcs) != 0 {
				t.Errorf("%v: %v completes %+v", c.typ, kind, wcs)
			}
		}
	}
}

// socket is the receive buffer of a peer on the adapter's host.
type socket struct{ used, size int }

// ucTo returns a UC queue pair at path MTU 4096 whose peer has a socket.
func ucTo(t *testing.T, to *socket) *rig.Solo {
	return rig.NewSolo(t, rig.SoloConfig{Type: ib.UC, MTU: ib.MTU4096, HCA: hca.Config{
		Backlog: func(dst netip.Addr, qpn ib.QPN) fabric.Backlog {
			if dst != netip.MustParseAddr("10.0.0.2") || qpn>>16 != rig.PeerQPN>>16 {
				return nil
			}
			return func() (int, int) { return to.used, to.size }
		},
	}})
}

// transmit lets the adapter send into the socket, and returns the number of packets.
func (to *socket) transmit(s *rig.Solo) (n int) {
	for more := true; more; {
		more = s.Transmit(s.Now, func(run *fabric.Run) {
			n += run.Count
			to.used += len(run.Bytes) + 128*run.Count
		})
	}
	return n
}

// post posts WRITEs of all bytes of the region.
func post(t *testing.T, s *rig.Solo, q *qp.QP, n int) {
	t.Helper()
	for range n {
		_, err := q.PostSend(ib.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{s.SGE(0, rig.Bytes)}})
		rig.Must(t, err)
	}
	s.HCA.Single().RingDoorbell(q)
}

// TestUCFillsNoSocket shows that a UC queue pair waits, even in the middle of a message, while the socket
// of its peer is nearly full, that an RC queue pair of the port does not wait, and that the UC queue pair
// sends all packets as the peer reads.
func TestUCFillsNoSocket(t *testing.T) {
	to := &socket{size: 200_000}
	s := ucTo(t, to)
	const messages, packets = 8, 8 * rig.Bytes / 4096
	post(t, s, s.QP, messages)
	sent := to.transmit(s)
	if sent == 0 || to.used < to.size/2 || to.used > to.size*3/4 {
		t.Fatalf("%d packets fill %d bytes of a buffer of %d", sent, to.used, to.size)
	}
	for range 100 {
		s.Now = s.HCA.Single().Deadline()
		s.HCA.Single().Advance(s.Now)
		if n := to.transmit(s); n != 0 {
			t.Fatalf("%d packets after %v although the peer has read nothing", n, s.Now)
		}
	}
	if done := len(s.Poll()); done >= messages || done < sent*4096/rig.Bytes {
		t.Errorf("%d messages are complete after %d packets", done, sent)
	}
	rc, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: rig.Cap, SigAll: true})
	rig.Must(t, err)
	uc := s.QP
	s.QP = rc
	s.Walk(ib.RTS)
	s.QP = uc
	post(t, s, rc, 1)
	if n := to.transmit(s); n == 0 {
		t.Error("an RC queue pair waits for the socket, too")
	}
	for to.used = 0; sent < packets; to.used = 0 {
		s.Now = s.HCA.Single().Deadline()
		s.HCA.Single().Advance(s.Now)
		n := to.transmit(s)
		if sent += n; n == 0 || to.used > to.size*3/4 {
			t.Fatalf("%d packets fill %d bytes of a buffer of %d, %d are sent of %d", n, to.used, to.size, sent, packets)
		}
	}
}

// TestUCPauseOutlivesModify shows that a queue pair that waits for a socket, or for its rate limit, sends
// on after a change of its attributes.
func TestUCPauseOutlivesModify(t *testing.T) {
	to := &socket{size: 200_000, used: 200_000}
	s := ucTo(t, to)
	rate := func() { rig.Must(t, s.QP.SetRateLimit(qp.RateLimit{Rate: 100, Burst: 4096})) }
	for _, wait := range []func(){func() {}, func() { to.used = 0; rate() }} {
		wait()
		post(t, s, s.QP, 1)
		to.transmit(s)
		rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{AccessFlags: ib.AccessRemote}, ib.AttrAccessFlags))
		if s.HCA.Single().Deadline() == clock.Never {
			t.Fatal("no timer runs: nothing would wake the queue pair")
		}
		sent := 0
		for to.used = 0; sent == 0 && s.Now < clock.Instant(10*time.Second); to.used = 0 {
			s.Now = s.HCA.Single().Deadline()
			s.HCA.Single().Advance(s.Now)
			sent = to.transmit(s)
		}
		if sent == 0 {
			t.Error("no packet")
		}
	}
}

// TestUCToOtherSockets shows that a full socket does not pause a queue pair that sends to another address
// or to another process at the same address, even if it sent to the full socket before.
func TestUCToOtherSockets(t *testing.T) {
	for _, change := range []func(*ib.QPAttr){
		func(a *ib.QPAttr) { a.AV.DGID = ib.GIDFromAddr(netip.MustParseAddr("10.0.0.3")) },
		func(a *ib.QPAttr) { a.DestQPN ^= 1 << 16 },
	} {
		to := &socket{size: 200_000, used: 200_000}
		s := ucTo(t, to)
		post(t, s, s.QP, 1)
		if n := to.transmit(s); n != 0 {
			t.Fatalf("%d packets to a full socket", n)
		}
		s.Modify(ib.RESET)
		change(&s.Attr)
		s.Walk(ib.RTS)
		post(t, s, s.QP, 4)
		if n := to.transmit(s); n != 4*rig.Bytes/4096 {
			t.Errorf("%d packets to another socket, want %d at once", n, 4*rig.Bytes/4096)
		}
	}
}
