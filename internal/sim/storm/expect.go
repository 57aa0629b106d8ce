package storm

import (
	"math"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// expectation holds the required effects of a step of an adapter, and its
// effects so far.
type expectation struct {
	quiet    string    // reason why no event may occur; empty: it may
	doubt    doubt     // examination of a connection
	knowsNot *side     // side whose peer reports that it does not know the connection
	silent   uint32    // communication ID that must not be answered; 0: none
	givesWay bool      // a connection that waits for its peer may be evicted
	timers   bool      // messages of this step come from timers
	heard    heard     // last event
	dues     []due     // messages that must be sent
	out      []reading // sent MADs, without their bytes
}

// heard is the expected effect of a message at a side. With only an event, an
// effect without a side is expected.
type heard struct {
	side  *side
	event cm.EventType
}

// something is an effect without a side.
var something = heard{event: math.MaxUint8}

// due is a MAD that an adapter must send in this step.
type due struct {
	attr          mad.AttrID
	local, remote uint32 // communication IDs: the receiver's, or, before it is known, the sender's
	why           string
	done          bool // seen
}

// owed maps messages, by the state of the connection, to the manager's own
// answers (C4 to C7): without these answers a lost message would leave the peer
// half open.
var owed = map[place]mad.AttrID{
	{cm.Established, cm.MsgREP}: mad.AttrRTU,
	{cm.MRAReqSent, cm.MsgREQ}:  mad.AttrMRA,
	{cm.MRARepSent, cm.MsgREP}:  mad.AttrMRA,
	{cm.RepSent, cm.MsgREQ}:     mad.AttrREP,
	{cm.Timewait, cm.MsgREQ}:    mad.AttrREJ,
	{cm.Unknown, cm.MsgREQ}:     mad.AttrREJ,
	{cm.Timewait, cm.MsgDREQ}:   mad.AttrDREP,
	{cm.Unknown, cm.MsgDREQ}:    mad.AttrDREP,
	{cm.Unknown, cm.MsgREP}:     mad.AttrREJ,
	{cm.Unknown, cm.MsgRTU}:     mad.AttrREJ,
	{cm.Unknown, cm.MsgSIDRREQ}: mad.AttrSIDRREP,
}

// expect returns the required effect of a MAD; the zero value is none.
func (h *host) expect(r *reading) heard {
	s, c := h.addressee(r)
	if stale := h.staleBy(r, s); stale != nil {
		if h.doubts(stale, r) {
			return something
		}
		stale.supersede()
		h.step.dues = append(h.step.dues, due{attr: mad.AttrREJ, remote: r.local, why: "a stale connection"})
		return something
	}
	switch {
	case s == nil:
	case r.attr == mad.AttrDREQ && s.qpn != 0 && queuePairOf(r) != s.qpn:
		return heard{} // an inquiry: the connection is known
	case r.attr == mad.AttrDREP && s.exam.undecided():
		h.step.knowsNot = s
		return something
	}
	h.step.givesWay = c.in == cm.Listen && h.crowded(r.from)
	h.w.cells.count(c.in, c.lap, c.on)
	attr := owed[c.place]
	switch {
	case c.on == cm.MsgLAP && s != nil && s.hesitated && !s.anotherLAP(r):
		attr = mad.AttrMRA
	case c.place == place{cm.Timewait, cm.MsgRTU} && s.withdrew:
		attr = mad.AttrREJ
	case c.place == place{cm.Timewait, cm.MsgDREQ}:
		s.withdrew = false // its peer knows it, and the DREP is the last message
	}
	if attr != 0 {
		h.step.dues = append(h.step.dues, due{attr: attr, remote: r.local, why: c.on.String()})
		return something
	}
	switch {
	case c.in == cm.Listen || s != nil && !s.alive():
		return something
	case s != nil && s.expectsEvent(c.place, r):
		return heard{s, eventOf[c.on]}
	default:
		return heard{}
	}
}

// eventOf are the events of the messages to an existing connection.
var eventOf = map[cm.Input]cm.EventType{
	cm.MsgMRAREQ: cm.MRAReceived, cm.MsgMRAREP: cm.MRAReceived, cm.MsgMRAOther: cm.MRAReceived, cm.MsgREJ: cm.REJReceived,
	cm.MsgREJStale: cm.REJReceived, cm.MsgREP: cm.REPReceived, cm.MsgRTU: cm.RTUReceived, cm.MsgDREQ: cm.DREQReceived,
	cm.MsgDREP: cm.DREPReceived, cm.MsgLAP: cm.LAPReceived, cm.MsgAPR: cm.APRReceived, cm.MsgSIDRREP: cm.SIDRREPReceived,
}

// expectsEvent reports whether a message to a connection in a state raises an
// event for the program.
func (s *side) expectsEvent(at place, r *reading) bool {
	switch at.on {
	case cm.MsgREP: // unless another connection has that peer
		return s.phase == calling && s.host.byPeer(r.local, r.from) == nil
	case cm.MsgMRAREQ: // once
		return at.in == cm.ReqSent
	case cm.MsgMRAREP:
		return at.in == cm.RepSent
	case cm.MsgMRAOther:
		return s.lap == lapAsked && s.conn.LAPState() == cm.LAPSent
	case cm.MsgLAP:
		return s.phase == up && !s.active && s.anotherLAP(r)
	case cm.MsgAPR:
		return s.lap == lapAsked
	default:
		_, ok := s.phase.after(eventOf[at.on])
		return ok
	}
}

// anotherLAP reports whether a LAP is not the one that the program has to
// answer.
func (s *side) anotherLAP(r *reading) bool {
	var m mad.LAP
	m.Decode(r.mad)
	return s.lap != lapOwed || s.alternate != m.Alternate
}

// settleStep checks that all due messages of this step were sent.
func (h *host) settleStep() {
	e := &h.step
	for i := range e.dues {
		if d := &e.dues[i]; !e.sent(d) {
			h.w.Fail("answer", "adapter %d does not send %v, due because of %s", h.Index, d.attr, d.why)
		}
	}
	e.dues, e.out = e.dues[:0], e.out[:0]
}

// keepSilent checks that a meaningless message got no answer.
func (h *host) keepSilent() {
	e := &h.step
	for i := range e.out {
		if r := &e.out[i]; e.silent != 0 && r.remote == e.silent && !r.asks() {
			h.w.Fail("answer", "adapter %d answers a message that means nothing with %v", h.Index, r.attr)
		}
	}
	e.silent = 0
}

// sent reports whether a message was sent in this step.
func (e *expectation) sent(d *due) bool {
	for i := range e.out {
		r := &e.out[i]
		if r.attr == d.attr && (d.remote != 0 && r.remote == d.remote || (r.remote == 0 || d.remote == 0) && r.local == d.local) {
			return true
		}
	}
	return false
}
