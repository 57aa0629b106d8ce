package verbs

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/lock"
)

// CompChannel is a completion channel: it delivers the completion queues that
// have new entries to programs that sleep instead of polling. Several CQs may
// share one.
type CompChannel struct {
	ch   chan *CQ
	most int                          // maximum number of CQs
	mu   lock.Mutex[lock.CompChannel] // guards sending to ch, and cqs
	cqs  int
	dev  atomic.Pointer[device.Device] // of all its CQs; nil if they have several
}

// NewCompChannel returns a completion channel that up to cqs CQs can share, at
// least one. It takes 16 bytes for each.
func NewCompChannel(cqs int) *CompChannel {
	cqs = max(cqs, 1)
	// With twice the room an event always fits: when the channel is full, put
	// merges the events of each CQ into one.
	return &CompChannel{ch: make(chan *CQ, 2*cqs), most: cqs}
}

// C returns the channel to receive from, alone or in a select: a CQ that was
// armed with ReqNotify arrives once, when it gets a matching completion. Arm
// it again and then poll it until it is empty. A CQ that is armed several
// times before the program receives it may arrive that many times. When the
// adapter is closed or fails, each of its CQs arrives, and Poll returns the
// reason. C is never closed; it is nil for a nil CompChannel.
func (c *CompChannel) C() <-chan *CQ {
	if c == nil {
		return nil
	}
	return c.ch
}

// Get returns the next CQ with an event, like receiving from C. It waits until there is one; if
// ctx ends first, it returns the cause. Get wakes sooner than a receive from C: the caller's own
// thread waits for packets. EINVAL for a nil CompChannel.
func (c *CompChannel) Get(ctx context.Context) (*CQ, error) {
	if c == nil {
		return nil, fmt.Errorf("no completion channel: %w", ib.EINVAL)
	}
	var q *CQ
	elsewhere := func() {
		select {
		case q = <-c.ch:
		case <-ctx.Done():
		}
	}
	for {
		select {
		case q = <-c.ch:
		default:
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if d := c.dev.Load(); d != nil {
				d.Sleep(ctx, func() bool { return len(c.ch) > 0 || c.dev.Load() != d }, elsewhere)
			} else {
				elsewhere()
			}
		}
		if q != nil {
			return q, nil
		}
	}
}

func (c *CompChannel) join(d *device.Device) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cqs == c.most {
		return false
	}
	old, now := c.dev.Load(), d
	if c.cqs++; c.cqs > 1 && old != d {
		now = nil // a thread cannot wait at two ports
	}
	if c.dev.Store(now); old != nil && old != now {
		old.Port.Wake() // threads that sleep there for c must sleep elsewhere
	}
	return true
}

func (c *CompChannel) leave() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.cqs--
	c.mu.Unlock()
}

// put sends a CQ to the channel.
func (c *CompChannel) put(q *CQ) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.left.Load() {
		return // the closed or failed adapter has already sent it
	}
	if len(c.ch) == cap(c.ch) {
		c.compact()
	}
	c.ch <- q
}

// compact keeps one event of each CQ that has a place. Receivers may take events meanwhile; no
// other goroutine adds any.
func (c *CompChannel) compact() {
	seen := make(map[*CQ]bool, c.most)
	for range len(c.ch) {
		select {
		case q := <-c.ch:
			if !seen[q] && !q.left.Load() {
				seen[q] = true
				c.ch <- q
			}
		default:
			return
		}
	}
}
