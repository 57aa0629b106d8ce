package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// replyKind is what kind of ACKNOWLEDGE is owed.
type replyKind uint8

const (
	replyNone replyKind = iota
	replyACK
	replyNAK
)

// reply is the one ACKNOWLEDGE that is owed after the READ and atomic
// responses: acknowledgements are cumulative, so the latest is enough, and a
// NAK acknowledges what is before it.
type reply struct {
	kind     replyKind
	syndrome roce.Syndrome
	psn      ib.PSN
}

// ack schedules an acknowledgement and reports whether it replaces an earlier
// one. It never goes back behind one, and never replaces a NAK.
func (r *reply) ack(p ib.PSN) (merged bool) {
	switch {
	case r.kind == replyNAK:
		return true
	case r.kind == replyACK && p.Diff(r.psn) <= 0:
		return true
	}
	merged = r.kind == replyACK
	*r = reply{kind: replyACK, psn: p}
	return merged
}

// nak schedules a NAK in place of whatever was owed.
func (r *reply) nak(s roce.Syndrome, p ib.PSN) { *r = reply{kind: replyNAK, syndrome: s, psn: p} }

// responseQuantum bounds the READ responses of one turn.
const responseQuantum = 64

// sendResponses appends READ and atomic responses in PSN order and then the
// acknowledgement. It reports whether there are more that could go at once.
func (r *responder) sendResponses(now clock.Instant, b *fabric.Batch) (more bool) {
	for n := 0; ; n++ {
		e := r.kept.front()
		if e == nil {
			break
		}
		if n == responseQuantum {
			return true
		}
		if r.ep.pace.rate != 0 && e.kind == roce.KindReadRequest && !r.ep.mayPace(&r.ep.pace, now) {
			return false
		}
		ok := false
		if e.kind == roce.KindReadRequest {
			ok = r.sendReadResponse(b, e)
		} else {
			ok = r.sendAtomicAck(b, e)
		}
		if !ok {
			return true
		}
	}
	if r.reply.kind != replyNone && !r.sendAck(b) {
		return true
	}
	if r.dying.syndrome != 0 && r.reply.kind == replyNone {
		r.die(now)
	}
	return false
}

// syndrome returns the AETH syndrome of a positive answer.
func (r *responder) syndrome() roce.Syndrome {
	n, ok := r.in.from.credits()
	if !ok || !r.ep.env.Settings.Credits {
		return roce.ACKUnlimited
	}
	if r.in.slot.taken {
		n--
	}
	return roce.ACKCredits(ib.CreditCode(n))
}

// sendAck appends the ACKNOWLEDGE that is owed.
func (r *responder) sendAck(b *fabric.Batch) bool {
	p := r.ep.header(roce.RCAcknowledge, r.reply.psn)
	p.AETH = roce.AETH{Syndrome: r.reply.syndrome, MSN: r.msn}
	if r.reply.kind == replyACK {
		p.AETH.Syndrome = r.syndrome()
	}
	if r.ep.appendBare(b) == nil {
		return false
	}
	r.reply = reply{}
	return true
}

// sendAtomicAck appends the answer to an atomic.
func (r *responder) sendAtomicAck(b *fabric.Batch, e *resource) bool {
	p := r.ep.header(roce.RCAtomicAcknowledge, e.first)
	p.AETH = roce.AETH{Syndrome: r.syndrome(), MSN: e.msn}
	p.AtomicAck = e.value
	if r.ep.appendBare(b) == nil {
		return false
	}
	e.pending = false
	return true
}

// sendReadResponse appends the next response packet of a READ. The key is
// checked again for each: if the region has gone, the peer is told (E14).
func (r *responder) sendReadResponse(b *fabric.Batch, e *resource) bool {
	off := e.next.Distance(e.first) * uint32(e.mtu)
	n := min(e.stop-min(off, e.stop), uint32(e.mtu))
	var src []byte
	if n > 0 {
		var err memory.Fault
		src, err = r.ep.env.Mem.Remote(r.ep.pd, e.rkey, e.va+uint64(off), uint64(n), ib.AccessRemoteRead)
		if err != memory.FaultNone {
			e.pending = false
			if !e.replay { // a duplicate is never refused
				r.abandonRead(e, err)
			}
			return true
		}
	}
	// A READ that is answered again from the middle goes on with MIDDLE or
	// LAST, as Linux does; one that ends early ends all the same.
	op := readResponse(e.next == e.first, e.next == e.end)
	p := r.ep.header(op, e.next)
	p.AETH = roce.AETH{Syndrome: r.syndrome(), MSN: e.msn}
	seg, payload, id := r.ep.append(b, &r.ep.path, n)
	if seg == nil {
		return false
	}
	copy(payload, src)
	r.ep.finish(seg, id)
	r.ep.pace.sent(r.ep.env.Now, ipLength(&r.ep.path, seg))
	e.pending = e.next != e.end
	e.next = e.next.Next()
	return true
}

// readResponse returns the opcode of a READ response by its place.
func readResponse(start, end bool) roce.Opcode {
	switch {
	case start && end:
		return roce.RCRDMAReadResponseOnly
	case start:
		return roce.RCRDMAReadResponseFirst
	case end:
		return roce.RCRDMAReadResponseLast
	default:
		return roce.RCRDMAReadResponseMiddle
	}
}

// abandonRead refuses a READ in the middle of its responses.
func (r *responder) abandonRead(e *resource, err memory.Fault) {
	r.refuse(e.next, remoteAccess("rkey: "+err.String()))
	r.kept.clear()
}
