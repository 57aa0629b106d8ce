package cm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// graceful returns a rig whose requests wait for a listener.
func graceful(t *testing.T) *rig {
	r := newRig(t)
	r.m.early.Grace = DefaultListenGrace
	return r
}

// TestC7_ListenedInTime: a request that comes a moment before its listener is delivered
// once when the listener exists; it is neither answered nor refused before.
func TestC7_ListenedInTime(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  func(r *rig)
		want EventType
	}{
		{"REQ", func(r *rig) { r.receive(mad.AttrREQ, r.req()) }, REQReceived},
		{"SIDR_REQ", func(r *rig) { r.receive(mad.AttrSIDRREQ, r.sidrReq()) }, SIDRREQReceived},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := graceful(t)
			c.ask(r)
			r.now = r.now.Add(DefaultListenGrace - time.Millisecond)
			c.ask(r) // again: the peer waits for an answer
			r.m.Advance(r.now)
			r.wantSent("nobody listens yet")
			r.listen()
			if r.m.Deadline() > r.now {
				t.Errorf("what waits is due at %v, not at once", r.m.Deadline())
			}
			r.m.Advance(r.now)
			r.wantEvents("somebody listens", c.want)
			r.wantSent("the program is asked")
			r.now = r.now.Add(time.Minute)
			r.m.Advance(r.now)
			r.wantEvents("later", c.want)
		})
	}
}

// TestC7_NothingIsRefusedBeforeSettled shows that all requests wait until Settled at least, and that a
// later one waits for its own time.
func TestC7_NothingIsRefusedBeforeSettled(t *testing.T) {
	r := graceful(t)
	settled := r.now.Add(time.Second)
	r.m.early.Settled = settled
	r.receive(mad.AttrREQ, r.req())
	if at := r.m.Deadline(); at != settled {
		t.Errorf("the request waits until %v, want %v", at, settled)
	}
	r.now = settled.Add(-time.Millisecond)
	r.m.Advance(r.now)
	r.wantSent("before")
	q := r.req()
	q.LocalCommID++
	r.receive(mad.AttrREQ, q)
	r.now = settled
	r.m.Advance(r.now)
	r.wantSent("settled", "REJ: invalid service id")
	if at := r.m.Deadline(); at != settled.Add(DefaultListenGrace-time.Millisecond) {
		t.Errorf("the second request waits until %v", at)
	}
}

// TestC7_NobodyListens: a request without a listener is refused after the grace time, or at
// once if there is no room; other listeners change nothing.
func TestC7_NobodyListens(t *testing.T) {
	r := graceful(t)
	for i := range maxEarly {
		q := r.req()
		q.ServiceID, q.LocalCommID = service+1, uint32(i+1)
		r.receive(mad.AttrREQ, q)
	}
	r.wantSent("all wait")
	q := r.sidrReq()
	q.ServiceID = service + 1
	r.receive(mad.AttrSIDRREQ, q)
	r.wantSent("one too many", "SIDR_REP: unsupported service id")
	r.listen()
	r.clear()
	if at := r.m.Deadline(); at != clock.Instant(DefaultListenGrace) {
		t.Errorf("they wait until %v", at)
	}
	r.fire()
	if len(r.sent) != maxEarly || r.m.Deadline() != clock.Never {
		t.Errorf("%d of %d are refused, the next at %v", len(r.sent), maxEarly, r.m.Deadline())
	}
	if k := r.kinds()[0]; k != "REJ: invalid service id" || r.m.HalfOpen() != 0 {
		t.Errorf("%s, %d are half open", k, r.m.HalfOpen())
	}
}

// TestC7_EarlyIsShared: an address whose requests take all the room loses its oldest to an
// address with fewer, but not to one with as many.
func TestC7_EarlyIsShared(t *testing.T) {
	addr := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }
	e := Early[int]{Grace: time.Second}
	for i := range maxEarly {
		if !e.Keep(clock.Instant(i), service, addr(1), i) {
			t.Fatalf("request %d finds no room", i)
		}
	}
	if e.Keep(100, service, addr(1), 100) {
		t.Error("an address with all the room takes more")
	}
	for i := range maxEarly / 2 {
		if !e.Keep(100, service, addr(2), 100+i) {
			t.Errorf("the other address's request %d finds no room", i)
		}
	}
	if e.Keep(100, service, addr(2), 200) || len(e.all) != maxEarly {
		t.Errorf("the other address takes more than half; %d wait", len(e.all))
	}
	var got []int
	for r, ok := e.Due(clock.Never - 1); ok; r, ok = e.Due(clock.Never - 1) {
		got = append(got, r)
	}
	if len(got) != maxEarly || got[0] != maxEarly/2 || got[maxEarly/2-1] != maxEarly-1 || got[maxEarly/2] != 100 {
		t.Errorf("left are %v", got)
	}
}
