package conformance

import (
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/roce"
)

// The range of a window in the responder's region, and IDs of requests about windows.
const (
	windowAt  = 12288 + 24
	windowLen = 8192 + 16

	bindID, localInvID = 0xb12d, 0x11f
)

const readWrite = ib.AccessRemoteRead | ib.AccessRemoteWrite

// windows are the cases with memory windows of the responder.
func windows() []sequence {
	return []sequence{
		{name: "RC window of type 1, bound again", typ: ib.RC, run: boundAgain},
		{name: "RC window of type 1, unbound", typ: ib.RC, run: ended1(func(t *steps, mw ends.MW) { t.bind1(ends.Bind{MW: mw, Memory: t.far}, ok) })},
		{name: "RC window of type 1, deallocated", typ: ib.RC, run: ended1(dealloc)},
		{name: "RC window of type 1, two queue pairs", typ: ib.RC, run: sharedWindow},
		{name: "RC window of type 2, SEND_WITH_INV", typ: ib.RC, run: invalidatedByPeer},
		{name: "RC window of type 2, LOCAL_INV", typ: ib.RC, run: ended2(func(t *steps, _ ends.MW, key ib.RKey) { t.localInv(key) })},
		{name: "RC window of type 2, deallocated", typ: ib.RC, run: ended2(func(t *steps, mw ends.MW, _ ib.RKey) { dealloc(t, mw) })},
		{name: "RC window of type 2, another queue pair", typ: ib.RC, run: foreignWindow},
		{name: "RC window of type 2, zero-based", typ: ib.RC, run: zeroBased},
		{name: "RC window of type 2, WRITE over its end", typ: ib.RC, run: beyondWindow},
		{name: "RC window of type 2, WRITE without the right", typ: ib.RC, run: readOnly},
		{name: "RC window of type 2, bound beyond the region", typ: ib.RC, run: boundBeyond},
		{name: "RC window of type 2, bound twice", typ: ib.RC, run: boundTwice},
	}
}

func (t *steps) window(typ ib.MWType) ends.MW {
	return take(t, func() (ends.MW, error) { return t.Responder.AllocMW(t.ctx, typ) })
}

// whole returns a bind of a window to the range windowAt, windowLen.
func (t *steps) whole(mw ends.MW, access ib.Access) ends.Bind {
	return ends.Bind{MW: mw, Memory: t.far, Off: windowAt, Len: windowLen, Access: access}
}

// bind1 binds a window of type 1.
func (t *steps) bind1(b ends.Bind, want ib.WCStatus) {
	t.do(func() error { return t.resp.BindMW(t.ctx, bindID, ib.SendSignaled, b) })
	t.bound(want)
}

// bind2 binds a window of type 2 with a key.
func (t *steps) bind2(b ends.Bind, key ib.RKey, want ib.WCStatus) {
	t.do(func() error {
		return t.resp.PostSend(t.ctx, ends.Send{WRID: bindID, Opcode: ib.WRBindMW, Flags: ib.SendSignaled, RKey: key, Bind: &b})
	})
	t.bound(want)
}

// bound checks the completion of a bind.
func (t *steps) bound(want ib.WCStatus) {
	wcs := t.poll(t.Responder, 1, caseTime)
	if want == ib.WCMWBindErr && !isOurs(t.Responder) && slices.Equal(statuses(wcs), []ib.WCStatus{flushed}) {
		t.isKnown("rxe of 6.12 ends the queue pair first, and then completes a bind that failed with WR_FLUSH_ERR; that of 6.1 completes it with MW_BIND_ERR")
		return
	}
	t.expect(len(wcs) == 1 && wcs[0].WRID == bindID && wcs[0].Status == want && (want != ok || wcs[0].Opcode == ib.WCBindMW), "the bind completed as %+v, not with %s", wcs, want)
}

// newWindow returns a window of type 2 that is bound to this range, and its key.
func (t *steps) newWindow(access ib.Access) (mw ends.MW, key ib.RKey) {
	if mw = t.window(ib.MWType2); t.err == nil {
		key = mw.RKey().Inc()
		t.bind2(t.whole(mw, access), key, ok)
	}
	return mw, key
}

func (t *steps) localInv(key ib.RKey) {
	t.do(func() error {
		return t.resp.PostSend(t.ctx, ends.Send{WRID: localInvID, Opcode: ib.WRLocalInv, Flags: ib.SendSignaled, InvRKey: key})
	})
	w := t.got(1)[0]
	t.expect(w.WRID == localInvID && w.Opcode == ib.WCLocalInv, "LOCAL_INV completed as %s of %#x", w.Opcode, w.WRID)
}

func dealloc(t *steps, mw ends.MW) { t.do(func() error { return mw.Dealloc(t.ctx) }) }

// through writes three packets to the end of a window's range, with the window's key, and reads them
// back. For the requester, the window begins at the address at.
func (t *steps) through(qp ends.QP, at uint64, key ib.RKey) {
	t.seed++
	n := min(3*uint32(t.MTU.Bytes()), windowLen)
	off := uint64(windowLen - n)
	written := testagent.Span{Len: uint64(n), Seed: t.seed}
	t.fill(t.local, written)
	t.do(func() error { return t.far.Set(t.ctx, windowAt-margin, windowLen+2*margin, blank) })
	t.do(func() error {
		return qp.PostSend(t.ctx,
			ends.Send{WRID: 1, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: part(t.local, 0, n), RemoteAddr: at + off, RKey: key},
			ends.Send{WRID: 2, Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: part(t.local, fetched, n), RemoteAddr: at + off, RKey: key})
	})
	t.sent(2)
	written.Off = windowAt + off
	t.verify(t.far, written, "through the window")
	written.Off = fetched
	t.verify(t.local, written, "read through the window")
	t.blank(t.far, windowAt-margin, 0)
	t.blank(t.far, windowAt+windowLen, 0)
	t.guards(t.far)
}

// usable uses a window that is not zero-based.
func (t *steps) usable(key ib.RKey) { t.through(t.req, t.far.Addr()+windowAt, key) }

// attempt writes 100 bytes over blanks, with a key, and returns the status.
func (t *steps) attempt(qp ends.QP, off uint64, key ib.RKey) []ib.WCStatus {
	t.do(func() error { return t.far.Set(t.ctx, off, 100+margin, blank) })
	t.do(func() error {
		return qp.PostSend(t.ctx, ends.Send{WRID: 3, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: part(t.local, 0, 100), RemoteAddr: t.far.Addr() + off, RKey: key})
	})
	return statuses(t.poll(t.Requester, 1, caseTime))
}

// refused checks that a WRITE with a key is refused and writes nothing.
func (t *steps) refused(qp ends.QP, off uint64, key ib.RKey) {
	t.checkRefused(off, t.attempt(qp, off, key))
}

func (t *steps) checkRefused(off uint64, got []ib.WCStatus) {
	t.expect(slices.Equal(got, []ib.WCStatus{ib.WCRemAccessErr}), "a WRITE that the window does not allow completed with %v", got)
	naks := t.wire()
	t.expect(len(naks) == 1 && naks[0].Syndrome == roce.NAKRemoteAccess, "the NAKs are %v, not one remote access error", naks)
	t.blank(t.far, off, 0)
}

// boundAgain binds a window twice: the second bind ends the first key.
func boundAgain(t *steps) {
	mw := t.window(ib.MWType1)
	if t.err != nil {
		return
	}
	t.bind1(t.whole(mw, readWrite), ok)
	old := mw.RKey()
	t.usable(old)
	t.bind1(t.whole(mw, readWrite), ok)
	t.expect(mw.RKey() != old, "the second bind left the key %#x", uint32(old))
	t.usable(mw.RKey())
	t.refused(t.req, windowAt, old)
}

// ended1 uses a window of type 1, ends its key, and uses the key again.
func ended1(end func(t *steps, mw ends.MW)) func(*steps) {
	return func(t *steps) {
		mw := t.window(ib.MWType1)
		if t.err != nil {
			return
		}
		t.bind1(t.whole(mw, readWrite), ok)
		key := mw.RKey()
		t.usable(key)
		end(t, mw)
		t.refused(t.req, windowAt, key)
	}
}

// ended2 is ended1 for a window of type 2.
func ended2(end func(t *steps, mw ends.MW, key ib.RKey)) func(*steps) {
	return func(t *steps) {
		mw, key := t.newWindow(readWrite)
		t.usable(key)
		end(t, mw, key)
		t.refused(t.req, windowAt, key)
	}
}

// secondPair connects two more queue pairs, and returns the requester's.
func (t *steps) secondPair() ends.QP {
	create := func(e ends.End) ends.QP {
		return take(t, func() (ends.QP, error) { return e.CreateQP(t.ctx, ends.QPConfig{Type: ib.RC, Cap: queueSizes}) })
	}
	req, resp := create(t.Requester), create(t.Responder)
	t.do(func() error {
		return ends.Connect(t.ctx, ends.Side{End: t.Requester, QP: req}, ends.Side{End: t.Responder, QP: resp}, ib.RC, ends.Defaults(t.MTU))
	})
	return req
}

// sharedWindow uses a window of type 1 on both queue pairs of the protection domain, to which it
// belongs.
func sharedWindow(t *steps) {
	other, mw := t.secondPair(), t.window(ib.MWType1)
	if t.err != nil {
		return
	}
	t.bind1(t.whole(mw, readWrite), ok)
	t.usable(mw.RKey())
	t.through(other, t.far.Addr()+windowAt, mw.RKey())
}

// foreignWindow uses a window of type 2 on a queue pair on which it was not bound.
func foreignWindow(t *steps) {
	other := t.secondPair()
	_, key := t.newWindow(readWrite)
	t.refused(other, windowAt, key)
	t.usable(key)
}

// invalidatedByPeer invalidates a window by a SEND, binds it with another key, and uses the old key.
func invalidatedByPeer(t *steps) {
	mw, key := t.newWindow(readWrite)
	t.usable(key)
	t.receive(ends.Recv{WRID: 5, SGList: part(t.far, 0, 64)})
	t.post(ends.Send{WRID: 2, Opcode: ib.WRSendWithInv, Flags: ib.SendSignaled, SGList: part(t.local, 100, 33), InvRKey: key})
	t.sent(1)
	t.checkInvalidated(t.got(1)[0], key)
	if t.err != nil {
		return
	}
	t.bind2(t.whole(mw, readWrite), key.Inc(), ok)
	t.usable(key.Inc())
	t.refused(t.req, windowAt, key)
}

// zeroBased uses a window whose first byte has the address 0.
func zeroBased(t *steps) {
	_, key := t.newWindow(readWrite | ib.AccessZeroBased)
	t.through(t.req, 0, key)
}

func beyondWindow(t *steps) {
	_, key := t.newWindow(readWrite)
	t.usable(key)
	const over = windowAt + windowLen - 99
	got := t.attempt(t.req, over, key)
	if !isOurs(t.Responder) && slices.Equal(got, []ib.WCStatus{ok}) {
		t.isKnown("rxe checks the range of the region, not that of the window")
		return
	}
	t.checkRefused(over, got)
}

func readOnly(t *steps) {
	_, key := t.newWindow(ib.AccessRemoteRead)
	t.fill(t.far, testagent.Span{Off: windowAt, Len: 300, Seed: 61})
	t.post(ends.Send{Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: part(t.local, fetched, 300), RemoteAddr: t.far.Addr() + windowAt, RKey: key})
	t.sent(1)
	t.verify(t.local, testagent.Span{Off: fetched, Len: 300, Seed: 61}, "read through the window")
	t.refused(t.req, windowAt, key)
}

// boundBeyond binds a window to bytes beyond the region.
func boundBeyond(t *steps) {
	mw := t.window(ib.MWType2)
	if t.err != nil {
		return
	}
	b := t.whole(mw, readWrite)
	b.Off = arena - windowLen + 1
	t.bind2(b, mw.RKey().Inc(), ib.WCMWBindErr)
	t.failed(t.resp)
}

// boundTwice binds a window of type 2 that is already bound.
func boundTwice(t *steps) {
	mw, key := t.newWindow(readWrite)
	t.usable(key)
	t.bind2(t.whole(mw, readWrite), key.Inc(), ib.WCMWBindErr)
	t.failed(t.resp)
}

func (t *steps) failed(qp ends.QP) {
	attr := t.query(qp)
	t.expect(attr.State == ib.ERR, "after the bind that failed, the queue pair is in %s", attr.State)
}
