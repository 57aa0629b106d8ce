package cm

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// DefaultListenGrace is how long requests wait for a listener. On a busy
// processor, a program that announces its service over TCP may call listen a scheduling
// period or two after its peer connects.
const DefaultListenGrace = 20 * time.Millisecond

// maxEarly bounds the requests that wait for a listener. At the bound, a request from an
// address with fewer of them evicts the oldest of the address with the most, which goes
// unanswered and is repeated by its sender.
const maxEarly = 32

// Early briefly queues requests for services without a listener. Some programs tell their
// peers by other means to connect, and listen right after that; with hardware adapters,
// creating the peer's queue pair takes longer. The zero value queues none.
type Early[T any] struct {
	// Grace is how long a request waits for a listener.
	Grace time.Duration
	// Settled is when requests may be refused at the earliest.
	Settled clock.Instant

	all []early[T] // ordered by instant
}

type early[T any] struct {
	service mad.ServiceID
	from    netip.Addr
	due     clock.Instant
	request T
}

// Keep queues a request from an address, and reports whether there was room.
func (e *Early[T]) Keep(now clock.Instant, s mad.ServiceID, from netip.Addr, request T) bool {
	if e.Grace <= 0 || len(e.all) >= maxEarly && !e.makeRoom(from) {
		return false
	}
	e.all = append(e.all, early[T]{s, from, max(now.Add(e.Grace), e.Settled), request})
	return true
}

// makeRoom drops the oldest request of the address with the most requests. It reports
// false if from would then have as many as that address.
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

// Due removes and returns the oldest request that is due.
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

// Deadline returns when the next request is due; clock.Never if none waits.
func (e *Early[T]) Deadline() clock.Instant {
	if len(e.all) == 0 {
		return clock.Never
	}
	return e.all[0].due
}

// request is a queued MAD, with copies of data that is valid only during
// Receive.
type request struct {
	mad  mad.MAD
	from gsi.Received
}

// keep queues a request for a service without a listener, and reports whether it did.
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

// take processes a queued request whose wait is over.
func (r *request) take(now clock.Instant, m *Manager) {
	x := &stimulus{now: now, from: &r.from, tid: r.mad.Header().TID, late: true}
	if r.mad.Header().AttrID == mad.AttrREQ {
		m.receiveREQ(x)
	} else {
		m.receiveSIDRREQ(x)
	}
}
