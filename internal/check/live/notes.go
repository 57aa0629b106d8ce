package live

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/trace"
)

// Refused notes that the adapter has refused an access of a peer. The adapter's thread calls it.
func (c *Checker) Refused(t *trace.Record) {
	if c == nil || !t.Access {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []call
	switch in := c.regions.byKey[ib.LKey(t.Key)]; {
	case in == nil:
	case in.ended != nil:
		calls = []call{{"deregistered here", in.ended}, {"registered here", in.region.made}}
	default:
		calls = []call{{"registered here", in.region.made}}
	}
	if q := c.qps[t.QPN]; q != nil {
		calls = append(calls, call{"queue pair created here", q.made})
	}
	if len(calls) == 0 {
		return // the queue pair is about to end
	}
	c.sink.add(found("peer-access-refused", calls, "queue pair %v refused an access of its peer, queue pair %v of %v: %s", t.QPN, t.Peer, t.Remote, t.Cause))
}

// Changed notes that the payload of the send request with an index was another when the adapter repeated a packet. The
// adapter's thread calls it.
func (c *Checker) Changed(n ib.QPN, index uint32) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.qps[n]
	if q == nil || q.sends == nil {
		return
	}
	for _, r := range q.sends.list {
		if r.index == index {
			r.changed = true
		}
	}
}
