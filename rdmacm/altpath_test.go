package rdmacm

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// twoPaths is a connection over the first addresses of two hosts with three addresses
// each.
type twoPaths struct {
	connected
	t    testing.TB
	a, b *host
}

// newTwoPaths connects with policies of the client and the server; rules are fault
// rules at the client.
func newTwoPaths(t testing.TB, client, server AltPathPolicy, rules string) *twoPaths {
	t.Helper()
	n := verbs.NewNetwork()
	open := func(host int, f verbs.Faults) *host {
		return newHost(t, verbs.Config{Network: n, Addr: fmt.Sprintf("10.0.0.%d,10.0.1.%d,10.0.2.%d", host, host, host), Faults: f})
	}
	p := &twoPaths{t: t, a: open(1, verbs.Faults{Rules: rules, Seed: 1}), b: open(2, verbs.Faults{})}
	p.listener = p.b.listener(TCP, 0)
	p.client = withQP(t, p.a.resolved(TCP, p.b.at(port)))
	must.Do(t, p.client.SetAltPath(client))
	must.Do(t, p.client.SetAckTimeout(14))
	must.Do(t, p.client.Connect(nil))
	p.server = withQP(t, p.b.take(EventConnectRequest).ID)
	must.Do(t, p.server.SetAltPath(server))
	must.Do(t, p.server.SetAckTimeout(14))
	must.Do(t, p.server.Accept(nil))
	p.a.take(EventEstablished)
	p.b.take(EventEstablished)
	return p
}

// alt returns the path between the addresses with a GID index, as the client sees it.
func (p *twoPaths) alt(i int) AltPath {
	return AltPath{p.a.m.devices[0].addrs[i], p.b.m.devices[0].addrs[i]}
}

// loaded waits for the ALT_PATH_LOADED of a path on both sides.
func (p *twoPaths) loaded(want AltPath) {
	p.t.Helper()
	if e := p.a.take(EventAltPathLoaded); e.AltPath != want {
		p.t.Errorf("the client has loaded %v, want %v", e.AltPath, want)
	}
	if e := p.b.take(EventAltPathLoaded); e.AltPath != (AltPath{want.Remote, want.Local}) {
		p.t.Errorf("the server has loaded %v, want %v the other way", e.AltPath, want)
	}
}

// send sends a message to the server.
func (p *twoPaths) send() {
	p.t.Helper()
	must.Do(p.t, p.server.QP().PostRecv(verbs.RecvWR{}))
	must.Do(p.t, p.client.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend}))
	for side, next := range map[string]func() (verbs.WC, error){
		"client": func() (verbs.WC, error) { return p.client.GetSendComp(soon(p.t)) },
		"server": func() (verbs.WC, error) { return p.server.GetRecvComp(soon(p.t)) },
	} {
		if wc, err := next(); err != nil || wc.Status != ib.WCSuccess {
			p.t.Fatalf("the %s's message ends with %v, %v", side, wc.Status, err)
		}
	}
}

// want checks that both queue pairs are in a migration state and on a path.
func (p *twoPaths) want(state ib.MigState, path AltPath, why string) {
	p.t.Helper()
	for id, dst := range map[*ID]netip.Addr{p.client: path.Remote, p.server: path.Local} {
		a, err := id.QP().Query()
		if err != nil || a.PathMigState != state || a.AV.DGID.Addr() != dst {
			p.t.Errorf("%s: a queue pair is %v on the way to %v (%v); want %v, %v", why, a.PathMigState, a.AV.DGID.Addr(), err, state, dst)
		}
	}
}

// migrated checks that the next asynchronous event on both sides is PATH_MIG.
func (p *twoPaths) migrated() {
	p.t.Helper()
	for who, h := range map[string]*host{"client": p.a, "server": p.b} {
		e, err := h.m.Devices()[0].GetAsyncEvent(soon(p.t))
		if err != nil || e.Type != ib.EventPathMig {
			p.t.Fatalf("the %s has the event %v, %v", who, e, err)
		}
		e.Ack()
	}
}

// move makes the client's queue pair migrate.
func (p *twoPaths) move() {
	p.t.Helper()
	must.Do(p.t, p.client.QP().Modify(&verbs.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}, ib.AttrState|ib.AttrPathMigState))
}

// end disconnects: the peer must answer, so that no timeout expires.
func (p *twoPaths) end() {
	p.t.Helper()
	must.Do(p.t, p.client.Disconnect())
	p.b.take(EventDisconnected)
	must.Do(p.t, p.server.Disconnect())
	if e := p.a.take(EventDisconnected); e.Status != 0 {
		p.t.Errorf("disconnected with %v", e.Err)
	}
	destroy(p.t, p.client, p.server, p.listener)
}

// TestC10_V15_ArmsAgain makes the client migrate repeatedly. No data flows meanwhile:
// the server learns of each migration by the LAP that requests the previous path.
func TestC10_V15_ArmsAgain(t *testing.T) {
	p := newTwoPaths(t, AutoAltPath, AutoAltPath, "")
	must.Do(t, p.client.LoadAltPath(p.alt(1)))
	p.loaded(p.alt(1))
	for round := range 4 {
		at, other := p.alt(round%2), p.alt(1-round%2)
		p.send()
		p.want(ib.ARMED, at, "after a message")
		p.move()
		p.migrated()
		p.loaded(at)
		p.want(ib.REARM, other, "after a migration")
	}
	p.end()
}

// TestC10_ConnectionAndIDFollow makes a queue pair migrate: the connection's messages
// and the ID take the new path, which the engine reports once.
func TestC10_ConnectionAndIDFollow(t *testing.T) {
	p := newTwoPaths(t, AutoAltPath, AutoAltPath, "")
	must.Do(t, p.client.LoadAltPath(p.alt(1)))
	p.loaded(p.alt(1))
	p.send()
	p.move()
	p.migrated()
	p.loaded(p.alt(0))
	must.Do(t, p.client.runOn("paths", func(clock.Instant) error {
		if got := endsOf(p.client.link.conn.Path()); got != p.alt(1) {
			t.Errorf("the messages of the connection take %v, want %v", got, p.alt(1))
		}
		if got := endsOf(p.client.link.path); got != p.alt(1) {
			t.Errorf("the ID has %v, want %v", got, p.alt(1))
		}
		return nil
	}))
	p.end()
}

// TestC10_V15_PathCut cuts the first path: the connection continues over the other
// path, arms again, and ends there.
func TestC10_V15_PathCut(t *testing.T) {
	p := newTwoPaths(t, AutoAltPath, AutoAltPath, "drop path=primary nth=60 every=1")
	must.Do(t, p.client.LoadAltPath(p.alt(1)))
	p.loaded(p.alt(1))
	for range 60 {
		p.send()
	}
	p.migrated()
	p.loaded(p.alt(0))
	p.send()
	p.want(ib.ARMED, p.alt(1), "after the first path was lost")
	p.end()
}

// TestC10_AltPathRefused requests invalid paths.
func TestC10_AltPathRefused(t *testing.T) {
	p := newTwoPaths(t, NoAltPath, NoAltPath, "")
	must.Fail(t, p.client.LoadAltPath(p.alt(1)), ib.EINVAL, "without a policy")
	must.Do(t, p.client.SetAltPath(AutoAltPath))
	must.Fail(t, p.client.SetAltPath(AutoAltPath+1), ib.EINVAL, "an unknown policy")
	must.Fail(t, p.client.LoadAltPath(p.alt(0)), ib.EINVAL, "the path of the connection")
	must.Fail(t, p.client.LoadAltPath(AltPath{p.b.addr, p.b.addr}), ib.EADDRNOTAVAIL, "a path from elsewhere")
	must.Fail(t, p.client.LoadAltPath(AltPath{p.a.addr, netip.IPv6LinkLocalAllNodes()}), ib.EINVAL, "a path to a group")
	must.Fail(t, p.client.AnswerAltPath(mad.APRAccepted), ib.EINVAL, "an answer to nothing")
	must.Fail(t, p.client.Notify(ib.EventPathMig), ib.EINVAL, "a migration to nowhere")
	_, _, err := p.client.AltPathAttr()
	must.Fail(t, err, ib.EINVAL, "attributes of no path")
	refused := func(path AltPath, status mad.APRStatus, why string) {
		t.Helper()
		must.Do(t, p.client.LoadAltPath(path))
		e := p.a.take(EventAltPathError)
		if e.Status != int(status) || e.AltPath != path {
			t.Errorf("%s: status %d (%v) of %v", why, e.Status, e.Err, e.AltPath)
		}
		must.Fail(t, e.Err, ib.ECONNREFUSED, why)
	}
	refused(p.alt(1), mad.APRUnsupported, "the peer has no alternate paths")
	must.Do(t, p.server.SetAltPath(AutoAltPath))
	must.Fail(t, p.server.LoadAltPath(AltPath{p.alt(1).Remote, p.alt(1).Local}), ib.EINVAL, "the side that was connected to asks")
	refused(AltPath{p.alt(1).Local, netip.MustParseAddr("10.0.9.9")}, mad.APRInvalidGID, "no address of the peer")
	p.want(ib.MIGRATED, p.alt(0), "after all was refused")
	p.b.quiet("refused by the policy")
	p.end()
	ud := p.a.id(UDP)
	must.Fail(t, ud.SetAltPath(AutoAltPath), ib.EINVAL, "UD")
	destroy(t, ud)
}

// TestC10_AltPathByHand makes the programs load the agreed path themselves.
func TestC10_AltPathByHand(t *testing.T) {
	p := newTwoPaths(t, TellAltPath, TellAltPath, "")
	load := func(id *ID) {
		t.Helper()
		a, mask, err := id.AltPathAttr()
		must.Do(t, err)
		must.Do(t, id.QP().Modify(&a, mask))
	}
	must.Do(t, p.client.LoadAltPath(p.alt(1)))
	if e := p.b.take(EventAltPathRequest); e.AltPath != (AltPath{p.alt(1).Remote, p.alt(1).Local}) {
		t.Errorf("asked is for %v", e.AltPath)
	}
	must.Fail(t, p.client.LoadAltPath(p.alt(2)), ib.EINVAL, "another path while one is asked for")
	must.Do(t, p.server.AnswerAltPath(mad.APRRejected))
	if e := p.a.take(EventAltPathError); e.Status != int(mad.APRRejected) {
		t.Errorf("refused with %d", e.Status)
	}
	must.Do(t, p.client.LoadAltPath(p.alt(1)))
	p.b.take(EventAltPathRequest)
	load(p.server)
	must.Do(t, p.server.AnswerAltPath(mad.APRAccepted))
	p.a.take(EventAltPathLoaded)
	if a, err := p.client.QP().Query(); err != nil || a.PathMigState != ib.MIGRATED {
		t.Errorf("before the client's program has loaded the path its queue pair is %v (%v)", a.PathMigState, err)
	}
	load(p.client)
	p.send()
	p.want(ib.ARMED, p.alt(0), "both have loaded")
	p.move()
	p.send()
	p.migrated()
	p.want(ib.MIGRATED, p.alt(1), "after a migration")
	p.a.quiet("nobody arms again")
	p.end()
}

// TestC10_AltPathEventsAreBounded makes a client request paths without end, while the
// server's program takes no events.
func TestC10_AltPathEventsAreBounded(t *testing.T) {
	p := newTwoPaths(t, AutoAltPath, AutoAltPath, "")
	for i := range 2 * maxWaiting {
		must.Do(t, p.client.LoadAltPath(p.alt(1+i%2)))
		p.a.take(EventAltPathLoaded)
	}
	n := 0
	for _, ok := p.b.ch.TryGet(); ok; _, ok = p.b.ch.TryGet() {
		n++
	}
	if n != maxWaiting {
		t.Errorf("%d events wait, want %d", n, maxWaiting)
	}
}
