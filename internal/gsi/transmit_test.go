package gsi

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/captures"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// TestC1_SentAsLinuxSends sends every MAD of the captures again and finds the
// datagram that Linux sent, byte for byte, with its way through the network.
// Only what counts is given: the PSN and the IPv4 identification.
func TestC1_SentAsLinuxSends(t *testing.T) {
	n := 0
	eachMAD(t, "cm_*.pcap", func(name string, c *pcapfile.Packet, p *roce.Packet) {
		n++
		r := newRig(t, Config{Ports: [][]netip.Addr{{c.Src}}})
		m := (*mad.MAD)(p.Payload)
		h := m.Header()
		a := r.agent(h.Class, h.ClassVersion)
		to := Address{Remote: c.Dst, TClass: c.IP[1]}
		if c.Src.Is6() {
			to.TClass = byte(binary.BigEndian.Uint16(c.IP) >> 4)
		}
		must.Do(t, a.Send(r.now, to, m))
		r.g.psn = p.BTH.PSN
		s := r.wantSent(name, 1)[0]
		want := fabric.Path{Src: c.Src, Dst: c.Dst, SrcPort: c.SrcPort, TClass: to.TClass, HopLimit: hopLimit(c)}
		if s.path != want {
			t.Errorf("%s record %d: it goes %+v, on Linux %+v", name, c.Record, s.path, want)
		}
		if c.Src.Is4() {
			roce.MoveID(s.seg, s.id, binary.BigEndian.Uint16(c.IP[4:]))
		}
		if string(s.seg) != string(c.Payload) {
			t.Errorf("%s record %d leaves as\n% x\nfrom Linux as\n% x", name, c.Record, s.seg, c.Payload)
		}
	})
	if n < 100 {
		t.Errorf("the captures have %d MADs", n)
	}
}

// hopLimit returns the TTL or hop limit of a captured packet.
func hopLimit(c *pcapfile.Packet) uint8 {
	if c.Src.Is6() {
		return c.IP[7]
	}
	return c.IP[8]
}

// TestC1_LinuxIsHeard hands every MAD of the captures to an interface on the
// address that it went to: the agent of the connection manager gets it.
func TestC1_LinuxIsHeard(t *testing.T) {
	eachMAD(t, "*cm_*.pcap", func(name string, c *pcapfile.Packet, p *roce.Packet) {
		r := newRig(t, Config{Ports: [][]netip.Addr{{c.Dst}}})
		a := r.agent(mad.ClassCM, mad.CMClassVersion, mad.MethodSend)
		drop, ok := r.hand(p, &fabric.Datagram{Src: c.Src, Dst: c.Dst, HopLimit: hopLimit(c)})
		if !ok || len(a.got) != 1 || a.got[0] != mad.MAD(p.Payload) {
			t.Errorf("%s record %d: taken %v (%v)", name, c.Record, ok, drop)
		}
	})
}

// eachMAD calls f with every packet to QP1 in the captures with such names.
func eachMAD(t testing.TB, pattern string, f func(name string, c *pcapfile.Packet, p *roce.Packet)) {
	t.Helper()
	captures.Each(t, "../testdata/captures/"+pattern, func(name string, c *pcapfile.Packet) {
		var p roce.Packet
		if p.Parse(c.Payload) == roce.FaultNone && p.BTH.DestQP == ib.QPNGSI {
			f(name, c, &p)
		}
	})
}

// TestC1_Defaults shows the fields of a datagram that is sent to an address of
// which only the peer is given, and that the PSN counts datagrams from 0.
func TestC1_Defaults(t *testing.T) {
	r := newRig(t, Config{MigReq: true, PKeys: []ib.PKey{0x8123, 0xffff}})
	a := r.agent(mad.ClassCM, 2, mad.MethodSend)
	for tid := range uint64(3) {
		must.Do(t, a.Send(r.now, Address{Remote: netip.MustParseAddr("::ffff:10.0.0.2")}, madOf(mad.ClassCM, 2, mad.MethodSend, tid)))
	}
	for i, s := range r.wantSent("three MADs", 3) {
		bth := roce.BTH{Opcode: roce.UDSendOnly, MigReq: true, PKey: 0x8123, DestQP: 1, AckReq: true, PSN: ib.NewPSN(uint32(i))}
		path := fabric.Path{Src: rigLocal, Dst: rigPeer, SrcPort: 55410, HopLimit: 64}
		if s.p.BTH != bth || s.p.DETH != (roce.DETH{QKey: 0x80010000, SrcQP: 1}) || s.path != path || len(s.seg) != 280 {
			t.Errorf("MAD %d leaves as %+v %+v on %+v", i, s.p.BTH, s.p.DETH, s.path)
		}
		if s.header().TID != uint64(i) {
			t.Errorf("MAD %d has the transaction ID %#x: they leave in another order", i, s.header().TID)
		}
	}
	if n := r.g.Counters().Sent; n != 3 {
		t.Errorf("3 MADs count as %d", n)
	}
}

// TestC1_PSNWraps shows that the counter of datagrams goes on after 2^24.
func TestC1_PSNWraps(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassCM, 2)
	r.g.psn = ib.NewPSN(0xffffff)
	for range 2 {
		must.Do(t, a.Send(r.now, Address{Remote: rigPeer}, madOf(mad.ClassCM, 2, mad.MethodSend, 1)))
	}
	if s := r.wantSent("two MADs", 2); s[0].p.BTH.PSN.Value() != 0xffffff || s[1].p.BTH.PSN.Value() != 0 {
		t.Errorf("PSNs %v, %v", s[0].p.BTH.PSN, s[1].p.BTH.PSN)
	}
}

// TestC12_BadAddresses shows the destinations that are refused, and the errors.
func TestC12_BadAddresses(t *testing.T) {
	six := netip.MustParseAddr("fd00::1")
	for what, c := range map[string]struct {
		to   Address
		want error
	}{
		"nobody":           {Address{}, ib.EINVAL},
		"unspecified":      {Address{Remote: netip.IPv4Unspecified()}, ib.EINVAL},
		"a group":          {Address{Remote: netip.MustParseAddr("ff02::1")}, ib.EINVAL},
		"everybody":        {Address{Remote: netip.MustParseAddr("255.255.255.255")}, ib.EINVAL},
		"other family":     {Address{Remote: six}, ib.EADDRNOTAVAIL},
		"foreign address":  {Address{Local: rigPeer, Remote: rigPeer}, ib.EADDRNOTAVAIL},
		"foreign P_Key":    {Address{Remote: rigPeer, PKey: 0x8001}, ib.EINVAL},
		"limited P_Key":    {Address{Remote: rigPeer, PKey: 0x7fff}, ib.EINVAL},
		"multicast QP":     {Address{Remote: rigPeer, QPN: ib.QPNMulticast}, ib.EINVAL},
		"25 bits of a QPN": {Address{Remote: rigPeer, QPN: 1 << 24}, ib.EINVAL},
	} {
		r := newRig(t, Config{})
		a := r.agent(mad.ClassCM, 2)
		m := madOf(mad.ClassCM, 2, mad.MethodSend, 1)
		if err := a.Send(r.now, c.to, m); !errors.Is(err, c.want) {
			t.Errorf("a Send to %s: %v, want %v", what, err, c.want)
		}
		if _, err := a.Request(r.now, c.to, m, Retry{Timeout: 1}, nil); !errors.Is(err, c.want) {
			t.Errorf("a Request to %s: %v, want %v", what, err, c.want)
		}
		if r.g.Pending(1) || len(r.g.waiting.byKey) != 0 {
			t.Errorf("%s: something is left of it", what)
		}
	}
}

// TestC12_BatchFull shows that what a batch has no room for leaves with the
// next one, in order, and that one call takes a quantum at most.
func TestC12_BatchFull(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassCM, 2)
	for tid := range uint64(quantum + 5) {
		must.Do(t, a.Send(r.now, Address{Remote: rigPeer}, madOf(mad.ClassCM, 2, mad.MethodSend, tid)))
	}
	if more := r.g.Transmit(r.now, 1, r.batch); !more || r.counters.SentPkts != quantum {
		t.Errorf("the first call takes %d, more: %v", r.counters.SentPkts, more)
	}
	r.batch.Reset()
	r.batch = fabric.NewBatch(2*280+279, rigCaps)
	if more := r.g.Transmit(r.now, 1, r.batch); !more || r.counters.SentPkts != quantum+2 {
		t.Errorf("a batch for two takes %d, more: %v", r.counters.SentPkts-quantum, more)
	}
	r.batch.Reset()
	for i, s := range r.wantSent("the rest", 3) {
		if s.header().TID != uint64(quantum+2+i) {
			t.Errorf("MAD %d has the transaction ID %#x", i, s.header().TID)
		}
	}
	if r.g.Transmit(r.now, 1, r.batch) || r.g.Pending(1) {
		t.Error("there is more to send than was given")
	}
}

// TestC1_FlowLabel: an IPv6 path has the flow label that was asked for, as far
// as there is room for it, and an IPv4 path none.
func TestC1_FlowLabel(t *testing.T) {
	for _, c := range []struct {
		local, remote string
		want          uint32
	}{{"fe80::1", "fe80::2", 0x12345}, {"10.0.0.1", "10.0.0.2", 0}} {
		r := newRig(t, Config{Ports: [][]netip.Addr{{netip.MustParseAddr(c.local)}}})
		a := r.agent(mad.ClassPerf, 1)
		must.Do(t, a.Send(r.now, Address{Remote: netip.MustParseAddr(c.remote), FlowLabel: 0xfff12345}, madOf(mad.ClassPerf, 1, mad.MethodSend, 1)))
		if got := r.wantSent(c.remote, 1)[0].path.FlowLabel; got != c.want {
			t.Errorf("to %s: flow label %#x, want %#x", c.remote, got, c.want)
		}
	}
}
