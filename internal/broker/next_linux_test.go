//go:build !portable

package broker

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// TestManyServices has a member with thousands of services rejoin at the next
// broker: it reports all of them, and the two do not block on each other's full
// sockets.
func TestManyServices(t *testing.T) {
	const count = 3000
	b := serve(t, 2)
	x := join(t, b)
	for i := range mad.ServiceID(count) {
		must.Do(t, x.Claim(service+i))
	}
	must.Do(t, b.Close())
	began := time.Now()
	next, err := Open(b.cfg)
	must.Do(t, err)
	begin(t, next)
	y := join(t, next)
	for i := range mad.ServiceID(count) {
		if err := y.Claim(service + i); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("service %d of %d of a member from before, %v after the next broker began: %v", i, count, time.Since(began), err)
		}
	}
	must.Do(t, x.Claim(service+count))
}

// TestClaimIsKept has a process claim a service that it has already: it needs no
// answer, because without a broker none would come.
func TestClaimIsKept(t *testing.T) {
	b := serve(t, 2)
	x, y := join(t, b), join(t, b)
	must.Do(t, x.Claim(service))
	must.Do(t, b.Close())
	if err := x.Claim(service); err != nil {
		t.Errorf("what it has, without a broker: %v", err)
	}
	x.Release(service)
	next, err := Open(b.cfg)
	must.Do(t, err)
	begin(t, next)
	must.Fail(t, y.Claim(service), unix.EADDRINUSE, "another process takes what was released once of twice")
	x.Release(service)
	settle(t, "what was released twice is free", func() bool { return y.Claim(service) == nil })
	must.Fail(t, x.Claim(service), unix.EADDRINUSE, "the first one again")
}

// TestClaimWhileTheBrokerEnds claims a service from a broker that has begun to end, and still answers: the next one grants it.
func TestClaimWhileTheBrokerEnds(t *testing.T) {
	b := serve(t, 2)
	x := join(t, b)
	b.engine.close()
	claimed := make(chan error, 1)
	go func() { claimed <- x.Claim(service) }()
	settle(t, "the claim is asked for", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.seq > 0
	})
	must.Do(t, b.Close())
	next, err := Open(b.cfg)
	must.Do(t, err)
	begin(t, next)
	must.Do(t, <-claimed)
}

// TestClaimWaitsForOthers has one of two members rejoin the next broker first: it cannot
// claim a service of the other, which has not yet reported its services.
func TestClaimWaitsForOthers(t *testing.T) {
	for range 10 {
		b := serve(t, 2)
		x, y := join(t, b), join(t, b)
		must.Do(t, x.Claim(service))
		must.Do(t, b.Close())
		next, err := Open(b.cfg)
		must.Do(t, err)
		begin(t, next)
		if err := y.Claim(service); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("a member from before takes another one's service: %v", err)
		}
		x.die()
		y.die()
		must.Do(t, next.Close())
	}
}

// TestSlotOfTheDead shows that a slot whose member died while there was no broker is
// not leased before the member's peers are disconnected, because their packets would
// reach the next owner.
func TestSlotOfTheDead(t *testing.T) {
	b := serve(t, 3)
	p, dies, lives := newPeer(t, b), join(t, b), join(t, b)
	must.Do(t, dies.Claim(service))
	p.send(mad.AttrREQ, reqFor(service, 1))
	expect(t, dies.port, mad.AttrREQ, &mad.REQ{})
	must.Do(t, b.Close())
	dies.die()
	next, err := Open(b.cfg) // and does not serve yet
	must.Do(t, err)
	begun := func(m *message) uint8 {
		next.mu.Lock()
		defer next.mu.Unlock()
		slot, err := next.vacancy(m)
		must.Do(t, err)
		return slot
	}
	if s := begun(&message{}); s == dies.Slot || s == lives.Slot {
		t.Errorf("who comes gets slot %d; %d is of one that died, %d of one that lives", s, dies.Slot, lives.Slot)
	}
	begin(t, next)
	settle(t, "the slot of the one that died is free", func() bool { return begun(&message{}) == dies.Slot })
}

// TestLastWords shows that messages of a member that was then found dead have no
// effect.
func TestLastWords(t *testing.T) {
	b := serve(t, 2)
	x, y := join(t, b), join(t, b)
	must.Do(t, y.Claim(service))
	b.mu.Lock()
	b.retire(x.Slot)
	b.mu.Unlock()
	must.Fail(t, x.Claim(service+1), unix.ESHUTDOWN, "a claim of the dead")
	x.Release(service + 2)
	must.Do(t, y.Claim(service+1))
}
