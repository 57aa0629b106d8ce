//go:build !portable

package broker

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/mad"
)

// TestManyServices has a member that listens to thousands of services meet the next
// broker: it says all of them, and neither side waits for the other to read.
func TestManyServices(t *testing.T) {
	const count = 3000
	b := serve(t, 2)
	x := join(t, b)
	for i := range mad.ServiceID(count) {
		if err := x.Claim(service + i); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next, err := Open(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, next)
	y := join(t, next)
	for i := range mad.ServiceID(count) {
		if err := y.Claim(service + i); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("service %d of %d of a member from before, %v after the next broker began: %v", i, count, time.Since(began), err)
		}
	}
	if err := x.Claim(service + count); err != nil {
		t.Error(err)
	}
}

// TestClaimIsKept has a process claim what it has already: it needs no answer, which
// nobody could give while the broker is away.
func TestClaimIsKept(t *testing.T) {
	b := serve(t, 2)
	x, y := join(t, b), join(t, b)
	if err := x.Claim(service); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.Claim(service); err != nil {
		t.Errorf("what it has, without a broker: %v", err)
	}
	x.Release(service)
	next, err := Open(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, next)
	if err := y.Claim(service); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another process takes what was released once of twice: %v", err)
	}
	x.Release(service)
	settle(t, "what was released twice is free", func() bool { return y.Claim(service) == nil })
	if err := x.Claim(service); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the first one again: %v", err)
	}
}

// TestClaimWaitsForOthers has the next broker meet one of two members first: it takes no
// service of the other, who has not said yet what it listens to.
func TestClaimWaitsForOthers(t *testing.T) {
	for range 10 {
		b := serve(t, 2)
		x, y := join(t, b), join(t, b)
		if err := x.Claim(service); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		next, err := Open(b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		begin(t, next)
		if err := y.Claim(service); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("a member from before takes another one's service: %v", err)
		}
		x.die()
		y.die()
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSlotOfTheDead shows that a slot whose member died while there was no broker is
// nobody's until that one's peers have been told: they would meet the next owner.
func TestSlotOfTheDead(t *testing.T) {
	b := serve(t, 3)
	p, dies, lives := newPeer(t, b), join(t, b), join(t, b)
	if err := dies.Claim(service); err != nil {
		t.Fatal(err)
	}
	p.send(mad.AttrREQ, reqFor(service, 1))
	expect(t, dies.port, mad.AttrREQ, &mad.REQ{})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	dies.die()
	next, err := Open(b.cfg) // and does not serve yet
	if err != nil {
		t.Fatal(err)
	}
	begun := func(m *message) uint8 {
		next.mu.Lock()
		defer next.mu.Unlock()
		slot, err := next.vacancy(m)
		if err != nil {
			t.Fatal(err)
		}
		return slot
	}
	if s := begun(&message{}); s == dies.Slot || s == lives.Slot {
		t.Errorf("who comes gets slot %d; %d is of one that died, %d of one that lives", s, dies.Slot, lives.Slot)
	}
	begin(t, next)
	settle(t, "the slot of the one that died is free", func() bool { return begun(&message{}) == dies.Slot })
}

// TestLastWords shows that what a member said before it was found to be dead changes
// nothing.
func TestLastWords(t *testing.T) {
	b := serve(t, 2)
	x, y := join(t, b), join(t, b)
	if err := y.Claim(service); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.retire(x.Slot)
	b.mu.Unlock()
	if err := x.Claim(service + 1); !errors.Is(err, unix.ESHUTDOWN) {
		t.Errorf("a claim of the dead: %v", err)
	}
	x.Release(service + 2)
	if err := y.Claim(service + 1); err != nil {
		t.Error(err)
	}
}
