package cm

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// TestC9_Resolution: every field of SIDR_REQ and SIDR_REP.
func TestC9_Resolution(t *testing.T) {
	r := newRig(t)
	c := r.m.NewConn(r.onEvent)
	p := &SIDRREQParams{Service: service, Path: r.path(), ResponseTimeout: 17, MaxRetries: 2, PrivateData: []byte("who")}
	p.Path.PKey, p.Path.TClass = 0x8001, 9
	r.do(c.SendSIDRREQ(r.now, p))
	want := mad.SIDRREQ{RequestID: c.LocalID(), PKey: 0x8001, ServiceID: service}
	copy(want.PrivateData[:], "who")
	if got := last(r, mad.AttrSIDRREQ, &mad.SIDRREQ{}); *got != want || r.to[0].TClass != 9 || r.to[0].PKey != 0x8001 {
		t.Errorf("sent %+v to %+v, want %+v", got, r.to[0], want)
	}
	r.quiet()
	r.wantSent("twice repeated", "SIDR_REQ", "SIDR_REQ", "SIDR_REQ")

	r.listen()
	d := r.passive(SIDRReqRcvd)
	if d.Role() != Passive || d.Service() != service || d.RemoteID() != peerID || d.Path().Remote != r.peer {
		t.Errorf("%v %v %#x %+v", d.Role(), d.Service(), d.RemoteID(), d.Path())
	}
	r.do(d.SendSIDRREP(r.now, &SIDRREPParams{QPN: 0x1234, QKey: 0x01234567, Info: []byte("abc"), PrivateData: []byte("me")}))
	answer := mad.SIDRREP{RequestID: peerID, InfoLength: 3, QPN: 0x1234, ServiceID: service, QKey: 0x01234567}
	copy(answer.Info[:], "abc")
	copy(answer.PrivateData[:], "me")
	if got := last(r, mad.AttrSIDRREP, &mad.SIDRREP{}); *got != answer || r.sent[len(r.sent)-1].Header().TID != peerTID {
		t.Errorf("sent %+v, want %+v", got, answer)
	}
	must.Do(t, empty(r.m))
}

// TestC9_PathOfRequest: the server's path is the reverse of the request's.
func TestC9_PathOfRequest(t *testing.T) {
	r := newRig(t)
	r.listen()
	from := gsi.Address{Local: r.us, Remote: r.peer, QPN: 1, PKey: ib.PKeyDefault, TClass: 0x68, FlowLabel: 0x12345}
	r.m.Receive(r.now, &gsi.Received{MAD: build(mad.AttrSIDRREQ, peerTID, r.sidrReq()), From: from})
	want := Path{
		Local: r.us, Remote: r.peer, FlowLabel: 0x12345, TClass: 0x68, HopLimit: DefaultHopLimit, MTU: ib.MTU4096, PKey: ib.PKeyDefault,
	}
	if got := r.conn.Path(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	r.do(r.conn.SendSIDRREP(r.now, &SIDRREPParams{}))
	if r.to[0] != from {
		t.Errorf("answered to %+v, want %+v", r.to[0], from)
	}
}

// TestC9_Answers: the client gets each status, and nothing is left on either
// side.
func TestC9_Answers(t *testing.T) {
	for _, status := range []mad.SIDRStatus{mad.SIDRValid, mad.SIDRRejected, mad.SIDRNoQP, mad.SIDRUnsupportedService} {
		n, a, b := newNetwork(t)
		var heard []mad.SIDRREP
		a.program = func(_ clock.Instant, _ *Conn, ev *Event) { heard = append(heard, *ev.SIDRREP) }
		b.program = func(now clock.Instant, c *Conn, _ *Event) {
			if status == mad.SIDRRejected { // the status of giving up
				c.Destroy(now)
				return
			}
			n.do(c.SendSIDRREP(now, &SIDRREPParams{Status: status, QPN: 5, QKey: 6}))
		}
		if status != mad.SIDRUnsupportedService { // the status without a listener
			b.listen()
		}
		n.do(a.m.NewConn(a.onEvent).SendSIDRREQ(n.now, &SIDRREQParams{Service: service, Path: a.pathTo(b)}))
		n.wantEmpty()
		if len(heard) != 1 || heard[0].Status != status || heard[0].ServiceID != service || status == mad.SIDRValid && (heard[0].QPN != 5 || heard[0].QKey != 6) {
			t.Errorf("%v: heard %+v", status, heard)
		}
	}
}

// TestC9_Duplicates: a repetition of an unanswered request is no new request; a
// repetition after a lost answer is.
func TestC9_Duplicates(t *testing.T) {
	r := newRig(t)
	r.listen()
	c := r.passive(SIDRReqRcvd)
	r.receive(mad.AttrSIDRREQ, r.sidrReq())
	r.wantEvents("asked twice", SIDRREQReceived)
	r.do(c.SendSIDRREP(r.now, &SIDRREPParams{}))
	r.clear()
	r.receive(mad.AttrSIDRREQ, r.sidrReq())
	r.wantEvents("asked again after the answer", SIDRREQReceived)
	r.receiveFrom(r.peer.Next(), mad.AttrSIDRREQ, r.sidrReq())
	r.wantEvents("asked by another peer, with the same number", SIDRREQReceived, SIDRREQReceived)
	_, err := r.m.Listen(service+1, r.onEvent)
	r.do(err)
	q := r.sidrReq()
	q.ServiceID++
	r.receive(mad.AttrSIDRREQ, q)
	r.wantEvents("asked for another service, with a number that waits", SIDRREQReceived, SIDRREQReceived)
	must.Do(t, invariants(r.m))
}

// TestC9_Stranger: an answer counts only if it comes from the address that was
// asked.
func TestC9_Stranger(t *testing.T) {
	r := newRig(t)
	c := r.active(SIDRReqSent)
	r.receiveFrom(r.peer.Next(), mad.AttrSIDRREP, &mad.SIDRREP{RequestID: c.LocalID()})
	r.wantEvents("a stranger's answer")
	r.wantState(c, SIDRReqSent)
	if r.m.Counters().Foreign != 1 {
		t.Error("it is not counted")
	}
}

func TestC9_BadParameters(t *testing.T) {
	r := newRig(t)
	c := r.m.NewConn(nil)
	for what, p := range map[string]*SIDRREQParams{
		"timeout 32": {Path: r.path(), ResponseTimeout: 32},
		"16 retries": {Path: r.path(), MaxRetries: 16},
		"too much":   {Path: r.path(), PrivateData: make([]byte, mad.SIDRREQPrivateData+1)},
	} {
		wantInvalid(t, what, c.SendSIDRREQ(r.now, p))
	}
	r.listen()
	c = r.passive(SIDRReqRcvd)
	wantInvalid(t, "too much", c.SendSIDRREP(r.now, &SIDRREPParams{PrivateData: make([]byte, mad.SIDRREPPrivateData+1)}))
	wantInvalid(t, "too much information", c.SendSIDRREP(r.now, &SIDRREPParams{Info: make([]byte, mad.InfoSize+1)}))
	r.wantState(c, SIDRReqRcvd)
	r.wantSent("nothing")
}
