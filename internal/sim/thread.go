package sim

import (
	"iter"
	"time"

	"github.com/softhca/softhca/internal/fabric"
)

// thread is the thread of a node that reads its port. It is a coroutine, because the port's Wait
// returns only after it has slept: begin makes it, step runs it until it sleeps or is awake again.
type thread struct {
	c      *carrier
	step   func() (asleep, ok bool)
	stop   func()
	yield  func(asleep bool) bool
	asleep bool
	waking bool   // it has been woken and runs soon
	woken  bool   // the next sleep ends at once
	sleeps uint64 // waits that came to sleep
	spins  int    // and those since the last that did not
	err    error
}

// begin starts the coroutine. Each step of it alternates between the port's Wait, in which it
// sleeps, and its end.
func (t *thread) begin(c *carrier) {
	t.c = c
	t.step, t.stop = iter.Pull(func(yield func(bool) bool) {
		t.yield = yield
		for {
			if t.err = c.port.Wait(-1, true, c.blocked); !yield(false) {
				return
			}
		}
	})
}

// wait is the Wait of the socket: it sleeps, unless something waits, until the thread is woken.
func (t *thread) wait(timeout time.Duration, ready bool) error {
	if ready || t.woken {
		t.woken = false
		return nil
	}
	t.sleeps++
	t.spins = 0
	sleep := t.sleeps
	if timeout >= 0 {
		t.c.after(timeout, func() {
			if sleep == t.sleeps && t.asleep && !t.waking {
				t.c.wakes()
			}
		})
	}
	if !t.yield(true) {
		return fabric.ErrClosed
	}
	t.woken = false
	return nil
}

// wakes wakes the thread, if it sleeps.
func (c *carrier) wakes() {
	if t := &c.thread; t.asleep && !t.waking && !c.closed {
		t.waking = true
		c.after(c.draw(wakeTime), c.turn)
	}
}

// turn lets the thread read the port some times and send. Then it polls again, or sleeps.
func (c *carrier) turn() {
	w, t := c.n.w, &c.thread
	if w.Now < c.stalled {
		c.after(c.stalled.Sub(w.Now), c.turn)
		return
	}
	if t.asleep {
		t.asleep, t.waking = false, false
		_, _ = t.step() // the end of Wait
		w.Must(t.err)
	}
	c.garble()
	got := 0
	for range 1 + w.host.IntN(8) {
		k := c.receive()
		got += k
		if k == 0 {
			break
		}
	}
	if got > 0 {
		c.n.answer()
	} else {
		c.n.pump()
	}
	if got > 0 || w.host.Float64() < w.plan.near.polls {
		c.after(c.draw(pollTime), c.turn)
		return
	}
	if t.asleep, _ = t.step(); !t.asleep {
		if t.spins++; t.spins > mostSpins {
			w.Fail("wake", "adapter %d waits %d times without sleeping, and nothing arrives", c.n.Index, t.spins)
		}
		c.after(0, c.turn)
		return
	}
	c.checkAsleep()
}

// mostSpins is more than a thread waits without sleeping while nothing arrives: it reads the network
// only in one of 16 turns, and a wake-up or a new peer takes one more.
const mostSpins = 40

// sleeping reports whether the thread sleeps, and nothing has woken it.
func (t *thread) sleeping() bool { return t.asleep && !t.waking }

// checkAsleep fails if the thread sleeps although there is a packet for it, or if the sender of
// an empty ring sleeps until there is room.
func (c *carrier) checkAsleep() {
	w := c.n.w
	if w.Now < c.stalled || !c.thread.sleeping() {
		return
	}
	for _, l := range c.links {
		s, o := l.side(c), l.other(c).c
		switch n := s.certain(); {
		case l.spoiled:
		case n > 0:
			w.Fail("wake", "adapter %d sleeps, and %d records wait in a ring", c.n.Index, n)
		case o.waitsFor(l) && o.thread.sleeping():
			w.Fail("wake", "adapter %d sleeps until there is room in a ring, which is empty", o.n.Index)
		}
	}
}

// waitsFor reports whether the port waits for room in the ring of a link.
func (c *carrier) waitsFor(l *link) bool {
	if !c.blocked || c.closed {
		return false
	}
	to := &c.n.Batch.Pending()[0].Path
	return c.linkTo(to.Src, to.Dst) == l
}
