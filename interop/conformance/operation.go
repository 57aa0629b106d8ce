package conformance

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/ends"
)

// operation is one message.
type operation struct {
	opcode ib.WROpcode
	size   uint64
	layout layout
	flags  ib.SendFlags // in addition to SendSignaled
}

func (o operation) name(typ ib.QPType) string {
	n := fmt.Sprintf("%s %s %d", typ, o.opcode, o.size)
	switch o.layout {
	case unaligned:
		n += " unaligned"
	case gathered:
		n += " gathered"
	case aligned:
	}
	if o.flags&ib.SendInline != 0 {
		n += " inline"
	}
	return n
}

func (o operation) reads() bool { return o.opcode == ib.WRRDMARead }

func (o operation) writes() bool {
	return o.opcode == ib.WRRDMAWrite || o.opcode == ib.WRRDMAWriteWithImm
}

func (o operation) sends() bool { return o.opcode == ib.WRSend || o.opcode == ib.WRSendWithImm }

func (o operation) hasImm() bool {
	return o.opcode == ib.WRSendWithImm || o.opcode == ib.WRRDMAWriteWithImm
}

// takesReceive reports whether it consumes a receive of the responder.
func (o operation) takesReceive() bool { return o.sends() || o.writes() && o.hasImm() }

func (o operation) completion() ib.WCOpcode {
	switch {
	case o.reads():
		return ib.WCRDMARead
	case o.writes():
		return ib.WCRDMAWrite
	default:
		return ib.WCSend
	}
}

// imm returns immediate data that identifies its message.
func imm(seed uint64) uint32 { return 0xcafe0000 ^ uint32(seed) }

// run plays the operation and checks it.
func (t *steps) run(typ ib.QPType, o operation) {
	t.seed++
	here, there := o.layout.pieces(o.size, 1), o.layout.pieces(o.size, 2)
	if !o.sends() && len(there) > 1 {
		there = unaligned.pieces(o.size, 2)
	}
	if typ == ib.UD {
		there = aligned.pieces(o.size+grh, 2)
	}
	source, target, from, to := t.local, t.far, here, there
	if o.reads() {
		source, target, from, to = t.far, t.local, there, here
	}
	t.wipe(target, to)
	t.fillPieces(source, from, t.seed)
	t.exchange(typ, o, places{here, there})
	if typ == ib.UD {
		to = aligned.pieces(o.size, 2)
		for i := range to {
			to[i].off += grh
		}
	}
	t.verifyPieces(target, to, t.seed, typ == ib.UD)
}

// grh is the area before a UD message.
const grh = 40

// request is the work request of an operation.
func (s *stand) request(o operation, seed uint64, at places) ends.Send {
	wr := ends.Send{WRID: seed, Opcode: o.opcode, Flags: o.flags | ib.SendSignaled, SGList: sges(s.local, at.here)}
	if s.ud != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ud.AH, s.ud.RemoteQPN, s.ud.RemoteQKey
	}
	if o.hasImm() {
		wr.ImmData = imm(seed)
	}
	if o.reads() || o.writes() {
		wr.RKey, wr.RemoteAddr = s.far.RKey(), s.far.Addr()
		if len(at.there) > 0 {
			wr.RemoteAddr += at.there[0].off
		}
	}
	return wr
}

// places are where the bytes of a message lie at the requester and at the
// responder.
type places struct{ here, there []piece }

// exchange posts the receive, if there is one, and the request, and checks the
// completions of both sides.
func (t *steps) exchange(typ ib.QPType, o operation, at places) {
	wr := t.request(o, t.seed, at)
	receive := ends.Recv{WRID: wr.WRID + 1e6}
	if o.sends() {
		receive.SGList = sges(t.far, at.there)
	}
	marker := typ == ib.UC && o.opcode == ib.WRRDMAWrite // UC does not report its arrival: a SEND after it does
	if o.takesReceive() || marker {
		t.receive(receive)
	}
	wrs := []ends.Send{wr}
	if marker {
		wrs = append(wrs, ends.Send{WRID: wr.WRID + 2e6, Opcode: ib.WRSend})
	}
	t.post(wrs...)
	if o.flags&ib.SendInline != 0 { // inline data may change as soon as it is posted
		t.do(func() error { return t.local.Set(t.ctx, 4096, 1024, 0xee) })
	}
	t.checkSent(o, t.sent(1)[0], wr.WRID)
	if marker {
		t.got(1)
	} else if o.takesReceive() {
		t.checkReceived(typ, o, t.got(1)[0], receive.WRID)
	}
	t.none(t.Responder)
	t.none(t.Requester)
}

func (t *steps) checkSent(o operation, w ib.WC, id uint64) {
	t.expect(w.WRID == id, "the requester's completion is of %#x, not of %#x", w.WRID, id)
	t.expect(w.Opcode == o.completion(), "the requester's completion is of %s, not of %s", w.Opcode, o.completion())
	t.expect(w.QPN == t.req.QPN(), "the requester's completion names the queue pair %s", w.QPN)
	if o.reads() {
		t.expect(uint64(w.ByteLen) == o.size, "the READ's completion says %d bytes", w.ByteLen)
	}
}

func (t *steps) checkReceived(typ ib.QPType, o operation, w ib.WC, id uint64) {
	opcode, n := ib.WCRecv, o.size
	if o.writes() {
		opcode = ib.WCRecvRDMAWithImm
	}
	var flags ib.WCFlags
	if typ == ib.UD {
		n += grh
		flags |= ib.WCGRH
		t.expect(w.SrcQP == t.req.QPN(), "the receive came from the queue pair %s, not %s", w.SrcQP, t.req.QPN())
	} else if !isOurs(t.Responder) {
		w.Flags &^= ib.WCGRH // rxe sets it on connected services too
	}
	if o.hasImm() {
		flags |= ib.WCWithImm
		t.expect(w.ImmData == imm(id-1e6), "the immediate is %#08x, not %#08x", w.ImmData, imm(id-1e6))
	}
	t.expect(w.WRID == id, "the responder's completion is of %#x, not of %#x", w.WRID, id)
	t.expect(w.Opcode == opcode, "the responder's completion is of %s, not of %s", w.Opcode, opcode)
	t.expect(uint64(w.ByteLen) == n, "the responder's completion says %d bytes of %d", w.ByteLen, n)
	t.expect(w.Flags == flags, "the responder's completion has flags %#x, not %#x", w.Flags, flags)
	t.expect(w.QPN == t.resp.QPN(), "the responder's completion names the queue pair %s", w.QPN)
}
