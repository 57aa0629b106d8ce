package cm

import (
	"strings"

	"github.com/softhca/softhca/mad"
)

// Kinds of messages, as the counters of Linux name them, in the order of their
// attribute IDs.
const numKinds = int(mad.AttrAPR-mad.AttrREQ) + 1

// Counters count CM messages: cm_tx_msgs, cm_tx_retries, cm_rx_msgs and
// cm_rx_duplicates of Linux, and what was dropped. Arrays of numKinds are
// indexed by the attribute ID minus that of REQ.
type Counters struct {
	Sent       [numKinds]uint64
	Retries    [numKinds]uint64 // sent again, among Sent
	Received   [numKinds]uint64
	Duplicates [numInputs]uint64 // by input
	Unexpected [numInputs]uint64 // messages that the state does not expect, dropped
	Unmatched  uint64            // messages without a connection, dropped
	Foreign    uint64            // messages for a connection from another address than its peer's, dropped
	Invalid    uint64            // messages whose fields contradict the connection, dropped
	Refused    uint64            // REQ and SIDR_REQ dropped at a limit
	GivenUp    uint64            // half-open and TIMEWAIT connections that were evicted
	Unsent     uint64            // messages dropped because the queue of QP1 was full
	Examined   uint64            // connections examined because a REQ or REP named their QP
	Trusted    uint64            // examinations after which the connection stayed
	Doubted    uint64            // REQs and REPs dropped that named the QP of a connection under examination, or with a live peer
	Withheld   uint64            // messages not sent because the peer has not answered yet
}

// KindName returns the name of a message by its place in Sent, Retries and
// Received, such as "REQ".
func KindName(i int) string { return (mad.AttrREQ + mad.AttrID(i)).String() }

// Each calls f with the name and the value of every counter, in a fixed order.
// The names are those of Linux where it has the counter, such as
// "cm_tx_msgs_req".
func (c *Counters) Each(f func(name string, v uint64)) {
	var duplicates [numKinds]uint64
	unexpected := uint64(0)
	for on := firstMsg; on < firstTimer; on++ {
		duplicates[messageOf[on]-mad.AttrREQ] += c.Duplicates[on]
		unexpected += c.Unexpected[on]
	}
	for _, g := range [...]struct {
		name   string
		counts *[numKinds]uint64
	}{
		{"cm_tx_msgs_", &c.Sent}, {"cm_tx_retries_", &c.Retries},
		{"cm_rx_msgs_", &c.Received}, {"cm_rx_duplicates_", &duplicates},
	} {
		for i, v := range g.counts {
			f(g.name+strings.ToLower(KindName(i)), v)
		}
	}
	f("cm_unexpected", unexpected)
	c.EachSingle(f)
}

// EachSingle is Each for the counters that are no array.
func (c *Counters) EachSingle(f func(name string, v uint64)) {
	f("cm_unmatched", c.Unmatched)
	f("cm_foreign", c.Foreign)
	f("cm_invalid", c.Invalid)
	f("cm_refused", c.Refused)
	f("cm_given_up", c.GivenUp)
	f("cm_unsent", c.Unsent)
	f("cm_withheld", c.Withheld)
	f("cm_examined", c.Examined)
	f("cm_trusted", c.Trusted)
	f("cm_doubted", c.Doubted)
}

// kindOf returns the place of a CM message in the counters.
func kindOf(m *mad.MAD) int {
	return int(m.Header().AttrID-mad.AttrREQ) % numKinds
}
