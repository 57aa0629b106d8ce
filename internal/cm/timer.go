package cm

import (
	"container/heap"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// retry is the one timer of a connection: what waits for an answer is sent
// again, or TIMEWAIT ends.
type retry struct {
	at       clock.Instant
	interval time.Duration
	response uint8 // 5-bit code: what the active side allows the peer for its answer
	max      uint8 // repetitions
	left     uint8
}

// The bounds of the times that a peer asks us to wait, as codes. It must not
// hold our memory for hours: Linux asks for the longest in its MRA. And it must
// not have us repeat a message at once, or cut TIMEWAIT down to nothing: Linux
// does not wait for less than a millisecond.
const (
	minPeerWait = 8  // 1 ms
	maxPeerWait = 24 // 69 s
)

// peerWait returns the time of a 5-bit code that a peer sent.
func peerWait(code uint8) time.Duration {
	return mad.Timeout(max(minPeerWait, min(code, maxPeerWait)))
}

// await sets the timer, with so many repetitions left.
func (c *Conn) await(now clock.Instant, d time.Duration, left uint8) {
	c.retry.at, c.retry.left = now.Add(d), left
	if c.index == 0 {
		heap.Push(&c.m.timers, c)
		return
	}
	heap.Fix(&c.m.timers, c.index-1)
}

func (c *Conn) stopTimer() {
	if c.index != 0 {
		heap.Remove(&c.m.timers, c.index-1)
	}
}

// Advance fires the timers that are due.
func (m *Manager) Advance(now clock.Instant) {
	for len(m.timers) > 0 && m.timers[0].retry.at <= now {
		c := m.timers[0]
		c.stopTimer()
		on := TimerSpent
		switch {
		case c.state == Timewait:
			on = TimerQuiet
		case c.retry.left > 0:
			on = TimerAgain
		}
		_ = c.step(on, &stimulus{now: now}) // only calls are refused
	}
}

// Deadline returns when Advance is next needed; clock.Never when idle.
func (m *Manager) Deadline() clock.Instant {
	if len(m.timers) == 0 {
		return clock.Never
	}
	return m.timers[0].retry.at
}

// timers is a heap of connections by their instant; container/heap calls it.
type timers []*Conn

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].retry.at < t[j].retry.at }

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i+1, j+1
}

// Push appends an element for container/heap.
func (t *timers) Push(x any) {
	c := x.(*Conn)
	*t = append(*t, c)
	c.index = len(*t)
}

// Pop removes the last element for container/heap.
func (t *timers) Pop() any {
	last := len(*t) - 1
	c := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	c.index = 0
	return c
}
