package driver

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/shard/rig"
)

// twin is a shard with two ports, each on the network in memory, and its driver.
type twin struct {
	*rig.Side
	ports [rig.Ports]*troublePort
	drv   *Driver
	fatal chan error
}

// newTwin returns twin n.
func newTwin(t testing.TB, n *pipe.Network, number byte) *twin {
	t.Helper()
	s := &twin{Side: rig.New(t, number), fatal: make(chan error, 10)}
	var ports []fabric.Port
	for i := range s.ports {
		p, err := n.Port(rig.Addr(number, uint8(i+1)))
		must.Do(t, err)
		s.ports[i] = &troublePort{Port: p}
		ports = append(ports, s.ports[i])
	}
	s.drv = New(ports, s.Shard, nil, func(cause error) { s.fatal <- cause })
	s.drv.Run()
	t.Cleanup(func() { _ = s.drv.Close() }) // tests close it too
	return s
}

func newTwins(t testing.TB) (a, b *twin) {
	t.Helper()
	n := pipe.NewNetwork(pipe.Options{})
	return newTwin(t, n, 1), newTwin(t, n, 2)
}

// pair returns connected queue pairs of two twins.
func pair(t testing.TB, a, b *twin, port uint8) (p, q *qp.QP) {
	t.Helper()
	must.Do(t, a.drv.Do(func(clock.Instant) { p = a.QP(ib.RC) }))
	must.Do(t, b.drv.Do(func(clock.Instant) { q = b.QP(ib.RC) }))
	must.Do(t, a.drv.Do(func(now clock.Instant) { a.Walk(now, p, rig.Attr(b.Side, q, port)) }))
	must.Do(t, b.drv.Do(func(now clock.Instant) { b.Walk(now, q, rig.Attr(a.Side, p, port)) }))
	return p, q
}

// write posts a WRITE.
func (s *twin) write(peer *twin, q *qp.QP, n int) {
	s.T.Helper()
	_, err := q.PostSend(s.Write(peer.Side, 0, n))
	must.Do(s.T, err)
	s.drv.Post(q, qp.Posted{})
}

// complete waits for the success of a request of q. The test only looks into the completion queue:
// the goroutines do the rest.
func (s *twin) complete(q *qp.QP) {
	s.T.Helper()
	wc := make([]ib.WC, 1)
	await(s.T, "a completion", func() bool { return s.CQ.Poll(wc) == 1 })
	if wc[0].Status != ib.WCSuccess || wc[0].QPN != q.Num() {
		s.T.Fatalf("completion %+v, want a success of QP %v", wc[0], q.Num())
	}
}

// TestGoroutineOfEachPort shows that programs which sleep complete by each port, although no
// thread of theirs reads it.
func TestGoroutineOfEachPort(t *testing.T) {
	defer goleak.VerifyNone(t)
	a, b := newTwins(t)
	for port := range uint8(rig.Ports) {
		p, _ := pair(t, a, b, port+1)
		a.write(b, p, 100)
		a.complete(p)
		for i, x := range a.ports {
			if sent := x.Stats().SentPackets; (sent > 0) != (i <= int(port)) {
				t.Errorf("after a WRITE by port %d port %d has sent %d packets", port+1, i+1, sent)
			}
		}
	}
	must.Do(t, a.drv.Close())
	must.Do(t, b.drv.Close())
}

// TestBlockedPortStopsNoOther shows that a port which is full for ever does not delay another, and
// that a port which is full for some time is served once it has room: its goroutine waits for that.
func TestBlockedPortStopsNoOther(t *testing.T) {
	const forever = 1 << 30
	for blocked := range rig.Ports {
		a, b := newTwins(t)
		p, _ := pair(t, a, b, uint8(blocked+1))
		q, _ := pair(t, a, b, uint8(rig.Ports-blocked))
		port := a.ports[blocked]
		port.blocks.Store(forever)
		a.write(b, p, 64<<10)
		for range 3 {
			a.write(b, q, 64<<10)
			a.complete(q)
		}
		await(t, "a wait for room in the blocked port", func() bool { return port.waited().writing > 0 })
		if sent := port.Stats().SentPackets; sent != 0 {
			t.Errorf("port %d is blocked and has sent %d packets", blocked+1, sent)
		}
		port.blocks.Store(3)
		a.complete(p)
	}
}

// TestFullPortIsServedAgain shows that a thread which finds a port full, while the port's goroutine
// waits for arrivals only, wakes it. No timer helps.
func TestFullPortIsServedAgain(t *testing.T) {
	a, b := newTwins(t)
	q := (*qp.QP)(nil)
	must.Do(t, b.drv.Do(func(clock.Instant) { q = b.QP(ib.RC) }))
	p := (*qp.QP)(nil)
	must.Do(t, a.drv.Do(func(now clock.Instant) {
		p = a.QP(ib.RC)
		attr := rig.Attr(b.Side, q, 2)
		attr.Timeout = 0
		a.Walk(now, p, attr)
	}))
	must.Do(t, b.drv.Do(func(now clock.Instant) { b.Walk(now, q, rig.Attr(a.Side, p, 2)) }))
	for range 3 {
		port := a.ports[1]
		before := port.waited().forever
		port.Wake() // one more round, so that a wait of this time is seen
		await(t, "an idle port", func() bool { return port.waited().forever > before })
		port.blocks.Store(2) // for this thread, and for the goroutine that it wakes
		a.write(b, p, 100)
		a.complete(p)
	}
}

// TestMigrationBetweenPorts takes a port's address away in the middle of a message, while the port
// is full: the rest arrives by the other port.
func TestMigrationBetweenPorts(t *testing.T) {
	a, b := newTwins(t)
	p, q := pair(t, a, b, 1)
	must.Do(t, b.drv.Do(func(clock.Instant) {
		must.Do(t, a.drv.Do(func(now clock.Instant) { rig.Pair{A: a.Side, B: b.Side, P: p, Q: q}.Arm(now, 2) }))
	}))
	a.write(b, p, 8)
	a.complete(p)
	b.write(a, q, 8)
	b.complete(q)
	a.write(b, p, 8)
	a.complete(p)
	for i := range a.Buf {
		a.Buf[i] = byte(i * 7)
	}
	a.ports[0].blocks.Store(1 << 30)
	a.write(b, p, rig.Bytes)
	must.Do(t, a.drv.Do(func(now clock.Instant) { a.Shard.AddressLost(now, rig.Addr(1, 1), true) }))
	a.complete(p)
	if !bytes.Equal(a.Buf, b.Buf) {
		t.Error("other bytes arrived")
	}
	must.Do(t, b.drv.Do(func(clock.Instant) {
		if port := q.Query().Port; port != 2 {
			t.Errorf("the peer is on port %d", port)
		}
	}))
}

// TestMADsByEachPort shows that the MADs of each port leave by it while the other is full.
func TestMADsByEachPort(t *testing.T) {
	for port := range uint8(rig.Ports) {
		a, b := newTwins(t)
		a.ports[rig.Ports-1-port].blocks.Store(1 << 30)
		must.Do(t, a.drv.Do(func(now clock.Instant) {
			for p := range uint8(rig.Ports) {
				a.MAD(now, 2, p+1)
			}
		}))
		await(t, "the MAD", func() (arrived bool) {
			must.Do(t, b.drv.Do(func(clock.Instant) { arrived = len(b.MADs) > 0 }))
			return arrived
		})
		if from := b.MADs[0].From.Remote; from != rig.Addr(1, port+1) {
			t.Errorf("a MAD arrives from %v, want one of port %d", from, port+1)
		}
	}
}

// TestAnyPortIsFatal shows that the failure of any port ends the device, once, and all its
// goroutines.
func TestAnyPortIsFatal(t *testing.T) {
	defer goleak.VerifyNone(t)
	for port := range rig.Ports {
		for what, fail := range map[string]func(*troublePort){
			"wait":    func(p *troublePort) { p.failWait.Store(true) },
			"receive": func(p *troublePort) { p.failRecv.Store(true) },
			"panic":   func(p *troublePort) { p.lying.Store(true) },
		} {
			a, b := newTwins(t)
			fail(a.ports[port])
			a.ports[port].Wake()
			select {
			case cause := <-a.fatal:
				if !errors.Is(cause, ErrDead) {
					t.Errorf("%s of port %d: the cause is %v", what, port+1, cause)
				}
			case <-time.After(waitLimit):
				t.Fatalf("%s of port %d: nobody was told that the device is dead", what, port+1)
			}
			must.Do(t, a.drv.Close())
			must.Do(t, b.drv.Close())
			if len(a.fatal) != 0 {
				t.Errorf("%s of port %d: its user was told twice", what, port+1)
			}
		}
	}
}
