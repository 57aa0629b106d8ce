package cm

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// DefaultListenGrace is how long requests wait for somebody to listen. Where programs share
// processors, one that says by TCP that it is about to listen may be a scheduler's turn or
// two behind its peer.
const DefaultListenGrace = 20 * time.Millisecond

// maxEarly bounds the requests that wait for somebody to listen. When there are as many, the
// oldest of the address that has the most gives way to one of an address that has fewer: it
// is not answered, and its sender asks again.
const maxEarly = 32

// Early keeps requests for services that nobody listens to yet, for a moment. Programs
// tell their peers by other ways that they are about to listen, and do so next; with
// adapters of hardware a peer's queue pair takes longer to make than that. The zero value
// keeps none.
type Early[T any] struct {
	// Grace is how long a request waits for a listener.
	Grace time.Duration

	all []early[T] // by their instants
}

type early[T any] struct {
	service mad.ServiceID
	from    netip.Addr
	due     clock.Instant
	request T
}

// Keep keeps a request that an address sent, and reports whether there is room for it.
func (e *Early[T]) Keep(now clock.Instant, s mad.ServiceID, from netip.Addr, request T) bool {
	if e.Grace <= 0 || len(e.all) >= maxEarly && !e.makeRoom(from) {
		return false
	}
	e.all = append(e.all, early[T]{s, from, now.Add(e.Grace), request})
	return true
}

// makeRoom drops the oldest request of the address that has the most, and reports false if
// that has no more than the address that asks would have.
func (e *Early[T]) makeRoom(from netip.Addr) bool {
	count := make(map[netip.Addr]int, maxEarly)
	largest := from
	for _, r := range e.all {
		if count[r.from]++; count[r.from] > count[largest] {
			largest = r.from
		}
	}
	if count[largest] <= count[from]+1 {
		return false
	}
	i := slices.IndexFunc(e.all, func(r early[T]) bool { return r.from == largest })
	e.all = slices.Delete(e.all, i, i+1)
	return true
}

// Listened makes the requests for a service due.
func (e *Early[T]) Listened(s mad.ServiceID) {
	var first, others []early[T]
	for _, r := range e.all {
		if r.service == s {
			r.due = 0
			first = append(first, r)
		} else {
			others = append(others, r)
		}
	}
	if len(first) > 0 {
		e.all = append(first, others...)
	}
}

// Due takes a request that is due, the one that came first.
func (e *Early[T]) Due(now clock.Instant) (request T, ok bool) {
	if len(e.all) == 0 || e.all[0].due > now {
		return request, false
	}
	request = e.all[0].request
	e.all = e.all[1:]
	if len(e.all) == 0 {
		e.all = nil
	}
	return request, true
}

// Deadline returns when a request is due next; clock.Never if none waits.
func (e *Early[T]) Deadline() clock.Instant {
	if len(e.all) == 0 {
		return clock.Never
	}
	return e.all[0].due
}

// request is a MAD that waits, with what is valid only while it is received.
type request struct {
	mad  mad.MAD
	from gsi.Received
}

// keep keeps a request for a service that nobody listens to, and reports whether it does.
func (x *stimulus) keep(m *Manager, s mad.ServiceID) bool {
	if x.late {
		return false
	}
	return m.early.Keep(x.now, s, x.from.From.Remote, x.copied())
}

// copied returns a message that outlives its packet.
func (x *stimulus) copied() *request {
	r := &request{mad: *x.from.MAD, from: *x.from}
	r.from.MAD = &r.mad
	return r
}

// take does what is to be done with a request whose wait is over.
func (r *request) take(now clock.Instant, m *Manager) {
	x := &stimulus{now: now, from: &r.from, tid: r.mad.Header().TID, late: true}
	if r.mad.Header().AttrID == mad.AttrREQ {
		m.receiveREQ(x)
	} else {
		m.receiveSIDRREQ(x)
	}
}
