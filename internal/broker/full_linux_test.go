//go:build !portable

package broker

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// connects makes a peer connect to the member of a slot, with IDs that end alike.
func connects(r *router, slot uint8, n uint32) {
	var m mad.MAD
	m.PutHeader(mad.CMHeader(mad.AttrREP, uint64(n)))
	(&mad.REP{LocalCommID: n, RemoteCommID: uint32(slot)<<24 | n, LocalQPN: ib.QPN(n)}).Put(&m)
	r.route(0, &m, &gsi.Address{Local: ourAddr, Remote: peerAddr})
}

// recordedIDs returns the peers' IDs of a slot's connections in the connection table, with their places.
func recordedIDs(t *testing.T, l *connTable, slot uint8) map[uint32]uint16 {
	t.Helper()
	all, err := l.connections(0, slot)
	must.Do(t, err)
	ids := make(map[uint32]uint16)
	for _, c := range all {
		ids[c.key.id] = c.place
	}
	return ids
}

// TestLedgerIsFull fills the records of a member and goes on: each further connection takes
// the place of the oldest, the records of other members stay, and the next broker reads the same
// connections, also when some have ended and left gaps.
func TestLedgerIsFull(t *testing.T) {
	const slot, extra = 7, 5
	l, err := newConnTable()
	must.Do(t, err)
	t.Cleanup(func() { closeAll([]int{l.fd}) })
	r := newRouter(l)
	for _, s := range []uint8{slot - 1, slot, slot + 1} {
		r.join(s)
		if s != slot {
			connects(r, s, 1<<20|uint32(s))
		}
	}
	for n := range uint32(maxKnown + extra) {
		connects(r, slot, n+1)
	}
	last := uint32(maxKnown + extra)
	check := func(r *router, what string, oldest uint32, count int) {
		t.Helper()
		ids := recordedIDs(t, l, slot)
		if n := r.members[slot].known.Len(); n != count || len(ids) != count {
			t.Errorf("%s: %d connections are known and %d recorded, want %d", what, n, len(ids), count)
		}
		_, before := ids[oldest-1]
		_, first := ids[oldest]
		_, end := ids[last]
		if before || !first || !end {
			t.Errorf("%s: the recorded connections are not those from %d to %d", what, oldest, last)
		}
		for _, s := range []uint8{slot - 1, slot + 1} {
			ids := recordedIDs(t, l, s)
			if place, is := ids[1<<20|uint32(s)]; len(ids) != 1 || !is || place != 0 {
				t.Errorf("%s: slot %d has records %v", what, s, ids)
			}
		}
	}
	check(r, "a full connTable", extra+1, maxKnown)
	var m mad.MAD // connections end, in the middle
	for n := range uint32(10) {
		id := 100 + 3*n
		m.PutHeader(mad.CMHeader(mad.AttrDREP, uint64(n)))
		(&mad.DREP{LocalCommID: id, RemoteCommID: slot<<24 | id}).Put(&m)
		r.route(0, &m, &gsi.Address{Local: ourAddr, Remote: peerAddr})
	}
	check(r, "with gaps", extra+1, maxKnown-10)
	next := newRouter(l)
	all, err := l.connections(0, slot)
	must.Do(t, err)
	next.restore(slot, all)
	check(next, "after a restart", extra+1, maxKnown-10)
	for range 10 {
		last++
		connects(next, slot, last)
	}
	check(next, "gaps are filled", extra+1, maxKnown)
	last++
	connects(next, slot, last)
	if n := len(recordedIDs(t, l, slot)); n != maxKnown {
		t.Errorf("full again: %d records", n)
	}
	if left := next.leave(0, slot); len(left) != maxKnown || len(next.remote)+len(next.local) != 0 {
		t.Errorf("%d peers hear of the end of the member, %d entries are left", len(left), len(next.remote)+len(next.local))
	}
	if ids := recordedIDs(t, l, slot); len(ids) != 0 {
		t.Errorf("%d records are left", len(ids))
	}
}

// TestServicesAreFull claims services until a member may have no more, and goes on when it has
// released one.
func TestServicesAreFull(t *testing.T) {
	r := newRouter(nowhere{})
	r.join(1)
	r.join(2)
	for i := range mad.ServiceID(maxServices) {
		if errno := r.claim(1, service+i); errno != 0 {
			t.Fatalf("service %d: %v", i, errno)
		}
	}
	for _, c := range []struct {
		what string
		slot uint8
		id   mad.ServiceID
		want syscall.Errno
	}{
		{"one too many", 1, service + maxServices, syscall.ENOMEM},
		{"one that the member has", 1, service, 0},
		{"another member's first", 2, service + maxServices, 0},
		{"one that the other member has", 2, service, syscall.EADDRINUSE},
	} {
		if errno := r.claim(c.slot, c.id); errno != c.want {
			t.Errorf("%s: %v, want %v", c.what, errno, c.want)
		}
	}
	r.release(2, service) // of another member
	if errno := r.claim(2, service); errno != syscall.EADDRINUSE {
		t.Errorf("a service that another member released: %v", errno)
	}
	r.release(1, service)
	if errno := r.claim(1, service+maxServices+1); errno != 0 {
		t.Errorf("after a release: %v", errno)
	}
	r.leave(0, 1)
	if n := len(r.services); n != 1 {
		t.Errorf("%d services are left", n)
	}
}

// TestManyPartings ends a member with more connections than the broker can disconnect at a time:
// each peer gets a DREQ, and silent peers get it again, all in time.
func TestManyPartings(t *testing.T) {
	const count = maxLeaving + 50
	if r := disconnectRetry(); time.Duration(1+r.Retries)*r.Timeout > toldLimit { // the limit below grows with the load
		t.Errorf("a peer hears the last time after %v, want %v at most", time.Duration(1+r.Retries)*r.Timeout, toldLimit)
	}
	b := serve(t, 1)
	p, x := newPeer(t, b), join(t, b)
	for n := range uint32(count) {
		p.send(mad.AttrREP, &mad.REP{LocalCommID: n + 1, RemoteCommID: uint32(x.Slot)<<24 | n})
		receive(t, x.port)
	}
	began := time.Now()
	x.die()
	heard := make(map[uint32]int)
	thrice := 0
	for len(heard) < count || thrice == 0 {
		d := expect(t, p.port, mad.AttrDREQ, &mad.DREQ{})
		if heard[d.RemoteCommID]++; heard[d.RemoteCommID] == 1+disconnectRetry().Retries {
			thrice++
		}
		if time.Since(began) > runnable(t)*toldLimit {
			t.Fatalf("%d of %d peers have heard after %v, %d for the last time", len(heard), count, time.Since(began), thrice)
		}
	}
}

// TestSilentConnection has a process connect and send nothing: the broker refuses it after
// helloTime, and not earlier.
func TestSilentConnection(t *testing.T) {
	b := serve(t, 1)
	before, began := descriptors(t), time.Now()
	silent := knock(t, b)
	m, _, err := silent.receive()
	if took := time.Since(began); err != nil || m.Op != opRefused || took < helloTime {
		t.Errorf("a silent process is refused after %v: %+v, %v", took, m, err)
	}
	_ = silent.Close()
	settle(t, "the connections are closed", func() bool { return descriptors(t) <= before })
}

// TestLostConnection ends a member's connection, as a member does that has waited too long for
// an answer: it keeps its slot, services and connections, and peers hear nothing. When the
// member ends, they do.
func TestLostConnection(t *testing.T) {
	b := serve(t, 3)
	p, x := newPeer(t, b), join(t, b)
	must.Do(t, x.Claim(service))
	asked(t, p, x, service, 1)
	for range 3 {
		b.mu.Lock()
		was := b.members[x.Slot]
		_ = was.wire.CloseRead()
		b.mu.Unlock()
		settle(t, "the member is back", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			is := b.members[x.Slot]
			return is != nil && is != was && len(b.absent) == 0
		})
	}
	if y := join(t, b); y.Slot == x.Slot {
		t.Error("another process has the member's slot")
	} else if err := y.Claim(service); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another process claims the member's service: %v", err)
	}
	asked(t, p, x, service, 2)
	if n, err := p.port.Receive(make([]fabric.Datagram, 1)); n != 0 || err != nil {
		t.Errorf("a peer hears something of a member that lives (%v)", err)
	}
	x.die()
	if r := expect(t, p.port, mad.AttrREJ, &mad.REJ{}); r.RemoteCommID != 1 {
		t.Errorf("the first that a peer hears is %+v", r)
	}
}
