package qp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/ring"
)

// CQ is a completion queue. Any number of QPs push to it and any goroutine
// polls it.
type CQ struct {
	pending atomic.Uint32 // entries to poll; lets an empty poll go without the lock
	onEvent func()        // called when an armed CQ gets a matching entry; must not block

	mu     sync.Mutex // guards what follows
	buf    []ib.WC    // a power of two; all of it may be waiting
	head   uint32     // next to poll
	tail   uint32     // next to push
	armed  armState
	failed bool
	users  int // queues of QPs that complete here
}

// armState says which completion raises the next event.
type armState uint8

const (
	armNone armState = iota
	armSolicited
	armAny
)

// NewCQ returns a completion queue for at least n entries. onEvent, if not
// nil, is called at most once per Arm, from the thread that completes.
func NewCQ(n uint32, onEvent func()) *CQ {
	return &CQ{buf: make([]ib.WC, ring.Size(n)), onEvent: onEvent}
}

// Cap returns how many entries may wait.
func (c *CQ) Cap() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint32(len(c.buf))
}

// Pending returns how many entries wait. It does not take the lock.
func (c *CQ) Pending() int { return int(c.pending.Load()) }

// Poll moves up to len(out) of the oldest entries to out and returns how many.
// It does not block and does not allocate.
func (c *CQ) Poll(out []ib.WC) int {
	if c.pending.Load() == 0 {
		return 0
	}
	c.mu.Lock()
	n := min(int(c.tail-c.head), len(out))
	mask := uint32(len(c.buf) - 1)
	for i := range n {
		out[i] = c.buf[(c.head+uint32(i))&mask]
	}
	c.head += uint32(n)
	c.pending.Store(c.tail - c.head)
	c.mu.Unlock()
	return n
}

// Arm asks for one event when the next entry is added: any entry, or only a
// solicited or unsuccessful one. Entries that wait already raise none: poll
// after arming. Arming for any entry stays in force over a later solicited
// one.
func (c *CQ) Arm(solicitedOnly bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !solicitedOnly:
		c.armed = armAny
	case c.armed == armNone:
		c.armed = armSolicited
	}
}

// Failed reports whether the CQ overflowed (E18). It stays pollable, but takes
// no more entries.
func (c *CQ) Failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Resize changes the number of entries to at least n; waiting entries stay.
// It fails with EINVAL when they would not fit.
func (c *CQ) Resize(n uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.tail - c.head
	size := ring.Size(n)
	if size < waiting {
		return fmt.Errorf("resize CQ to %d entries: %d wait to be polled: %w", n, waiting, ib.EINVAL)
	}
	buf := make([]ib.WC, size)
	for i := range waiting {
		buf[i] = c.buf[(c.head+i)&uint32(len(c.buf)-1)]
	}
	c.buf = buf
	c.head, c.tail = 0, waiting
	return nil
}

// pushResult says what became of a completion.
type pushResult uint8

const (
	pushed pushResult = iota
	overflowed
	refused // the CQ had failed before
)

// push adds an entry. solicited marks a receive whose packet had SE set.
func (c *CQ) push(wc *ib.WC, solicited bool) pushResult {
	c.mu.Lock()
	if c.failed || c.tail-c.head == uint32(len(c.buf)) {
		r := overflowed
		if c.failed {
			r = refused
		}
		c.failed = true
		c.mu.Unlock()
		return r
	}
	c.buf[c.tail&uint32(len(c.buf)-1)] = *wc
	c.tail++
	c.pending.Store(c.tail - c.head)
	fire := c.armed == armAny || c.armed == armSolicited && (solicited || wc.Status != ib.WCSuccess)
	if fire {
		c.armed = armNone
	}
	c.mu.Unlock()
	if fire && c.onEvent != nil {
		c.onEvent()
	}
	return pushed
}

// remove takes the waiting entries of a QP out (Q5).
func (c *CQ) remove(n ib.QPN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mask := uint32(len(c.buf) - 1)
	to := c.head
	for i := c.head; i != c.tail; i++ {
		if wc := c.buf[i&mask]; wc.QPN != n {
			c.buf[to&mask] = wc
			to++
		}
	}
	c.tail = to
	c.pending.Store(c.tail - c.head)
}

// Hold counts a queue that completes here; Release takes it back; Users
// returns the count. A CQ in use is not destroyed.
func (c *CQ) Hold() { c.addUsers(1) }

// Release takes one Hold back.
func (c *CQ) Release() { c.addUsers(-1) }

func (c *CQ) addUsers(n int) {
	c.mu.Lock()
	c.users += n
	c.mu.Unlock()
}

// Users returns how many queues complete here.
func (c *CQ) Users() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users
}
