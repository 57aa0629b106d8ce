package gsi

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Receive processes a packet to QP1, which the caller has parsed and whose ICRC
// it has checked; d is its datagram. Neither is retained. It is Admit, Deliver and Refuse in
// one thread.
func (g *Interface) Receive(now clock.Instant, p *roce.Packet, d *fabric.Datagram) {
	r := &g.in
	if !g.Admit(now, p, d, r) {
		return
	}
	if drop, ok := g.Deliver(now, r); !ok {
		g.Refuse(now, r, drop)
	}
}

// Admit checks a packet to QP1 as far as this needs no agent, and counts it. r becomes its MAD,
// which is in the packet's memory.
func (g *Interface) Admit(now clock.Instant, p *roce.Packet, d *fabric.Datagram, r *Received) bool {
	*r = Received{psn: p.BTH.PSN, size: sizeOf(p), From: Address{
		Local: d.Dst, Remote: d.Src, QPN: p.DETH.SrcQP, TClass: d.TClass, FlowLabel: d.FlowLabel,
	}}
	drop, ok := g.admit(p, r)
	if ok {
		g.cfg.Out.Counters.RcvdPkts++
		g.counters.Received++
		g.traceIn(now, p)
		drop, ok = r.take(p)
	}
	if !ok {
		g.Refuse(now, r, drop)
	}
	return ok
}

// Refuse counts a packet that Deliver has dropped.
func (g *Interface) Refuse(now clock.Instant, r *Received, drop counters.Drop) {
	out := g.cfg.Out
	out.Counters.Drops[drop]++
	if out.Trace != nil {
		out.Record(now, ib.QPNGSI, trace.Record{Kind: trace.Drop, PSN: r.psn, Len: r.size, Cause: drop.String()})
	}
}

// admit makes the checks of a queue pair, in its order: service, addresses,
// keys. It stores the entry of the P_Key table to use in an answer: the
// sender's own key may be a limited one, which would not match itself.
func (g *Interface) admit(p *roce.Packet, r *Received) (counters.Drop, bool) {
	from := &r.From
	switch {
	case p.Info.Service != roce.ServiceUD:
		return counters.DropService, false
	case !reachable(from.Remote) || !reachable(from.Local) || from.QPN == 0 || from.QPN == ib.QPNMulticast:
		return counters.DropAddress, false
	}
	for _, k := range g.cfg.PKeys {
		if k.Matches(p.BTH.PKey) {
			from.PKey = k
			break
		}
	}
	switch {
	case from.PKey == 0:
		return counters.DropPKey, false
	case p.DETH.QKey != ib.QKeyGSI:
		return counters.DropQKey, false
	}
	return 0, true
}

// take takes the MAD of a packet.
func (r *Received) take(p *roce.Packet) (counters.Drop, bool) {
	switch {
	case p.BTH.Opcode != roce.UDSendOnly:
		return counters.DropOpcode, false
	case len(p.Payload) != mad.Size:
		return counters.DropLength, false
	}
	r.MAD = (*mad.MAD)(p.Payload)
	return 0, true
}

// Deliver passes a MAD to its request or agent. If none takes it, Deliver returns the reason.
func (g *Interface) Deliver(now clock.Instant, r *Received) (counters.Drop, bool) {
	h := r.MAD.Header()
	switch {
	case h.BaseVersion != mad.BaseVersion:
		return counters.DropMADVersion, false
	case h.Method.IsResponse():
		return g.response(now, r, &h)
	}
	return g.request(now, r, &h)
}

// response ends the request that a MAD answers. A response is never passed to
// an agent's Receive, and never answered.
func (g *Interface) response(now clock.Instant, r *Received, h *mad.Header) (counters.Drop, bool) {
	t := g.waiting.byKey[key{r.From.Remote, h.TID, h.Class}]
	if t == nil || t.answer != h.Method {
		return counters.DropResponse, false
	}
	t.end(now, r, nil)
	return 0, true
}

// request passes an unsolicited MAD to the agent of its class and version, or
// answers it.
func (g *Interface) request(now clock.Instant, r *Received, h *mad.Header) (counters.Drop, bool) {
	a, known := g.find(h.Class, h.ClassVersion)
	switch {
	case a == nil && known:
		return g.refuse(r, h, mad.StatusBadVersion)
	case a == nil:
		return g.refuse(r, h, mad.StatusUnsupportedAttribute)
	case h.Method == mad.MethodGet && h.AttrID == mad.AttrClassPortInfo:
		return g.inform(r, h, a)
	case !a.takes(h.Method):
		return g.refuse(r, h, statusOfMethod(h.Method))
	case a.cfg.Receive(now, r):
		return 0, true
	}
	return g.refuse(r, h, mad.StatusUnsupportedAttribute)
}

func (g *Interface) traceIn(now clock.Instant, p *roce.Packet) {
	if g.cfg.Out.Trace == nil || g.cfg.Out.Rare {
		return
	}
	r := trace.Record{Kind: trace.PacketIn, PSN: p.BTH.PSN, Len: sizeOf(p)}
	n := p.PutHeaders(r.Header[:])
	copy(r.Header[n:], p.Payload) // a MAD's header, and the IDs of a CM message
	g.cfg.Out.Record(now, ib.QPNGSI, r)
}

// sizeOf returns the bytes of the UDP payload of a parsed packet.
func sizeOf(p *roce.Packet) int {
	return int(p.Info.HeaderLen) + len(p.Payload) + int(p.BTH.PadCnt) + roce.ICRCLen
}
