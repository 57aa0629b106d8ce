package cm

import (
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// TestC10_LAPAndAPR: every field of LAP and APR, and the final path on both
// sides.
func TestC10_LAPAndAPR(t *testing.T) {
	r := newRig(t)
	p := r.reqParams()
	p.ResponseTimeout = 17
	c := r.m.NewConn(r.onEvent)
	r.do(c.SendREQ(r.now, p))
	r.receive(mad.AttrREP, r.rep(c))
	r.do(c.SendRTU(r.now, nil))
	path := r.path()
	path.FlowLabel, path.TClass, path.SL, path.HopLimit, path.Lifetime = 0x777, 0x68, 3, 9, 16
	r.do(c.SendLAP(r.now, &path, []byte("this way")))
	got := last(r, mad.AttrLAP, &mad.LAP{})
	want := mad.LAP{
		LocalCommID: c.LocalID(), RemoteCommID: peerID, RemoteQPN: peerQPN, RemoteResponseTimeout: 17, Alternate: path.wire(17),
	}
	copy(want.PrivateData[:], "this way")
	if *got != want || got.Alternate.FlowLabel != 0x777 || got.Alternate.LocalAckTimeout != 17 {
		t.Errorf("sent %+v, want %+v", got, want)
	}
	if c.Alternate() != got.Alternate || c.LAPState() != LAPSent {
		t.Errorf("%v: %+v", c.LAPState(), c.Alternate())
	}
	r.receive(mad.AttrAPR, &mad.APR{LocalCommID: peerID, RemoteCommID: c.LocalID()})
	if c.Alternate() != got.Alternate || c.LAPState() != LAPIdle || r.m.Deadline() != clock.Never {
		t.Errorf("%v: %+v", c.LAPState(), c.Alternate())
	}

	r = newRig(t)
	r.listen()
	c = r.loading(LAPRcvd)
	r.do(c.SendAPR(r.now, &APRParams{Status: mad.APRAccepted, Info: []byte("i"), PrivateData: []byte("fine")}))
	answer := mad.APR{LocalCommID: c.LocalID(), RemoteCommID: peerID, InfoLength: 1}
	copy(answer.Info[:], "i")
	copy(answer.PrivateData[:], "fine")
	if got := last(r, mad.AttrAPR, &mad.APR{}); *got != answer || r.sent[len(r.sent)-1].Header().TID != peerTID {
		t.Errorf("sent %+v, want %+v", got, answer)
	}
	if c.Alternate() != r.lap(c).Alternate {
		t.Errorf("%+v", c.Alternate())
	}
}

// TestC10_Refused: both sides keep the path that they agreed on before.
func TestC10_Refused(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	c, d := a.connect(b)
	path := a.pathTo(b)
	n.do(c.SendLAP(n.now, &path, nil))
	n.run(10 * latency)
	n.wantLog(`
		0.010 a sends LAP
		0.011 b hears LAP_RECEIVED
		0.011 b sends APR
		0.012 a hears APR_RECEIVED`)
	agreed := c.Alternate()
	b.program = func(now clock.Instant, c *Conn, ev *Event) {
		if ev.Type == LAPReceived {
			n.do(c.SendAPR(now, &APRParams{Status: mad.APRRejected}))
		}
	}
	path.FlowLabel++
	n.do(c.SendLAP(n.now, &path, nil))
	if c.Alternate() == agreed {
		t.Error("what is asked for is not shown")
	}
	n.run(10 * latency)
	if c.Alternate() != agreed || d.Alternate() != agreed || agreed == (mad.Path{}) {
		t.Errorf("%+v and %+v, want %+v", c.Alternate(), d.Alternate(), agreed)
	}
	c.Destroy(n.now)
	d.Destroy(n.now)
	n.wantEmpty()
}

// TestC10_LostMessages: LAP is repeated; a lost APR makes the consumer of the
// other side decide again; MRA delays the repetitions; if all fail, the
// connection goes on without the path.
func TestC10_LostMessages(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	c, d := a.connect(b)
	lost := map[mad.AttrID]int{mad.AttrLAP: 1, mad.AttrAPR: 1}
	n.fate = func(p *packet) []time.Duration {
		if lost[p.kind()]--; lost[p.kind()] >= 0 {
			return nil
		}
		return []time.Duration{latency}
	}
	path := a.pathTo(b)
	n.do(c.SendLAP(n.now, &path, nil))
	n.run(time.Minute)
	n.wantLog(`
		 0.010 a sends LAP, lost
		 6.452 a sends LAP
		 6.453 b hears LAP_RECEIVED
		 6.453 b sends APR, lost
		12.895 a sends LAP
		12.896 b hears LAP_RECEIVED
		12.896 b sends APR
		12.897 a hears APR_RECEIVED`)

	b.program = b.idle
	path.FlowLabel++
	n.do(c.SendLAP(n.now, &path, nil))
	n.run(latency)
	n.do(d.SendMRA(n.now, 22, nil))
	n.log.Reset()
	n.run(3 * time.Minute)
	n.wantLog(`
		60.012 a hears MRA_RECEIVED
		79.339 a sends LAP
		79.340 b sends MRA
		85.782 a sends LAP
		85.783 b sends MRA
		92.224 a sends LAP
		92.225 b sends MRA
		98.667 a hears LAP_ERROR`)
	if c.State() != Established || c.Alternate().FlowLabel != 0x12345 || c.LAPState() != LAPIdle {
		t.Errorf("%v %v %+v", c.State(), c.LAPState(), c.Alternate())
	}

	// The other side may still answer the LAP that was given up.
	b.program = b.polite
	path.FlowLabel++
	n.do(c.SendLAP(n.now, &path, nil))
	n.run(time.Second)
	if c.Alternate() != d.Alternate() || c.Alternate().FlowLabel != 0x12347 {
		t.Errorf("after a LAP that was given up: %+v and %+v", c.Alternate(), d.Alternate())
	}
	c.Destroy(n.now)
	d.Destroy(n.now)
	n.wantEmpty()
}

// TestC10_TearDownMeanwhile: the end of a connection, from either side, also
// ends its LAP; later messages are dropped.
func TestC10_TearDownMeanwhile(t *testing.T) {
	for s := LAPSent; s < numLAPStates; s++ {
		for _, on := range []Input{CallDREQ, CallDestroy, MsgDREQ, MsgREJ, MsgREJStale} {
			r := newRig(t)
			r.listen()
			c := r.loading(s)
			_ = give(r, c, on)
			if c.LAPState() != LAPIdle || c.State() == Established {
				t.Fatalf("%v in %v: %v, %v", on, s, c.State(), c.LAPState())
			}
			if err := invariants(r.m); err != nil {
				t.Fatalf("%v in %v: %v", on, s, err)
			}
			r.clear()
			for _, late := range []Input{MsgLAP, MsgAPR, MsgMRAOther} {
				tell(r, c, late)
			}
			r.wantEvents("what comes late")
			r.wantSent("what comes late")
			path := r.path()
			wantInvalid(t, "LAP", c.SendLAP(r.now, &path, nil))
			wantInvalid(t, "APR", c.SendAPR(r.now, &APRParams{}))
			c.Destroy(r.now)
			r.quiet()
			if err := empty(r.m); err != nil {
				t.Errorf("%v in %v: %v", on, s, err)
			}
		}
	}
}

// TestC10_Sides: the active side asks and the passive one answers.
func TestC10_Sides(t *testing.T) {
	c, r := reach(t, Established, Passive)
	path := r.path()
	wantInvalid(t, "the passive side asks", c.SendLAP(r.now, &path, nil))
	c, r = reach(t, Established, Active)
	r.clear()
	r.receive(mad.AttrLAP, r.lap(c))
	r.wantEvents("the active side is asked")
	if r.m.Counters().Unexpected[MsgLAP] != 1 {
		t.Error("the LAP is not counted")
	}
	path.Lifetime = 32
	wantInvalid(t, "lifetime 32", c.SendLAP(r.now, &path, nil))
	path.Lifetime = 0
	wantInvalid(t, "too much", c.SendLAP(r.now, &path, make([]byte, mad.LAPPrivateData+1)))
	c, r = reach(t, Established, Passive)
	r.receive(mad.AttrLAP, r.lap(c))
	wantInvalid(t, "too much", c.SendAPR(r.now, &APRParams{PrivateData: make([]byte, mad.APRPrivateData+1)}))
	wantInvalid(t, "too much information", c.SendAPR(r.now, &APRParams{Info: make([]byte, mad.InfoSize+1)}))
	if c.LAPState() != LAPRcvd {
		t.Errorf("after what was refused: %v", c.LAPState())
	}
}

// TestC10_AlternateOfREQ: the consumer gets the alternate path of a REQ, and
// REP says that it is not loaded.
func TestC10_AlternateOfREQ(t *testing.T) {
	r := newRig(t)
	r.listen()
	q := r.req()
	q.Alternate = q.Primary
	q.Alternate.FlowLabel = 1
	r.receive(mad.AttrREQ, q)
	r.do(r.conn.SendREP(r.now, r.repParams()))
	if got := last(r, mad.AttrREP, &mad.REP{}).FailoverAccepted; got != mad.FailoverUnsupported || r.conn.Alternate() != (mad.Path{}) {
		t.Errorf("REP says %v, the path is %+v", got, r.conn.Alternate())
	}
}

// TestC10_EveryAPRStatus: the peer gets the status that the consumer chose, and the path is
// agreed on only if that is acceptance.
func TestC10_EveryAPRStatus(t *testing.T) {
	for status := range mad.APRStatus(16) {
		r := newRig(t)
		r.listen()
		c := r.loading(LAPRcvd)
		r.clear()
		r.do(c.SendAPR(r.now, &APRParams{Status: status}))
		want := mad.APR{LocalCommID: c.LocalID(), RemoteCommID: peerID, Status: status}
		if got := last(r, mad.AttrAPR, &mad.APR{}); *got != want {
			t.Errorf("sent %+v, want %+v", got, want)
		}
		if agreed := c.Alternate() != (mad.Path{}); agreed != (status == mad.APRAccepted) {
			t.Errorf("status %v: a path is agreed on: %v", status, agreed)
		}
	}
}
