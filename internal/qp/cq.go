package qp

import (
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/ring"
)

// CQ is a completion queue. The shard's thread adds entries; any goroutine may
// poll.
type CQ struct {
	*ring.CQ
	onEvent func() // called when an armed CQ gets a matching entry; must not block
	users   atomic.Int32
}

// NewCQ returns a completion queue for at least n entries. onEvent, if not
// nil, is called at most once per Arm, from the thread that completes. ENOMEM
// or EINVAL if the allocator fails.
func NewCQ(a ring.Allocator, n uint32, onEvent func()) (*CQ, error) {
	q, err := ring.NewCQ(a, n)
	if err != nil {
		return nil, err
	}
	return &CQ{CQ: q, onEvent: onEvent}, nil
}

// pushResult is the outcome of adding a completion.
type pushResult uint8

const (
	pushed pushResult = iota
	overflowed
	refused // the CQ had failed before
)

// push adds an entry. solicited marks a receive whose packet had SE set.
func (c *CQ) push(wc *ib.WC, solicited bool) pushResult {
	switch {
	case c.Failed():
		return refused
	case !c.Push(wc):
		c.Fail()
		return overflowed
	}
	if c.Fire(solicited || wc.Status != ib.WCSuccess) && c.onEvent != nil {
		c.onEvent()
	}
	return pushed
}

// Hold counts a queue that completes here; Release takes it back; Users
// returns the count. A CQ in use is not destroyed.
func (c *CQ) Hold() { c.users.Add(1) }

// Release takes one Hold back.
func (c *CQ) Release() { c.users.Add(-1) }

// Users returns how many queues complete here.
func (c *CQ) Users() int { return int(c.users.Load()) }
