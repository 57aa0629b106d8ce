package flow

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// SocketCredit limits what the queue pairs of unreliable services send to one socket of this host
// before they ask for its backlog again. Nothing acknowledges their packets, and the loopback
// interface drops packets to a full receive buffer, as a lossy network does. The credit makes the
// interface behave like a lossless network, which pauses senders.
type SocketCredit struct {
	To      Socket
	backlog fabric.Backlog // nil: the destination is on another host, or unknown
	left    int            // bytes of cost that may still be sent
	user    ib.QPN         // the queue pair that renewed the credit last; 0 after it was told to flush
	batch   uint64         // the last batch with packets to the socket
	unsent  int            // bytes of cost in that batch

	used   int           // backlog at the last question that found no room
	paused clock.Instant // time since which there is no room and the receiver reads nothing; or Never
	retry  clock.Instant // earliest time of the next question
	line   time.Duration // 1 ns for each queue pair that waits for retry
}

// A socket has room if half of its buffer is free. The credit is a third of what is free: other
// processes may send to the socket at the same time, and packets that are not segments of a run
// occupy up to twice their cost.
const (
	roomShare  = 2
	grantShare = 3
	maxGrant   = 1 << 20
)

// Times of a pause. A sender asks again after a quarter of the time that the pause has lasted,
// within bounds. After maxPause the receiver counts as stuck: until it reads again, senders send, and
// packets are lost. Switches, too, discard packets that they cannot deliver for about maxPause.
const (
	minPauseStep = 20 * time.Microsecond
	maxPauseStep = 100 * time.Microsecond
	maxPause     = time.Second
)

// SocketAnswer says whether a packet may be sent.
type SocketAnswer uint8

// The answers of Admit.
const (
	SocketOpen  SocketAnswer = iota // the packet may be sent
	SocketFlush                     // the credit is used up: first send the batch, and let other queue pairs send
	SocketPause                     // the buffer is full: ask again at the given instant
)

// Admit reports whether a queue pair may append a packet of the given cost to a batch. If so, it
// takes the cost from the credit. With SocketPause it returns when to ask again.
func (c *SocketCredit) Admit(now clock.Instant, id ib.QPN, cost uint32, batch uint64) (SocketAnswer, clock.Instant) {
	if c.backlog == nil {
		return SocketOpen, 0
	}
	if c.batch != batch {
		c.batch, c.unsent = batch, 0
	}
	if c.left < int(cost) {
		if c.user == id && c.unsent > 0 {
			c.user = 0
			return SocketFlush, 0
		}
		if now < c.retry || !c.ask(now) {
			c.line++
			return SocketPause, c.retry.Add(c.line)
		}
		c.user, c.left = id, max(c.left, int(cost))
	}
	c.left -= int(cost)
	c.unsent += int(cost)
	return SocketOpen, 0
}

// ask renews the credit, or sets the time of the next question.
func (c *SocketCredit) ask(now clock.Instant) bool {
	used, size := c.backlog()
	free := size - used - c.unsent
	switch {
	case size == 0: // the backlog is unknown at present
		c.left = maxGrant
		return true
	case free*roomShare >= size:
		c.paused, c.left = clock.Never, min(free/grantShare, maxGrant)
		return true
	}
	if c.paused == clock.Never || used < c.used {
		c.paused = now
	}
	c.used = used
	if long := now.Sub(c.paused); long < maxPause {
		c.retry, c.line = now.Add(min(max(long/4, minPauseStep), maxPauseStep)), 0
		return false
	}
	c.left = maxGrant
	return true
}

// SocketCredits are the credits by destination.
type SocketCredits struct {
	find func(dst netip.Addr, to ib.QPN) fabric.Backlog
	m    map[Socket]*SocketCredit
}

// Socket identifies a socket: that of a slot of QPNs at an address.
type Socket struct {
	dst  netip.Addr
	slot uint8
}

// SocketOf returns the socket that gets the packets to a queue pair at an address.
func SocketOf(dst netip.Addr, to ib.QPN) Socket { return Socket{dst, uint8(to >> 16)} }

// maxSockets is the maximum number of credits. If a program sends to more sockets, the table forgets
// all of them, and finds them again.
const maxSockets = 1024

// NewSocketCredits returns an empty table. find returns the backlog of the socket that gets the packets
// to a queue pair at an address, nil if it is not on this host.
func NewSocketCredits(find func(dst netip.Addr, to ib.QPN) fabric.Backlog) *SocketCredits {
	return &SocketCredits{find: find, m: make(map[Socket]*SocketCredit)}
}

// Credit returns the credit towards the socket that gets the packets to a queue pair at an address.
func (t *SocketCredits) Credit(dst netip.Addr, to ib.QPN) *SocketCredit {
	k := SocketOf(dst, to)
	c := t.m[k]
	if c == nil {
		if len(t.m) == maxSockets {
			clear(t.m)
		}
		c = &SocketCredit{To: k, backlog: t.find(dst, to), paused: clock.Never}
		t.m[k] = c
	}
	return c
}
