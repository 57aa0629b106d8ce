//go:build !portable

package broker

import (
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// waiting returns the number of requests that wait for a listener.
func waiting(t *testing.T, b *Broker) (n int) {
	t.Helper()
	must.Do(t, b.engine.do(func(clock.Instant) {
		e := b.engine.early
		for _, ok := e.Due(e.Deadline()); ok; _, ok = e.Due(e.Deadline()) {
			n++
		}
	}))
	return n
}

// TestNewBrokerRefusesLate shows that a new broker gives members time to come back before it refuses
// a request for a service that none of them has claimed yet.
func TestNewBrokerRefusesLate(t *testing.T) {
	b := serve(t, 1)
	must.Do(t, b.engine.do(func(now clock.Instant) {
		if e := &b.engine.early; e.Settled != clock.Instant(returning) || e.Grace != cm.DefaultListenGrace {
			t.Errorf("requests wait for %v, and until %v", e.Grace, e.Settled)
		}
		if now > clock.Instant(waitLimit) {
			t.Errorf("the broker's clock begins at %v", now)
		}
	}))
}

// TestListenedInTime shows that a request which comes before any member listens is for the
// one that listens next; and that the others are refused when they have waited.
func TestListenedInTime(t *testing.T) {
	b := serve(t, 1)
	p, x := newPeer(t, b), join(t, b)
	must.Do(t, b.engine.do(func(clock.Instant) { b.engine.early.Grace = waitLimit }))
	p.send(mad.AttrSIDRREQ, &mad.SIDRREQ{RequestID: 5, ServiceID: service})
	p.send(mad.AttrREQ, reqFor(service, 6))
	settle(t, "both wait", func() bool { return waiting(t, b) == 2 })
	must.Do(t, x.Claim(service))
	if q := expect(t, x.port, mad.AttrSIDRREQ, &mad.SIDRREQ{}); q.RequestID != 5 {
		t.Errorf("%+v", q)
	}
	if q := expect(t, x.port, mad.AttrREQ, &mad.REQ{}); q.LocalCommID != 6 {
		t.Errorf("%+v", q)
	}
	must.Do(t, b.engine.do(func(clock.Instant) { b.engine.early.Grace = cm.DefaultListenGrace }))
	begun := time.Now()
	p.send(mad.AttrSIDRREQ, &mad.SIDRREQ{RequestID: 7, ServiceID: service + 1})
	if r := expect(t, p.port, mad.AttrSIDRREP, &mad.SIDRREP{}); r.RequestID != 7 || r.Status != mad.SIDRUnsupportedService {
		t.Errorf("%+v", r)
	}
	if d := time.Since(begun); d < cm.DefaultListenGrace {
		t.Errorf("refused after %v", d)
	}
}
