package qp

import (
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/nasty"
)

// Bounds of late completions.
const (
	mostLate    = time.Millisecond       // from an operation to its entry
	mostShort   = 50 * time.Microsecond  // the same, if late completions are left out
	mostEarly   = 200 * time.Microsecond // from an event to the entry that it announces
	mostHeld    = 64                     // entries of a queue that are late at a time
	roomTime    = 100 * time.Microsecond // between two looks for room in a full queue
	roomChecks  = 500                    // checks before the queue overflows
	mostWaiting = 4096                   // entries that wait for room
)

// late is the part of a completion queue that holds entries back (nasty.Late, nasty.Order,
// nasty.Events). The shard's thread uses it.
type late struct {
	held  []lateEntry   // in the order of their operations; at most mostHeld, or mostWaiting if there is no room
	due   deadline.Link // while held is not empty: when the entries enter
	early bool          // their event has been raised
	waits int           // checks that found the queue full
}

// lateEntry is an entry that has not entered its queue.
type lateEntry struct {
	qp        *QP
	wc        ib.WC
	at        clock.Instant // when the operation ended
	solicited bool
}

// sameQueue reports whether two entries are of one work queue, whose entries stay in order.
func (l *lateEntry) sameQueue(m *lateEntry) bool {
	return l.qp == m.qp && (l.wc.Opcode^m.wc.Opcode)&ib.WCRecv == 0
}

// Late is a heap of completion queues with late entries, by the instant when these are due.
type Late struct{ deadline.Heap[CQ] }

// NewLate returns an empty heap.
func NewLate() Late {
	return Late{deadline.New(func(c *CQ) *deadline.Link { return &c.late.due })}
}

// Advance lets the entries that are due enter.
func (l *Late) Advance(now clock.Instant, e *Env) {
	for c := l.Due(now); c != nil; c = l.Due(now) {
		c.deliver(now, e)
	}
}

// settle lets all late entries enter: what completed before an asynchronous event of a queue pair
// can be polled when the program gets the event.
func (l *Late) settle(now clock.Instant, e *Env) {
	for _, c := range slices.Clone(l.All()) {
		l.Remove(c)
		c.enter(now, min(len(c.held), int(c.Room())))
		if len(c.held) > 0 { // it is full, as it would be without late entries
			l.Set(c, now.Add(roomTime))
		}
	}
}

// postpone holds an entry back, or reports false: it enters now.
func (c *CQ) postpone(now clock.Instant, e *Env, l lateEntry) bool {
	d := e.Nasty
	part, most := nasty.Late, mostLate
	if !d.Has(part) {
		part, most = nasty.Order, mostShort
	}
	if !d.Has(part) {
		part = nasty.Events
	}
	first := len(c.held) == 0
	if !d.Has(part) || c.Failed() || first && d.OneIn(part, 2) && c.Room() > 0 {
		return false
	}
	c.held = append(c.held, l)
	switch {
	case first:
		e.Late.Set(c, now.Add(d.Time(part, most)))
	case len(c.held) == mostHeld, len(c.held) >= mostWaiting:
		c.deliver(now, e)
	}
	return true
}

// deliver lets the late entries enter, in an order that work queues permit. Before, it may raise
// the event, so that a program finds the queue empty; the entries then enter a little later. A full
// queue overflows only after roomChecks times roomTime: a work queue has room for a new request as
// soon as an old one completes, before its late entry enters, so the program may have posted more
// requests than it would have without late entries.
func (c *CQ) deliver(now clock.Instant, e *Env) {
	e.Late.Remove(c)
	if len(c.held) == 0 {
		return
	}
	d := e.Nasty
	if first := &c.held[0]; !c.early && !c.limits.active() && c.Armed(first.raises()) && d.OneIn(nasty.Events, 4) {
		c.early = true
		c.fire(first.raises())
		e.Late.Set(c, now.Add(d.Time(nasty.Events, mostEarly)))
		return
	}
	if !c.early && c.waits == 0 && d.Has(nasty.Order) {
		mix(c.held, func(n int) int { return d.IntN(nasty.Order, n) })
	}
	n := c.fitting()
	c.enter(now, n)
	if len(c.held) > 0 {
		c.waits++
		e.Late.Set(c, now.Add(roomTime))
	}
}

// fitting returns how many of the late entries are to enter now. Those for which there is no room
// may wait a while.
func (c *CQ) fitting() int {
	n := len(c.held)
	room := int(c.Room())
	switch {
	case room > 0:
		c.waits = 0
	case c.waits == roomChecks:
		return n
	}
	if n >= mostWaiting || c.Failed() {
		return n
	}
	return min(n, room)
}

// enter lets the first late entries enter.
func (c *CQ) enter(now clock.Instant, n int) {
	for i := range n {
		l := &c.held[i]
		c.add(now, l.at, l.qp, &l.wc, l.solicited)
	}
	c.held = slices.Delete(c.held, 0, n)
	if len(c.held) == 0 {
		c.early, c.waits = false, 0
	}
}

// raises reports whether the entry raises the event of a queue that is armed for solicited ones.
func (l *lateEntry) raises() bool { return l.solicited || l.wc.Status != ib.WCSuccess }

// mix changes the order of entries at random, except among those of one work queue.
func mix(all []lateEntry, intN func(int) int) {
	for i := range all {
		pick := i + intN(len(all)-i)
		for j := i; j < pick; j++ { // the oldest of its work queue
			if all[j].sameQueue(&all[pick]) {
				pick = j
			}
		}
		l := all[pick]
		copy(all[i+1:pick+1], all[i:pick])
		all[i] = l
	}
}

// Remove removes the entries of a queue pair, also the late ones (Q5).
func (c *CQ) Remove(n ib.QPN) {
	c.held = slices.DeleteFunc(c.held, func(l lateEntry) bool { return l.wc.QPN == n })
	if len(c.held) == 0 {
		c.early, c.waits = false, 0
	}
	c.CQ.Remove(n)
}
