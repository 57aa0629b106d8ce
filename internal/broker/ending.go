package broker

import (
	"container/list"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// maxAsked bounds the connections of a member whose peers have sent a DREQ and may still
// wait for the answer; beyond it, the oldest is forgotten.
const maxAsked = 256

// askedTime is how long an unanswered DREQ is remembered after its last repetition. Peers
// repeat theirs more often.
const askedTime = 30 * time.Second

// ending is the known state of the end of a connection. Members answer a DREQ themselves, so
// the broker does not know whether one has; if the member ends, the broker sends an answer,
// perhaps a second one.
type ending struct {
	asked bool          // the peer has sent a DREQ,
	tid   uint64        // with this transaction ID,
	since clock.Instant // received last at this time
	at    *list.Element // in its member's asked
}

// ask records a DREQ for c.
func (n *ending) ask(now clock.Instant, c *connection, tid uint64) {
	n.end(c)
	n.asked, n.tid, n.since = true, tid, now
	n.enter(c)
}

// enter appends c to its member's asked, if a DREQ was received for it.
func (n *ending) enter(c *connection) {
	if n.asked {
		n.at = c.of.asked.PushBack(c)
	}
}

// end removes c from its member's asked.
func (n *ending) end(c *connection) {
	if n.at != nil {
		c.of.asked.Remove(n.at)
		n.at = nil
	}
}

// over reports whether the peer has sent a DREQ and no longer waits for the answer.
func (n *ending) over(now clock.Instant) bool { return n.asked && now.Sub(n.since) > askedTime }
