package driver_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
)

// migrations are the states of the RC and the UC queue pair of a host.
func (l *link) migrations(h *host) (m [2]ib.MigState) {
	ends := l.ends(h)
	h.do(func(clock.Instant) {
		for i := range m {
			m[i] = ends[i].qp.Query().PathMigState
		}
	})
	return m
}

// events returns how often a host got an event.
func (h *host) events(e ib.EventType) (n int) {
	h.do(func(clock.Instant) { n = h.told[e] })
	return n
}

// load loads the path between the second addresses and asks for REARM.
func (e *end) load() {
	a := ib.QPAttr{
		State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: 15,
		AltAV: ib.AHAttr{DGID: ib.GIDFromAddr(e.peer.alt), SGIDIndex: 1, HopLimit: 64, Port: 1},
	}
	e.do(func(now clock.Instant) {
		must.Do(e.t, e.qp.Modify(now, &a, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState))
	})
}

// awaitMigrations lets the honest sides work until their states are as wanted.
func (l *link) awaitMigrations(h *host, want [2]ib.MigState) {
	h.t.Helper()
	for end := time.Now().Add(soon); l.migrations(h) != want; {
		if time.Now().After(end) {
			h.t.Fatalf("the queue pairs of %v are in %v, want %v", h.addr, l.migrations(h), want)
		}
		must.Do(h.t, l.work(20*time.Millisecond))
	}
}

// work lets RC and UC work for a time.
func (l *link) work(d time.Duration) error {
	stop := make(chan struct{})
	time.AfterFunc(d, func() { close(stop) })
	_, rc := l.reliable(stop)
	_, uc := l.unreliable(stop)
	return errors.Join(rc, uc)
}

// TestV15_ForgersOnThePeersHost lets processes on the hosts of two adapters, with
// the addresses of both of their paths and with a third, say that the peer has
// migrated or armed, from every such address to every other, at PSNs that they
// cannot know. Meanwhile the honest sides work. Nobody arms, moves or is told of
// anything; afterwards the peer's own word takes both over, once.
func TestV15_ForgersOnThePeersHost(t *testing.T) {
	seed := *strangersSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-strangers-seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 15))
	a, b := newHost(t, r, false), newHost(t, r, false)
	l := connect(t, a, b)
	for i := range 2 {
		l.a[i].load()
		l.b[i].load()
	}
	// UC has requests one way only: nothing honest arms its sender.
	armed := map[*host][2]ib.MigState{a: {ib.ARMED, ib.REARM}, b: {ib.ARMED, ib.ARMED}}
	for h, want := range armed {
		l.awaitMigrations(h, want)
	}
	sent := l.forge(t, r, *strangersTime/10)
	for h, want := range armed {
		if got := l.migrations(h); got != want {
			t.Errorf("%d forged packets have taken the queue pairs of %v from %v to %v", sent, h.addr, want, got)
		}
		if n := h.events(ib.EventPathMig) + h.events(ib.EventPathMigErr); n != 0 {
			t.Errorf("%v was told %d times of migrations", h.addr, n)
		}
	}
	for i := range 2 {
		e := l.a[i]
		a.do(func(now clock.Instant) {
			if e.qp.Query().PathMigState == ib.ARMED {
				must.Do(t, e.qp.Modify(now, &ib.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}, ib.AttrState|ib.AttrPathMigState))
			}
		})
	}
	l.awaitMigrations(b, [2]ib.MigState{ib.MIGRATED, ib.ARMED})
	if err := l.work(20 * time.Millisecond); err != nil {
		t.Error(err)
	}
	for _, h := range []*host{a, b} {
		if n := h.events(ib.EventPathMig); n != 1 {
			t.Errorf("when the peer does move, %v is told %d times", h.addr, n)
		}
	}
}

// forge attacks both hosts for a time and returns how many packets left.
func (l *link) forge(t *testing.T, r *rand.Rand, d time.Duration) (sent int) {
	a, b := l.a[0].host, l.b[0].host
	third := loopback(byte(hosts.Add(1)))
	var forgers []*stranger
	for _, h := range []*host{a, b} {
		for _, from := range []netip.Addr{h.peer.addr, h.peer.alt, third} {
			for _, to := range []netip.Addr{h.addr, h.alt} {
				forgers = append(forgers, newStranger(r, h, l).at(t, from, to))
			}
		}
	}
	stop := make(chan struct{})
	var honest sync.WaitGroup
	errs := make([]error, 2)
	for i, f := range []func(stop <-chan struct{}) (int, error){l.reliable, l.unreliable} {
		honest.Go(func() { _, errs[i] = f(stop) })
	}
	counts := make([]int, len(forgers))
	var hostile sync.WaitGroup
	end := time.Now().Add(d)
	for i, s := range forgers {
		hostile.Go(func() { counts[i] = s.attack(2000, end) })
	}
	hostile.Wait()
	close(stop)
	honest.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	for i, n := range counts {
		if sent += n; n == 0 {
			t.Errorf("nothing left from %v to %v: the test shows less than it says", forgers[i].from, forgers[i].to)
		}
	}
	t.Logf("%d forged packets", sent)
	return sent
}
