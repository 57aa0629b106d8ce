package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
)

// maxDeferred is how many queue pairs of RD with a message that was put off are remembered
// for each side.
const maxDeferred = 64

// deferred is the messages of RD that were put off after RNR NAKs: one of each queue pair,
// as a queue pair sends its messages in order.
type deferred struct{ list []deferral }

// deferral is a message that was put off.
type deferral struct {
	from  ib.QPN // the queue pair that sends it
	naks  int
	timer time.Duration // of the last RNR NAK
	in    instant       // of the RESYNC that put it off last
	waits bool          // it has not come again since
	what  string
}

// put notes that a message was put off.
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

// begins notes that a queue pair sends a message: its deferred message, if it has one.
func (d *deferred) begins(from ib.QPN) {
	for i := range d.list {
		if d.list[i].from == from {
			d.list[i].waits = false
		}
	}
}

// ends notes that a message of a queue pair was executed or refused.
func (d *deferred) ends(from ib.QPN) {
	d.list = slices.DeleteFunc(d.list, func(m deferral) bool { return m.from == from })
}

// waiting returns the first message that was put off and has not come again, or nil.
func (d *deferred) waiting() *deferral {
	i := slices.IndexFunc(d.list, func(m deferral) bool { return m.waits })
	if i < 0 {
		return nil
	}
	return &d.list[i]
}

// outcome returns what became of a message that has not come again. The requester heeds
// each RNR NAK, as it puts the message off because of it.
func (m *deferral) outcome() (id ruleID, in instant, detail string) {
	id = rnrUnresolved
	if m.naks > maxHeeded+1 {
		id = rnrWaits
	}
	return id, m.in, fmt.Sprintf("%s, from QP %v; %s with a timer of %v", m.what, m.from, count(m.naks, "RNR NAK"), m.timer)
}
