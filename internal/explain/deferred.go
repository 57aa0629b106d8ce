package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
)

// maxDeferred is the maximum number of deferred RD messages per side.
const maxDeferred = 64

// deferred holds the RD messages that were put off after RNR NAKs: at most one per queue
// pair, because a queue pair sends its messages in order.
type deferred struct{ list []deferral }

// deferral is a message that was put off.
type deferral struct {
	from  ib.QPN // the queue pair that sends it
	naks  int
	timer time.Duration // of the last RNR NAK
	in    instant       // of the RESYNC that put it off last
	waits bool          // it was not sent again since
	what  string
}

// put records a message that was put off.
func (d *deferred) put(o *op, timer time.Duration, now instant) {
	i := slices.IndexFunc(d.list, func(m deferral) bool { return m.from == o.src })
	if i < 0 {
		if len(d.list) >= maxDeferred {
			return
		}
		i = len(d.list)
		d.list = append(d.list, deferral{from: o.src})
	}
	m := &d.list[i]
	m.naks, m.timer, m.in, m.waits, m.what = m.naks+1, timer, now, true, o.String()
}

// begins records that a queue pair sends a message: its deferred message, if it has one.
func (d *deferred) begins(from ib.QPN) {
	for i := range d.list {
		if d.list[i].from == from {
			d.list[i].waits = false
		}
	}
}

// ends forgets the deferred message of a queue pair, which was executed or refused.
func (d *deferred) ends(from ib.QPN) {
	d.list = slices.DeleteFunc(d.list, func(m deferral) bool { return m.from == from })
}

// waiting returns the first message that was put off and not sent again, or nil.
func (d *deferred) waiting() *deferral {
	i := slices.IndexFunc(d.list, func(m deferral) bool { return m.waits })
	if i < 0 {
		return nil
	}
	return &d.list[i]
}

// outcome returns the finding for a message that was not sent again. The requester got
// each RNR NAK, because it put the message off each time.
func (m *deferral) outcome() (id ruleID, in instant, detail string) {
	id = rnrUnresolved
	if m.naks > maxHeeded+1 {
		id = rnrWaits
	}
	return id, m.in, fmt.Sprintf("%s, from QP %v; %s with a timer of %v", m.what, m.from, count(m.naks, "RNR NAK"), m.timer)
}
