package qp

import (
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/ring"
)

// CQ is a completion queue. The shard's thread adds entries; any goroutine may
// poll.
type CQ struct {
	*ring.CQ
	onEvent func() // called when an armed CQ gets a matching entry; must not block
	time    func() clock.Instant
	users   atomic.Int32
	num     uint32
	track   restrack.Handle[restrack.CQInfo, restrack.CQCounts]
	moderated
	late
}

// CQConfig describes a completion queue to create.
type CQConfig struct {
	Entries uint32
	// Time returns the current time, which entries then hold; nil if they hold none. It is a
	// function because the time of a call into the shard may be earlier than the posting of a
	// request that is completed during the call.
	Time func() clock.Instant
	// OnEvent, if not nil, is called at most once per Arm, from the thread that completes.
	OnEvent func()
	Queues  ring.Allocator // of the memory; zero: that of the adapter
	// Num is the queue's number in Table, the table of the adapter's objects; nil for none.
	Num   uint32
	Table *restrack.Table
}

// NewCQ returns a completion queue for at least c.Entries entries. ENOMEM or EINVAL if
// the allocator fails.
func NewCQ(a ring.Allocator, c CQConfig) (*CQ, error) {
	q, err := ring.NewCQ(a, c.Entries, c.Time != nil)
	if err != nil {
		return nil, err
	}
	n := &CQ{CQ: q, onEvent: c.OnEvent, time: c.Time, num: c.Num}
	n.track = restrack.Add[restrack.CQInfo, restrack.CQCounts](c.Table, restrack.KindCQ, &restrack.CQInfo{Num: c.Num, Depth: q.Cap()})
	counts := &n.track.Counts
	q.Mirror(&counts.Consumed, &counts.Armed, n.track.Shared())
	return n, nil
}

// Number returns the queue's number in the table of objects; 0 on nil.
func (c *CQ) Number() uint32 {
	if c == nil {
		return 0
	}
	return c.num
}

// Free frees the memory of the queue, and its row. No method may be called afterwards.
func (c *CQ) Free() {
	c.Unmirror()
	c.CQ.Free()
	c.track.Free()
}

// Resize changes the number of entries to at least n, as ring.CQ.Resize does. Late entries need
// room, too.
func (c *CQ) Resize(n uint32) error {
	if all := c.Pending() + len(c.held); len(c.held) > 0 && int(ring.CQSize(n)) < all {
		return fmt.Errorf("resize CQ to %d entries: %d wait to be polled: %w", n, all, ib.EINVAL)
	}
	err := c.CQ.Resize(n)
	c.track.Set(&restrack.CQInfo{Num: c.num, Depth: c.Cap()})
	return err
}

// Hold counts a queue that completes here; Release takes it back; Users
// returns the count. A CQ in use is not destroyed. On nil both do nothing.
func (c *CQ) Hold() {
	if c != nil {
		c.users.Add(1)
	}
}

// Release takes one Hold back.
func (c *CQ) Release() {
	if c != nil {
		c.users.Add(-1)
	}
}

// Users returns how many queues complete here.
func (c *CQ) Users() int { return int(c.users.Load()) }
