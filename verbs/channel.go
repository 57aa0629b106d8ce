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

// maxChannelCQs bounds the CQs of one channel. The channel holds twice as
// many, so that an event always fits: before it is full, all that it holds of
// one CQ is made one.
const maxChannelCQs = 1024

// NewCompChannel returns a completion channel.
func NewCompChannel() *CompChannel { return NewCompChannelOf(maxChannelCQs) }

// C returns the channel to receive from, alone or in a select: a CQ that was
// armed with ReqNotify arrives once, when it gets a matching completion. Arm
// it again and then poll it until it is empty. A CQ that was armed several
// times before anything was received may arrive as often. C is never closed.
func (c *CompChannel) C() <-chan *CQ { return c.ch }

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

// compact leaves one event of each CQ that still exists. Receivers may be
// taking events meanwhile; nobody else adds any.
func (c *CompChannel) compact() {
	seen := make(map[*CQ]bool, c.most)
	for range len(c.ch) {
		select {
		case q := <-c.ch:
			if !seen[q] && !q.destroyed.Load() {
				seen[q] = true
				c.ch <- q
			}
		default:
			return
		}
	}
}
