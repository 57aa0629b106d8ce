package storm

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// reading holds the fields of a MAD that the oracle reads.
type reading struct {
	attr          mad.AttrID
	local, remote uint32 // communication IDs, as the sender sees it
	from          netip.Addr
	mad           *mad.MAD // in the packet
}

// madAt is where the MAD of a packet to QP1 begins.
const madAt = 12 + 8

// read reads a packet; it reports false if the packet contains no CM message.
func read(b []byte) (r reading, ok bool) {
	if len(b) != madAt+mad.Size+roce.ICRCLen || b[5] != 0 || b[6] != 0 || b[7] != byte(ib.QPNGSI) {
		return r, false
	}
	r.mad = (*mad.MAD)(b[madAt:])
	h := r.mad.Header()
	if h.Class != mad.ClassCM || h.Method != mad.MethodSend {
		return r, false
	}
	d := r.mad.Data()
	r.attr, r.local, r.remote = h.AttrID, binary.BigEndian.Uint32(d[0:]), binary.BigEndian.Uint32(d[4:])
	switch r.attr {
	case mad.AttrREQ, mad.AttrSIDRREQ: // the field after the ID is not an ID
		r.remote = 0
	case mad.AttrSIDRREP:
		r.local, r.remote = 0, r.local
	}
	return r, true
}

// note records the fate of a packet.
func (w *world) note(h *host, what string, b []byte) {
	if !w.Telling() {
		return
	}
	r, ok := read(b)
	if !ok {
		psn := ib.NewPSN(uint32(b[9])<<16 | uint32(b[10])<<8 | uint32(b[11]))
		w.Say(h.Index, "%s: %v psn %v to qp %v, %d bytes", what, roce.Opcode(b[0]), psn, ib.QPN(uint32(b[5])<<16|uint32(b[6])<<8|uint32(b[7])), len(b))
		return
	}
	why := ""
	if r.attr == mad.AttrREJ {
		why = fmt.Sprintf(", %v", mad.RejReason(binary.BigEndian.Uint16(r.mad.Data()[10:])))
	}
	w.Say(h.Index, "%s: %v %08x %08x%s", what, r.attr, r.local, r.remote, why)
}

// asks reports whether a message is repeated until it is answered.
func (r *reading) asks() bool {
	switch r.attr {
	case mad.AttrREQ, mad.AttrREP, mad.AttrDREQ, mad.AttrLAP, mad.AttrSIDRREQ:
		return true
	default:
		return false
	}
}

// repeats is an unanswered message of a manager.
type repeats struct {
	first mad.MAD
	count int
	last  clock.Instant
	until clock.Instant // end of the wait that the peer's MRA requested
}

// sniff checks a MAD that an adapter sends: a repetition is identical, on time,
// and not too often (C3, C6).
func (w *world) sniff(h *host, seg []byte) {
	r, ok := read(seg)
	if !ok {
		return
	}
	h.step.out = append(h.step.out, reading{attr: r.attr, local: r.local, remote: r.remote})
	s := h.ids[r.local]
	if s == nil || s.inquires(&r) {
		return
	}
	s.spend(&r)
	if !r.asks() {
		return
	}
	if h.step.timers {
		s.cell(cm.TimerRetransmit)
	}
	p := &s.repeats
	if p.first == *r.mad && h.step.answers(&r) {
		return
	}
	due := s.again()
	switch {
	case p.count == 0:
		p.first = *r.mad
	case p.first != *r.mad:
		w.Fail("repetition", "adapter %d: %s sends another %v than before", h.Index, s, r.attr)
	case p.count > int(s.retries):
		w.Fail("repetition", "adapter %d: %s repeats %v more than %d times", h.Index, s, r.attr, s.retries)
	case w.Now != due:
		w.Fail("repetition", "adapter %d: %s repeats %v at %d, which is due at %d", h.Index, s, r.attr, w.Now, due)
	default:
		w.Mark("MADs repeated")
	}
	p.count++
	p.last = w.Now
}

// again returns when the manager repeats an unanswered message.
func (s *side) again() clock.Instant {
	p := &s.repeats
	if p.until > p.last {
		return p.until
	}
	return p.last.Add(s.interval)
}

// addressee returns the destination of a MAD by the rules of the protocol: the
// side, if any, and the cell there.
func (h *host) addressee(r *reading) (*side, cell) {
	s, on := h.find(r)
	if s != nil {
		return s, cell{place{s.conn.State(), on}, s.conn.LAPState()}
	}
	in := cm.Unknown
	if on == cm.MsgREQ || on == cm.MsgSIDRREQ {
		if h.services[serviceOf(r)] != nil {
			in = cm.Listen
		}
	}
	return nil, cell{place: place{in, on}}
}

func serviceOf(r *reading) mad.ServiceID {
	return mad.ServiceID(binary.BigEndian.Uint64(r.mad.Data()[8:]))
}

// find returns the destination side of a MAD, nil for none, and its input.
func (h *host) find(r *reading) (*side, cm.Input) {
	s := h.ids[r.remote]
	if s != nil && s.peerAddr != r.from {
		s = nil
	}
	if s != nil && r.attr != mad.AttrSIDRREP && s.conn.RemoteID() != 0 && s.conn.RemoteID() != r.local {
		s = nil // until the peer's ID is known, any matches
	}
	switch r.attr {
	case mad.AttrREQ:
		return h.byPeer(r.local, r.from), cm.MsgREQ
	case mad.AttrSIDRREQ:
		return h.bySIDR(r.local, r.from), cm.MsgSIDRREQ
	case mad.AttrREJ:
		return h.findREJ(r, s)
	case mad.AttrMRA:
		var m mad.MRA
		m.Decode(r.mad)
		return s, [...]cm.Input{cm.MsgMRAREQ, cm.MsgMRAREP, cm.MsgMRAOther}[m.Message]
	}
	return s, inputOf[r.attr]
}

// inputOf maps messages with one input to that input.
var inputOf = map[mad.AttrID]cm.Input{
	mad.AttrREP: cm.MsgREP, mad.AttrRTU: cm.MsgRTU, mad.AttrDREQ: cm.MsgDREQ, mad.AttrDREP: cm.MsgDREP,
	mad.AttrLAP: cm.MsgLAP, mad.AttrAPR: cm.MsgAPR, mad.AttrSIDRREP: cm.MsgSIDRREP,
}

// findREJ returns the destination of a REJ. A sender that knows only its own ID
// names that, and a REJ of an accepted REQ is a late one.
func (h *host) findREJ(r *reading, s *side) (*side, cm.Input) {
	var j mad.REJ
	j.Decode(r.mad)
	on := cm.MsgREJ
	if j.Reason == mad.RejStaleConnection {
		on = cm.MsgREJStale
	}
	switch {
	case j.Reason == mad.RejTimeout && r.remote == 0:
		return h.byPeer(r.local, r.from), on
	case j.Message == mad.WhichREQ && s != nil && s.conn.RemoteID() != 0:
		return nil, on
	}
	return s, on
}

// byPeer returns the side whose peer has an ID.
func (h *host) byPeer(id uint32, from netip.Addr) *side {
	for _, s := range h.sides {
		if s.kind != datagrams && s.conn.RemoteID() == id && s.peerAddr == from && s.conn.State() != cm.Idle {
			return s
		}
	}
	return nil
}

// bySIDR returns the server's side of an unanswered resolution.
func (h *host) bySIDR(id uint32, from netip.Addr) *side {
	for _, s := range h.sides {
		if s.conn.State() == cm.SIDRReqRcvd && s.conn.RemoteID() == id && s.peerAddr == from {
			return s
		}
	}
	return nil
}

// staleBy returns the connection that the peer has forgotten according to a REQ
// or REP, which names its queue pair for another connection (C7); a REQ without
// a listener does not count. s is the side of the message.
func (h *host) staleBy(r *reading, s *side) *side {
	var n ib.QPN
	switch {
	case r.attr == mad.AttrREQ && s == nil && h.services[serviceOf(r)] != nil:
		n = ib.QPN(binary.BigEndian.Uint32(r.mad.Data()[32:]) >> 8)
	case r.attr == mad.AttrREP && s != nil && s.phase == calling && h.byPeer(r.local, r.from) == nil:
		n = ib.QPN(binary.BigEndian.Uint32(r.mad.Data()[12:]) >> 8)
	default:
		return nil
	}
	for _, o := range h.sides {
		if o != s && o.usesQP(n, r.from) {
			return o
		}
	}
	return nil
}

// supersede models a connection that the peer has forgotten: the manager ends
// an established one by itself.
func (s *side) supersede() {
	s.host.w.Mark("superseded")
	if s.phase == up && s.alive() {
		s.sock.stop()
		s.enter(leaving)
	}
}

// crowded reports whether the manager is at its limit of connections, of
// half-open ones, or of half-open ones of an address: then another one may be
// refused, or evict one with a silent peer or in TIMEWAIT.
func (h *host) crowded(from netip.Addr) bool {
	m, l := h.HCA.CM(), &h.w.plan.limits
	if *l == (cm.Limits{}) {
		return false
	}
	half := 0
	for _, s := range h.sides {
		if s.peerAddr == from && s.halfOpen(s.conn.State()) {
			half++
		}
	}
	return m.Conns() >= l.MaxConns || m.HalfOpen() >= l.MaxHalfOpen || half >= max(l.MaxHalfOpen*3/4, 1)
}
