package verbs

import "sync"

// CompChannel is a completion channel: it tells which completion queues have
// new entries, to programs that sleep instead of polling. Several CQs may
// share one.
type CompChannel struct {
	ch   chan *CQ
	most int        // CQs
	mu   sync.Mutex // guards sending to ch, and cqs
	cqs  int
}

// NewCompChannel returns a completion channel that up to so many CQs can share,
// at least one: it takes 16 bytes for each.
func NewCompChannel(cqs int) *CompChannel {
	cqs = max(cqs, 1)
	// With room for twice as many an event always fits: before the channel is
	// full, all that it holds of one CQ is made one.
	return &CompChannel{ch: make(chan *CQ, 2*cqs), most: cqs}
}

// C returns the channel to receive from, alone or in a select: a CQ that was
// armed with ReqNotify arrives once, when it gets a matching completion. Arm
// it again and then poll it until it is empty. A CQ that was armed several
// times before anything was received may arrive as often. When the adapter is
// closed or fails, each of its CQs arrives, and Poll says why. C is never
// closed; it is nil for a nil CompChannel.
func (c *CompChannel) C() <-chan *CQ {
	if c == nil {
		return nil
	}
	return c.ch
}

func (c *CompChannel) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cqs == c.most {
		return false
	}
	c.cqs++
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

// put has a CQ arrive.
func (c *CompChannel) put(q *CQ) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ch) == cap(c.ch) {
		c.compact()
	}
	c.ch <- q
}

// compact leaves one event of each CQ that still exists. Receivers may be
// taking events meanwhile; nobody else adds any.
func (c *CompChannel) compact() {
	seen := make(map[*CQ]bool, c.most)
	for range len(c.ch) {
		select {
		case q := <-c.ch:
			if !seen[q] && !q.obj.Gone() {
				seen[q] = true
				c.ch <- q
			}
		default:
			return
		}
	}
}
