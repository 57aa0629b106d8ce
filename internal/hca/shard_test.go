package hca_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestV14_KeysAndAddresses shows which packets are dropped before the queue
// pair sees them, and by which counter: wrong P_Key, Q_Key, addresses, ICRC,
// service.
func TestV14_KeysAndAddresses(t *testing.T) {
	far := netip.MustParseAddr("10.0.0.3")
	for _, c := range []struct {
		what  string
		types []ib.QPType
		drop  counters.Drop
		p     func(*roce.Packet)
		d     func(*rig.Solo, *fabric.Datagram)
	}{
		{what: "other P_Key", types: []ib.QPType{ib.RC, ib.UC, ib.UD}, drop: counters.DropPKey, p: func(p *roce.Packet) { p.BTH.PKey = 0x8001 }},
		{what: "P_Key 0", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropPKey, p: func(p *roce.Packet) { p.BTH.PKey = 0x8000 }},
		{what: "wrong Q_Key", types: []ib.QPType{ib.UD}, drop: counters.DropQKey, p: func(p *roce.Packet) { p.DETH.QKey++ }},
		{what: "other service", types: []ib.QPType{ib.UC, ib.UD}, drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.RCSendOnly }},
		{what: "XRC", types: []ib.QPType{ib.RC}, drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.XRCSendOnly }},
		{what: "RD", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropNoEEC, p: func(p *roce.Packet) { p.BTH.Opcode = roce.RDSendOnly }},
		{what: "CNP", types: []ib.QPType{ib.RC}, drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.CNP }},
		{what: "no such QP", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropNoQP, p: func(p *roce.Packet) { p.BTH.DestQP ^= 1 }},
		{what: "QP of another slot", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropNoQP, p: func(p *roce.Packet) { p.BTH.DestQP |= 1 << 20 }},
		{what: "QP1 without its Q_Key", types: []ib.QPType{ib.UD}, drop: counters.DropQKey, p: func(p *roce.Packet) { p.BTH.DestQP = ib.QPNGSI }},
		{what: "version 1", types: []ib.QPType{ib.RC}, drop: counters.DropMalformed, p: func(p *roce.Packet) { p.BTH.TVer = 1 }},
		{what: "other source", types: []ib.QPType{ib.RC, ib.UC}, drop: counters.DropAddress, d: func(s *rig.Solo, d *fabric.Datagram) {
			d.Src = far
			*d = s.Resealed(*d)
		}},
		{what: "other destination", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropAddress, d: func(s *rig.Solo, d *fabric.Datagram) {
			d.Dst = far
			*d = s.Resealed(*d)
		}},
		{what: "a bit of the payload", types: []ib.QPType{ib.RC, ib.UC, ib.UD}, drop: counters.DropICRC, d: func(_ *rig.Solo, d *fabric.Datagram) { d.Bytes[len(d.Bytes)-6] ^= 1 }},
		{what: "a bit of the PSN", types: []ib.QPType{ib.RC}, drop: counters.DropICRC, d: func(_ *rig.Solo, d *fabric.Datagram) { d.Bytes[11] ^= 1 }},
		{what: "another identification", types: []ib.QPType{ib.RC}, drop: counters.DropICRC, d: func(_ *rig.Solo, d *fabric.Datagram) { d.ID++ }},
		{what: "cut short", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropICRC, d: func(_ *rig.Solo, d *fabric.Datagram) { d.Bytes = d.Bytes[:len(d.Bytes)-4] }},
	} {
		for _, typ := range c.types {
			s := rig.NewSolo(t, rig.SoloConfig{Type: typ})
			s.Recv(1, 100)
			p := s.Packet(map[ib.QPType]roce.Opcode{ib.RC: roce.RCSendOnly, ib.UC: roce.UCSendOnly, ib.UD: roce.UDSendOnly}[typ], rig.PeerPSN, make([]byte, 16))
			if c.p != nil {
				c.p(&p)
			}
			d := s.Datagram(p)
			if c.d != nil {
				c.d(s, &d)
			}
			s.Deliver(d)
			s.WantSilence(typ.String()+", "+c.what, s.Out(), ib.RTS)
			if n := s.Counters().Drops[c.drop]; n != 1 {
				t.Errorf("%v, %s: %v counts %d, want 1", typ, c.what, c.drop, n)
			}
		}
	}
}

// TestV14_Accepted shows what is taken although it is odd: limited membership
// on one side, reserved bits, congestion marks, the migration bit, an AckReq
// on UD, any source port.
func TestV14_Accepted(t *testing.T) {
	for what, change := range map[string]func(*roce.Packet){
		"limited P_Key": func(p *roce.Packet) { p.BTH.PKey = 0x7fff },
		"MigReq":        func(p *roce.Packet) { p.BTH.MigReq = true },
		"reserved bits": func(p *roce.Packet) { p.BTH.Resv6, p.BTH.Resv7 = 0x3f, 0x7f },
		"FECN, BECN":    func(p *roce.Packet) { p.BTH.FECN, p.BTH.BECN = true, true },
		"no AckReq":     func(p *roce.Packet) { p.BTH.AckReq = false },
	} {
		for typ, op := range map[ib.QPType]roce.Opcode{ib.RC: roce.RCSendOnly, ib.UC: roce.UCSendOnly, ib.UD: roce.UDSendOnly} {
			s := rig.NewSolo(t, rig.SoloConfig{Type: typ})
			s.Recv(1, 100)
			p := s.Packet(op, rig.PeerPSN, []byte{1})
			change(&p)
			s.Inject(p)
			s.WantWCs(typ.String()+", "+what, rig.WC(1, ib.WCSuccess))
		}
	}
}

// TestV14_DontFragmentAsSent shows that the ICRC is that of the header which
// arrived, with "don't fragment" or without.
func TestV14_DontFragmentAsSent(t *testing.T) {
	for _, c := range []struct {
		arrived, sealed bool // without the flag
		taken           int
	}{{false, false, 1}, {true, true, 1}, {true, false, 0}, {false, true, 0}} {
		s := rig.NewSolo(t, rig.SoloConfig{Type: ib.UD})
		s.Recv(1, 100)
		d := s.Datagram(s.Packet(roce.UDSendOnly, rig.PeerPSN, make([]byte, 8)))
		if d.NoDF = c.arrived; c.sealed {
			roce.Seal(d.Bytes, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(d.Bytes)).WithoutDF().WithID(d.ID))
		}
		s.Deliver(d)
		if n := len(s.Poll()); n != c.taken || int(s.Counters().Drops[counters.DropICRC]) != 1-c.taken {
			t.Errorf("%+v: %d taken, %d dropped for the ICRC", c, n, s.Counters().Drops[counters.DropICRC])
		}
		if flag := s.Buf[32<<10+20+6]; c.taken == 1 && flag == 0x40 == c.arrived {
			t.Errorf("%+v: the flags in the header area are %#x", c, flag)
		}
	}
}

// TestE7_E10_UnassignedOpcodes shows that each of the opcodes that nobody
// assigned is dropped as malformed, whatever follows it, by every service.
func TestE7_E10_UnassignedOpcodes(t *testing.T) {
	for _, typ := range rig.Types {
		s := rig.NewSolo(t, rig.SoloConfig{Type: typ, HCA: hca.Config{Privileged: true}})
		s.Recv(1, 600)
		dropped := uint64(0)
		for op := range 256 {
			if roce.Opcode(op).Info().Known {
				continue
			}
			for _, n := range []int{0, 4, 28, 256} {
				b := make([]byte, roce.BTHLen+n+roce.ICRCLen)
				p := s.Packet(roce.Opcode(op), rig.PeerPSN, nil)
				p.PutHeaders(b)
				s.Deliver(s.Sealed(b))
				dropped++
			}
		}
		s.WantSilence("opcodes that nobody assigned", s.Out(), ib.RTS)
		if n := s.Counters().Drops[counters.DropMalformed]; n != dropped || n == 0 {
			t.Errorf("%v: %d of %d packets with unassigned opcodes are counted as malformed", typ, n, dropped)
		}
	}
}

// TestE7_ShortPackets shows that a packet that ends inside its headers, or
// whose pad count is more than there is to pad, is dropped as malformed, for
// every opcode and length.
func TestE7_ShortPackets(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	s.Recv(1, 600)
	sent := uint64(0)
	for op := range 256 {
		info := roce.Opcode(op).Info()
		if !info.Known {
			continue
		}
		p := s.Packet(roce.Opcode(op), rig.PeerPSN, nil)
		whole := make([]byte, roce.Size(roce.Opcode(op), 0))
		p.Build(whole)
		for n := 1; n < len(whole); n++ {
			d := fabric.Datagram{Bytes: bytes.Clone(whole[:n]), Src: s.Peer, Dst: s.Addr, DstPort: fabric.RoCEPort, IDKnown: true}
			if n >= roce.MinSize { // shorter ones have no ICRC
				d = s.Sealed(d.Bytes)
			}
			s.Deliver(d)
			sent++
		}
		for pad := byte(1); pad < 4; pad++ { // pads a payload that is not there
			b := bytes.Clone(whole)
			b[1] |= pad << 4
			s.Deliver(s.Sealed(b))
			sent++
		}
	}
	s.WantSilence("packets cut inside their headers", s.Out(), ib.RTS)
	if n := s.Counters().Drops[counters.DropMalformed]; n != sent {
		t.Errorf("%d of %d short packets are counted as malformed", n, sent)
	}
}

// crowd is how many pairs of queue pairs TestQ8_ManyQPs connects.
const crowd = 200

// TestQ8_ManyQPs shows that the queue pairs of an adapter do not get into each
// other's way: a crowd of them between two adapters, over a network that loses
// packets, with every operation; each completes its own, in order and once.
func TestQ8_ManyQPs(t *testing.T) {
	const seed = 8
	t.Logf("seed %d", seed)
	r, pairs := newCrowd(t, crowd)
	src := rand.New(rand.NewPCG(seed, seed))
	r.Drop = func(int, *roce.Packet) bool { return src.IntN(100) < 2 }
	a, b := r.Sides[0], r.Sides[1]
	rig.Fill(a.Buf[:crowd*1024], seed)
	for i := range crowd {
		a.QP, b.QP = pairs[0][i], pairs[1][i]
		r.Recv(1, ib.RecvWR{WRID: 9, SGList: []ib.SGE{b.SGE(1<<20+i*1024, 1024)}})
		remote := b.MR.Addr() + uint64(i)*1024
		data := []ib.SGE{a.SGE(i*1024, 1024)}
		r.Post(0,
			ib.SendWR{WRID: 0, Opcode: ib.WRRDMAWrite, SGList: data, RemoteAddr: remote, RKey: b.MR.RKey()},
			ib.SendWR{WRID: 1, Opcode: ib.WRSend, SGList: data},
			ib.SendWR{WRID: 2, Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.SGE(1<<20+i*1024, 1024)}, RemoteAddr: remote, RKey: b.MR.RKey()},
			ib.SendWR{WRID: 3, Opcode: ib.WRAtomicFetchAdd, SGList: []ib.SGE{a.SGE(2<<20+i*8, 8)}, RemoteAddr: b.MR.Addr() + 3<<20, RKey: b.MR.RKey(), CompareAdd: 1})
	}
	next := map[ib.QPN]uint64{}
	sent, received := 0, 0
	r.Run(time.Minute, func() bool {
		for _, wc := range r.Poll(0) {
			if wc.Status != ib.WCSuccess || wc.WRID != next[wc.QPN] {
				t.Fatalf("QP %v completes %d with %v, want %d with SUCCESS", wc.QPN, wc.WRID, wc.Status, next[wc.QPN])
			}
			next[wc.QPN]++
			sent++
		}
		received += len(r.Poll(1))
		return sent == 4*crowd && received == crowd
	})
	if sent != 4*crowd || received != crowd {
		t.Fatalf("%d of %d sends and %d of %d receives complete", sent, 4*crowd, received, crowd)
	}
	for what, have := range map[string][]byte{"WRITE": b.Buf[:crowd*1024], "SEND": b.Buf[1<<20:][:crowd*1024], "READ": a.Buf[1<<20:][:crowd*1024]} {
		if !bytes.Equal(have, a.Buf[:crowd*1024]) {
			t.Errorf("%s placed other bytes", what)
		}
	}
	checkTickets(t, a.Buf[2<<20:], binary.NativeEndian.Uint64(b.Buf[3<<20:]))
	if c := a.HCA.Counters(); c.RetransPkts == 0 {
		t.Error("nothing was sent again: the test shows nothing about loss")
	}
}

// newCrowd connects n pairs of queue pairs between two adapters.
func newCrowd(t *testing.T, n int) (r *rig.Rig, pairs [2][]*qp.QP) {
	t.Helper()
	r = rig.New(t, ib.RC, rig.Cap)
	for i, s := range r.Sides {
		var err error
		s.CQ, err = s.HCA.CreateCQ(8*uint32(n), nil)
		rig.Must(t, err)
		for range n {
			q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: rig.Cap, SigAll: true})
			rig.Must(t, err)
			pairs[i] = append(pairs[i], q)
		}
	}
	for k := range n {
		r.Sides[0].QP, r.Sides[1].QP = pairs[0][k], pairs[1][k]
		r.Connect(ib.MTU256)
	}
	return r, pairs
}

// checkTickets checks the results of the crowd's FETCH_ADDs of 1 to one word:
// every number from 0 on was given out once.
func checkTickets(t *testing.T, results []byte, total uint64) {
	t.Helper()
	if total != crowd {
		t.Errorf("%d additions of 1 make %d", crowd, total)
	}
	var seen [crowd]bool
	for i := range crowd {
		v := binary.NativeEndian.Uint64(results[i*8:])
		if v >= crowd || seen[v] {
			t.Errorf("an addition returned %d, which is too much or a second time", v)
			continue
		}
		seen[v] = true
	}
}

// TestE18_OverflowFailsEveryQPOfTheCQ shows that QPs that share the CQ go to
// ERR too, each with its event, and that one in RESET and one elsewhere do not.
func TestE18_OverflowFailsEveryQPOfTheCQ(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{CQE: 3})
	elsewhere, err := s.HCA.CreateCQ(3, nil)
	rig.Must(t, err)
	make1 := func(cq *qp.CQ, init bool) *qp.QP {
		q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		rig.Must(t, err)
		if init {
			rig.Must(t, q.Modify(s.Now, &ib.QPAttr{State: ib.INIT, Port: 1}, rig.InitMask))
		}
		return q
	}
	sharing, reset, other := make1(s.CQ, true), make1(s.CQ, false), make1(elsewhere, true)
	s.Recv(1, 9, 9, 9, 9)
	for i := range uint32(4) {
		s.Inject(s.Packet(roce.RCSendOnly, 0x100+i, []byte{1}))
	}
	s.WantEvents("a CQ that overflows under two QPs", ib.EventCQErr, ib.EventQPFatal, ib.EventQPFatal)
	if sharing.State() != ib.ERR || reset.State() != ib.RESET || other.State() != ib.INIT {
		t.Errorf("sharing %v, in RESET %v, elsewhere %v; want ERR, RESET and INIT", sharing.State(), reset.State(), other.State())
	}
}
