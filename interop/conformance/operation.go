package conformance

import (
	"context"
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
func (s *stand) run(ctx context.Context, typ ib.QPType, o operation) (Result, error) {
	j := &judge{}
	s.seed++
	seed := s.seed
	here, there := o.layout.pieces(o.size, 1), o.layout.pieces(o.size, 2)
	if !o.sends() && len(there) > 1 {
		there = unaligned.pieces(o.size, 2)
	}
	if typ == ib.UD {
		there = aligned.pieces(o.size+grh, 2)
	}
	source, target, from, to := s.local, s.far, here, there
	if o.reads() {
		source, target, from, to = s.far, s.local, there, here
	}
	if err := wipe(ctx, target, to); err != nil {
		return Result{}, err
	}
	if err := fill(ctx, source, from, seed); err != nil {
		return Result{}, err
	}
	if err := s.exchange(ctx, j, typ, o, places{here, there}); err != nil {
		return Result{}, err
	}
	if typ == ib.UD {
		to = []piece{{to[0].off + grh, o.size}}
		if o.size == 0 {
			to = nil
		}
		return s.verdict(j, o.name(typ), verifyDatagram(ctx, j, target, to, seed)), nil
	}
	return s.verdict(j, o.name(typ), verify(ctx, j, target, to, seed)), nil
}

func (s *stand) verdict(j *judge, name string, err error) Result {
	return s.evidence(j.result(name, err))
}

// grh is the area before a UD message.
const grh = 40

func verifyDatagram(ctx context.Context, j *judge, m ends.Memory, ps []piece, seed uint64) error {
	for _, p := range ps {
		mm, err := m.Verify(ctx, span(p, seed))
		if err != nil {
			return err
		}
		j.expect(mm.Bytes == 0, "%d bytes of the message are wrong, the first at %d: %#02x instead of %#02x", mm.Bytes, mm.First, mm.Got, mm.Want)
		behind, err := m.VerifySet(ctx, p.off+p.n, margin, blank)
		if err != nil {
			return err
		}
		j.expect(behind.Bytes == 0, "%d bytes behind the message were written", behind.Bytes)
	}
	return nil
}

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
func (s *stand) exchange(ctx context.Context, j *judge, typ ib.QPType, o operation, at places) error {
	wr := s.request(o, s.seed, at)
	receive := ends.Recv{WRID: wr.WRID + 1e6}
	if o.sends() {
		receive.SGList = sges(s.far, at.there)
	}
	marker := typ == ib.UC && o.opcode == ib.WRRDMAWrite // UC does not report its arrival: a SEND after it does
	if o.takesReceive() || marker {
		if err := s.resp.PostRecv(ctx, receive); err != nil {
			return fmt.Errorf("post the receive at %s: %w", s.Responder.Name(), err)
		}
	}
	wrs := []ends.Send{wr}
	if marker {
		wrs = append(wrs, ends.Send{WRID: wr.WRID + 2e6, Opcode: ib.WRSend})
	}
	if err := s.req.PostSend(ctx, wrs...); err != nil {
		return fmt.Errorf("post at %s: %w", s.Requester.Name(), err)
	}
	if o.flags&ib.SendInline != 0 { // inline data may change as soon as it is posted
		if err := s.local.Set(ctx, 4096, 1024, 0xee); err != nil {
			return err
		}
	}
	sent, err := succeeded(ctx, j, s.Requester, 1)
	if err != nil {
		return err
	}
	if len(sent) == 1 {
		s.checkSent(j, o, sent[0], wr.WRID)
	}
	if o.takesReceive() || marker {
		got, err := succeeded(ctx, j, s.Responder, 1)
		if err != nil {
			return err
		}
		if len(got) == 1 && !marker {
			s.checkReceived(j, typ, o, got[0], receive.WRID)
		}
	}
	if err := none(ctx, j, s.Responder); err != nil {
		return err
	}
	return none(ctx, j, s.Requester)
}

func (s *stand) checkSent(j *judge, o operation, w ib.WC, id uint64) {
	j.expect(w.WRID == id, "the requester's completion is of %#x, not of %#x", w.WRID, id)
	j.expect(w.Opcode == o.completion(), "the requester's completion is of %s, not of %s", w.Opcode, o.completion())
	j.expect(w.QPN == s.req.QPN(), "the requester's completion names the queue pair %s", w.QPN)
	if o.reads() {
		j.expect(uint64(w.ByteLen) == o.size, "the READ's completion says %d bytes", w.ByteLen)
	}
}

func (s *stand) checkReceived(j *judge, typ ib.QPType, o operation, w ib.WC, id uint64) {
	opcode, n := ib.WCRecv, o.size
	if o.writes() {
		opcode = ib.WCRecvRDMAWithImm
	}
	var flags ib.WCFlags
	if typ == ib.UD {
		n += grh
		flags |= ib.WCGRH
		j.expect(w.SrcQP == s.req.QPN(), "the receive came from the queue pair %s, not %s", w.SrcQP, s.req.QPN())
	} else if !isOurs(s.Responder) {
		w.Flags &^= ib.WCGRH // rxe sets it on connected services too
	}
	if o.hasImm() {
		flags |= ib.WCWithImm
		j.expect(w.ImmData == imm(id-1e6), "the immediate is %#08x, not %#08x", w.ImmData, imm(id-1e6))
	}
	j.expect(w.WRID == id, "the responder's completion is of %#x, not of %#x", w.WRID, id)
	j.expect(w.Opcode == opcode, "the responder's completion is of %s, not of %s", w.Opcode, opcode)
	j.expect(uint64(w.ByteLen) == n, "the responder's completion says %d bytes of %d", w.ByteLen, n)
	j.expect(w.Flags == flags, "the responder's completion has flags %#x, not %#x", w.Flags, flags)
	j.expect(w.QPN == s.resp.QPN(), "the responder's completion names the queue pair %s", w.QPN)
}
