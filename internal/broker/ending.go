package broker

import (
	"container/list"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// maxAsked bounds the connections of a member whose peers have asked to end them and may
// still wait for the answer; the one that asked first gives way.
const maxAsked = 256

// askedTime is for how long a DREQ that was not answered is remembered after it came last.
// Peers repeat theirs more often.
const askedTime = 30 * time.Second

// ending is what is known of the end of a connection. Members answer a DREQ themselves,
// so nobody tells the broker whether one has; should it die, the peer gets an answer, perhaps a
// second one.
type ending struct {
	asked bool          // the peer has sent a DREQ,
	tid   uint64        // with this transaction ID,
	since clock.Instant // the last one then
	at    *list.Element // in its member's asked
}

// ask notes a DREQ for c.
func (n *ending) ask(now clock.Instant, c *connection, tid uint64) {
	n.end(c)
	n.asked, n.tid, n.since = true, tid, now
	n.enter(c)
}

// enter lines c up, if a DREQ came for it.
func (n *ending) enter(c *connection) {
	if n.asked {
		n.at = c.of.asked.PushBack(c)
	}
}

// end takes c out of the line.
func (n *ending) end(c *connection) {
	if n.at != nil {
		c.of.asked.Remove(n.at)
		n.at = nil
	}
}

// over reports whether the peer has asked, and does not wait any more.
func (n *ending) over(now clock.Instant) bool { return n.asked && now.Sub(n.since) > askedTime }
