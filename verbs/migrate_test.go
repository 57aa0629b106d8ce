package verbs

import (
	"bytes"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// arm loads each side's alternate path, between the second addresses, and asks
// for REARM. The SEND and its answer make both ARMED.
func arm(t testing.TB, a, b *endpoint) {
	t.Helper()
	for _, p := range [][2]*endpoint{{a, b}, {b, a}} {
		attr := QPAttr{
			State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: 14,
			AltAV: AHAttr{DGID: p[1].ctx.QueryGID(1), SGIDIndex: 1, HopLimit: 64, Port: 1},
		}
		must.Do(t, p[0].qp.Modify(&attr, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState))
	}
	must.Do(t, b.qp.PostRecv(b.recv(1, 0, 4096)))
	must.Do(t, a.qp.PostSend(a.send(1, 64)))
	a.wait(t, 1)
	b.wait(t, 1)
	for _, e := range []*endpoint{a, b} {
		if attr, err := e.qp.Query(); err != nil || attr.PathMigState != ib.ARMED {
			t.Fatalf("after an exchange: %v, %v", attr.PathMigState, err)
		}
	}
}

// onAlternate fails the test unless the QP has migrated.
func (e *endpoint) onAlternate(t testing.TB, peer *endpoint) {
	t.Helper()
	if ev := e.event(t); ev.Type != ib.EventPathMig {
		t.Fatalf("event %v, want PATH_MIG", ev.Type)
	} else {
		ev.Ack()
	}
	attr, err := e.qp.Query()
	must.Do(t, err)
	if attr.PathMigState != ib.MIGRATED || attr.AV.SGIDIndex != 1 || attr.AV.DGID != peer.ctx.QueryGID(1) {
		t.Errorf("migration state %v, path %+v", attr.PathMigState, attr.AV)
	}
}

// TestV15_PathCut cuts the primary path in the middle of a WRITE: the WRITE continues
// over the alternate path, both sides get an event, and no data is lost.
func TestV15_PathCut(t *testing.T) {
	n := NewNetwork()
	a := newEndpoint(t, Config{Addr: "10.0.1.1,10.0.2.1", Network: n, Faults: Faults{
		Rules: "drop nth=200 every=1 dst=10.0.1.2 dir=out", Seed: 1,
	}}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.0.1.2,10.0.2.2", Network: n}, ib.RC)
	connect(t, a, b, brief)
	arm(t, a, b)
	const size = 1 << 20
	for i := range a.mr.Bytes() {
		a.mr.Bytes()[i] = byte(i * 7)
	}
	a.settle(t)
	must.Do(t, a.qp.PostSend(a.write(2, size, b)))
	a.wait(t, 1)
	a.onAlternate(t, b)
	b.onAlternate(t, a)
	b.settle(t)
	if !bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]) {
		t.Error("the data is not what was written")
	}
}
