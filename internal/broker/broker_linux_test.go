//go:build !portable

package broker

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

const service = mad.ServiceID(0x0000000001061234)

// reqFor is a REQ from a peer.
func reqFor(s mad.ServiceID, id uint32) *mad.REQ {
	return &mad.REQ{LocalCommID: id, ServiceID: s, LocalQPN: 0x123, LocalCAGUID: 9}
}

// TestForwarding shows which member gets a message for QP1: a REQ and a SIDR_REQ
// go to the listener, a message with a communication ID to its owner; the broker
// itself refuses a message without a receiver.
func TestForwarding(t *testing.T) {
	b := serve(t, 4)
	p := newPeer(t, b)
	m := []*process{join(t, b), join(t, b), join(t, b)}
	for i, x := range m {
		if x.Slot != uint8(i+1) || x.GUID != rigGUID {
			t.Fatalf("member %d has slot %d and GUID %#x", i, x.Slot, x.GUID)
		}
		must.Do(t, x.Claim(service+mad.ServiceID(i)))
	}
	for i, x := range m {
		s, id := service+mad.ServiceID(i), uint32(x.Slot)<<24|0x777
		p.send(mad.AttrREQ, reqFor(s, uint32(100+i)))
		if q := expect(t, x.port, mad.AttrREQ, &mad.REQ{}); q.LocalCommID != uint32(100+i) {
			t.Errorf("member %d gets REQ %d", i, q.LocalCommID)
		}
		p.send(mad.AttrSIDRREQ, &mad.SIDRREQ{RequestID: uint32(i), ServiceID: s})
		if q := expect(t, x.port, mad.AttrSIDRREQ, &mad.SIDRREQ{}); q.RequestID != uint32(i) {
			t.Errorf("member %d gets SIDR_REQ %d", i, q.RequestID)
		}
		p.send(mad.AttrSIDRREP, &mad.SIDRREP{RequestID: id})
		expect(t, x.port, mad.AttrSIDRREP, &mad.SIDRREP{})
		p.send(mad.AttrREP, &mad.REP{LocalCommID: uint32(200 + i), RemoteCommID: id})
		expect(t, x.port, mad.AttrREP, &mad.REP{})
		p.send(mad.AttrMRA, &mad.MRA{LocalCommID: uint32(200 + i), RemoteCommID: id})
		expect(t, x.port, mad.AttrMRA, &mad.MRA{})
		p.send(mad.AttrRTU, &mad.RTU{LocalCommID: uint32(100 + i), RemoteCommID: id + 1})
		expect(t, x.port, mad.AttrRTU, &mad.RTU{})
		p.send(mad.AttrREJ, &mad.REJ{LocalCommID: uint32(100 + i), Message: mad.WhichOther}) // of who never learnt our ID
		expect(t, x.port, mad.AttrREJ, &mad.REJ{})
		p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: uint32(200 + i), RemoteCommID: id})
		expect(t, x.port, mad.AttrDREQ, &mad.DREQ{})
	}
	nobody := reqFor(service+9, 5)
	nobody.Primary.LocalGID = ib.GIDFromAddr(p.port.Caps().Addrs[0])
	p.send(mad.AttrREQ, nobody)
	if r := expect(t, p.port, mad.AttrREJ, &mad.REJ{}); r.Reason != mad.RejInvalidServiceID || r.RemoteCommID != 5 {
		t.Errorf("a REQ to a service that nobody has: %+v", r)
	}
	p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: 6, RemoteCommID: 4 << 24})
	if r := expect(t, p.port, mad.AttrDREP, &mad.DREP{}); r.RemoteCommID != 6 {
		t.Errorf("a DREQ to a slot that nobody has: %+v", r)
	}
}

// TestBurst has hundreds of peers send to a busy member at once: it gets all messages,
// as from its own socket, from the moment it has joined. The system may deliver
// datagrams in another order.
func TestBurst(t *testing.T) {
	const count = 300 // for which systems grant memory without being asked
	b := serve(t, 1)
	p, x := newPeer(t, b), join(t, b)
	for i := range uint32(count) {
		p.send(mad.AttrMRA, &mad.MRA{LocalCommID: i, RemoteCommID: uint32(x.Slot) << 24})
		if i%32 == 31 { // the broker is not to be overrun: it has read these when it answers
			p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: i, RemoteCommID: 4 << 24})
			expect(t, p.port, mad.AttrDREP, &mad.DREP{})
		}
	}
	came := make(map[uint32]bool)
	for len(came) < count {
		m := expect(t, x.port, mad.AttrMRA, &mad.MRA{})
		if m.LocalCommID >= count || came[m.LocalCommID] {
			t.Fatalf("MRA %d comes after %d others", m.LocalCommID, len(came))
		}
		came[m.LocalCommID] = true
	}
}

// TestDamagedMADs shows that the broker forwards, and learns from, nothing that
// an adapter would not take.
func TestDamagedMADs(t *testing.T) {
	b := serve(t, 1)
	p, x := newPeer(t, b), join(t, b)
	must.Do(t, x.Claim(service))
	var q mad.MAD
	q.PutHeader(mad.CMHeader(mad.AttrREQ, 1))
	reqFor(service, 66).Put(&q)
	for _, at := range []int{2, 12, 30, 100, -1} { // P_Key, Q_Key, MAD, its data, ICRC
		p.packet(1, q[:], func(seg []byte) {
			i := (at + len(seg)) % len(seg)
			seg[i] ^= 0x55
			seg[(i+1)%len(seg)] ^= 0x55
		})
	}
	p.packet(1, q[:100], func([]byte) {})
	p.packet(2, q[:], func([]byte) {}) // to a queue pair that no member has
	p.send(mad.AttrREQ, reqFor(service, 77))
	if got := expect(t, x.port, mad.AttrREQ, &mad.REQ{}); got.LocalCommID != 77 {
		t.Errorf("REQ %d is forwarded", got.LocalCommID)
	}
}

// TestPorts shows that two processes cannot listen to one service, and that it
// is free as soon as one gives it up or dies.
func TestPorts(t *testing.T) {
	b := serve(t, 3)
	x, y := join(t, b), join(t, b)
	for range 2 { // two of its listeners
		must.Do(t, x.Claim(service))
	}
	taken := func() bool {
		err := y.Claim(service)
		if err != nil && !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("the second process: %v", err)
		}
		return err != nil
	}
	x.Release(service)
	if !taken() {
		t.Error("both processes listen")
	}
	x.Release(service)
	settle(t, "a service is free that was released", func() bool { return !taken() })
	must.Fail(t, x.Claim(service), unix.EADDRINUSE, "the first process again")
	y.die()
	settle(t, "a service is free whose process died", func() bool { return x.Claim(service) == nil })
}

// TestDeath shows what peers of a killed process get within a second: a DREQ if they
// were connected, on either side, a REJ if they waited for an answer, and a DREP,
// which answers their last DREQ, if they had asked to end the connection; and
// nothing if the connection was over.
func TestDeath(t *testing.T) {
	b := serve(t, 2)
	p, x := newPeer(t, b), join(t, b)
	must.Do(t, x.Claim(service))
	own := uint32(x.Slot) << 24
	p.send(mad.AttrREQ, reqFor(service, 10)) // connected, passive
	p.send(mad.AttrRTU, &mad.RTU{LocalCommID: 10, RemoteCommID: own | 1})
	p.send(mad.AttrREP, &mad.REP{LocalCommID: 20, RemoteCommID: own | 2, LocalQPN: 0x456}) // connected, active
	p.send(mad.AttrREQ, reqFor(service, 30))                                               // waits
	p.send(mad.AttrREP, &mad.REP{LocalCommID: 40, RemoteCommID: own | 4})                  // over
	p.send(mad.AttrDREP, &mad.DREP{LocalCommID: 40, RemoteCommID: own | 4})
	p.send(mad.AttrREP, &mad.REP{LocalCommID: 50, RemoteCommID: own | 5}) // ends
	p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: 50, RemoteCommID: own | 5})
	p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: 50, RemoteCommID: own | 5})
	asked := p.tid
	for range 9 {
		receive(t, x.port)
	}
	begin := time.Now()
	x.die()
	got := map[uint32]mad.DREQ{}
	refused, answered := false, false
	for len(got) < 2 || !refused || !answered {
		m, _ := receive(t, p.port)
		switch h := m.Header(); h.AttrID {
		case mad.AttrDREQ:
			var d mad.DREQ
			d.Decode(m)
			got[d.RemoteCommID] = d
			p.send(mad.AttrDREP, &mad.DREP{LocalCommID: d.RemoteCommID, RemoteCommID: d.LocalCommID})
		case mad.AttrREJ:
			var r mad.REJ
			r.Decode(m)
			refused = r.RemoteCommID == 30 && r.Message == mad.WhichREQ && r.Reason == mad.RejConsumer
		case mad.AttrDREP:
			var d mad.DREP
			d.Decode(m)
			answered = d.RemoteCommID == 50 && d.LocalCommID == own|5 && h.TID == asked
		default:
			t.Fatalf("%s came", mad.Describe(m))
		}
	}
	if d := time.Since(begin); d > runnable(t)*toldLimit {
		t.Errorf("the peers heard after %v", d)
	}
	if a, c := got[10], got[20]; a.LocalCommID != own|1 || a.RemoteQPN != 0x123 || c.LocalCommID != own|2 || c.RemoteQPN != 0x456 {
		t.Errorf("DREQs %+v and %+v", a, c)
	}
	settle(t, "the broker insists no more", func() bool {
		n := 0
		must.Do(t, b.engine.do(func(clock.Instant) { n = len(b.engine.disconnecting) }))
		return n == 0
	})
}

// TestSlots shows that there are as many slots as configured, that the process
// beyond them gets an error, and that freed slots are leased again, the longest
// free one first.
func TestSlots(t *testing.T) {
	const slots = 3
	b := serve(t, slots)
	var all []*process
	for range slots {
		all = append(all, join(t, b))
	}
	if _, _, err := Join(b.cfg); !errors.Is(err, unix.EAGAIN) || errors.Is(err, ErrNone) {
		t.Errorf("one process too many: %v", err)
	}
	p := newPeer(t, b)
	for i, x := range []*process{all[1], all[0]} {
		p.packet(uint32(x.Slot)<<16|5, nil, func([]byte) {}) // of the one that dies
		x.die()
		settle(t, "the slot is free", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.free) == i+1
		})
	}
	for _, want := range []uint8{2, 1} {
		if x := join(t, b); x.Slot != want {
			t.Errorf("slot %d is given, not %d", x.Slot, want)
		} else if n, _ := x.port.Receive(make([]fabric.Datagram, 1)); n != 0 {
			t.Errorf("slot %d has packets of its last owner", want)
		}
	}
	if served, n, who, err := Who(b.cfg.Addrs[0], rigSecret); err != nil || n != slots || len(served) != 1 || len(who) != slots || who[0].PID != unix.Getpid() {
		t.Errorf("%v, %d, %+v, %v are on", served, n, who, err)
	}
}

// TestOneBroker shows that a second broker is refused, and one where a lone
// process has the port.
func TestOneBroker(t *testing.T) {
	b := serve(t, 1)
	if _, err := Open(b.cfg); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a second broker: %v", err)
	}
	c := b.cfg
	p := newPeer(t, b)
	c.Addrs = p.port.Caps().Addrs
	begin := time.Now()
	if _, err := Open(c); !errors.Is(err, unix.EADDRINUSE) || time.Since(begin) > runnable(t)*recoverTime {
		t.Errorf("a broker where a lone process is: %v after %v", err, time.Since(begin))
	}
	if _, _, err := Join(c); !errors.Is(err, ErrNone) {
		t.Errorf("join without a broker: %v", err)
	}
	if _, _, err := Join(Config{Addrs: []netip.Addr{b.cfg.Addrs[0], c.Addrs[0]}}); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("join with an address that the broker does not serve: %v", err)
	}
	if _, err := Open(Config{Addrs: []netip.Addr{c.Addrs[0].Next().Next()}, Slots: udp.MaxSlots, Log: t.Logf}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a broker with more sockets than can be kept: %v", err)
	}
}

// TestBrokerDies shows that members go on when the broker dies, that packets
// for QP1 wait meanwhile, that the next broker has the same sockets, slots,
// services and GUID, and that no other process takes the address or a slot in
// between.
func TestBrokerDies(t *testing.T) {
	b := serve(t, 4)
	p, x, y := newPeer(t, b), join(t, b), join(t, b)
	for i, m := range []*process{x, y} {
		must.Do(t, m.Claim(service+mad.ServiceID(i)))
	}
	must.Do(t, b.Close()) // all that the kernel does for one that is killed
	p.send(mad.AttrREQ, reqFor(service, 1))
	p.send(mad.AttrREQ, reqFor(service+1, 2))
	claimed := make(chan error, 1)
	go func() { claimed <- x.Claim(service + 2) }()
	for _, m := range []*process{y, x} {
		p.packet(uint32(m.Slot)<<16|5, make([]byte, mad.Size), func([]byte) {})
		receive(t, m.port)
	}
	if _, err := udp.Open(udp.Config{Addrs: b.cfg.Addrs}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("somebody has the address of those who live: %v", err)
	}
	c := b.cfg
	c.Slots, c.GUID = 2, 1 // what it finds counts
	next, err := Open(c)
	must.Do(t, err)
	if !next.Recovered() || next.cfg.Slots != 4 || next.cfg.GUID != rigGUID {
		t.Errorf("recovered %v, %d slots, GUID %#x", next.Recovered(), next.cfg.Slots, next.cfg.GUID)
	}
	begin(t, next)
	for i, m := range []*process{x, y} {
		if q := expect(t, m.port, mad.AttrREQ, &mad.REQ{}); q.LocalCommID != uint32(i+1) {
			t.Errorf("member %d gets REQ %d", i, q.LocalCommID)
		}
	}
	if err := <-claimed; err != nil {
		t.Errorf("a claim that waited: %v", err)
	}
	if z := join(t, next); z.Slot == x.Slot || z.Slot == y.Slot {
		t.Errorf("a new member has slot %d of one that lives", z.Slot)
	} else if err := z.Claim(service); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a new member claims an old one's service: %v", err)
	}
}
