package verbs_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

var (
	stressSeed  = flag.Uint64("stress-seed", 1, "seed of the stress tests")
	stressLives = flag.Int("stress-lives", 60, "connections that each pair of queue pairs of a stress test goes through")
)

const (
	stressLanes     = 6  // pairs of queue pairs at once
	stressPosters   = 2  // of a lane
	stressEach      = 60 // messages of each poster in a life
	stressSendWR    = 16
	stressRecvWR    = 64
	stressCQE       = stressLanes*stressPosters*stressEach + 2*stressRecvWR // upper bound of the entries in any CQ
	stressWaitLimit = 30 * time.Second                                      // for each event that must happen
)

// stress is two adapters. One sends to the other on many queue pairs while these are
// moved, drained and destroyed. Goroutines poll only after a completion channel has
// woken them, so that one lost signal stops the test.
type stress struct {
	t    *testing.T
	ctx  context.Context // ends when all is done, or after a timeout
	stop func()          // ends ctx
	tx   *station
	rx   *station
	all  sync.WaitGroup // sleepers

	shared *queue // of tx
}

// station is one adapter, with one completion channel for all its CQs.
type station struct {
	*stress
	ctx *verbs.Context
	pd  *verbs.PD
	mr  *verbs.MR
	ch  *verbs.CompChannel

	srq    *verbs.SRQ
	limits atomic.Int32 // SRQ_LIMIT_REACHED taken
	armed  atomic.Int32 // times that the limit was armed

	mu     sync.Mutex // guards what follows
	queues map[*verbs.CQ]*queue
	lanes  map[ib.QPN]*lane
}

// queue is a completion queue, which several lanes may have.
type queue struct {
	st        *station
	cq        *verbs.CQ
	solicited bool // armed for solicited completions only
	woken     atomic.Int32
	mu        sync.Mutex // held while entries are polled and handled
}

func newStress(t *testing.T, c [2]verbs.Config) *stress {
	t.Logf("again with: -run '%s' -stress-seed %d -stress-lives %d", t.Name(), *stressSeed, *stressLives)
	s := &stress{t: t}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.tx, s.rx = s.station(c[0]), s.station(c[1])
	var err error
	s.rx.srq, err = s.rx.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 512, MaxSGE: 1})
	s.must(err)
	for range 256 {
		s.must(s.rx.srq.PostRecv(verbs.RecvWR{}))
	}
	s.rx.armLimit()
	s.shared = s.tx.addQueue(stressCQE, false)
	return s
}

func (s *stress) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stress) station(c verbs.Config) *station {
	st := &station{stress: s, ch: verbs.NewCompChannel(1024), queues: map[*verbs.CQ]*queue{}, lanes: map[ib.QPN]*lane{}}
	var err error
	st.ctx, err = verbs.Open(c)
	s.must(err)
	st.pd, err = st.ctx.AllocPD()
	s.must(err)
	st.mr, err = st.pd.RegMR(make([]byte, 4096), ib.AccessLocalWrite|ib.AccessRemote)
	s.must(err)
	for i := range 3 {
		s.all.Go(func() { st.sleep(i > 0) })
	}
	s.all.Go(st.waitEvents)
	s.all.Go(st.selectEvents)
	return st
}

// sleep handles the completions of the CQs that the channel delivers. It sleeps in Get if
// atPort is set, otherwise in a receive from C.
func (st *station) sleep(atPort bool) {
	ctx := st.stress.ctx
	for ctx.Err() == nil {
		var cq *verbs.CQ
		if atPort {
			cq, _ = st.ch.Get(ctx) // nil at the end
		} else {
			select {
			case cq = <-st.ch.C():
			case <-ctx.Done():
			}
		}
		st.mu.Lock()
		q := st.queues[cq]
		st.mu.Unlock()
		if q != nil { // not destroyed meanwhile
			q.drain()
		}
	}
}

// drain arms the CQ and then polls it until it is empty. If any completion should wake,
// it also arms the CQ for solicited ones, which must change nothing.
func (q *queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.woken.Add(1)
	if !q.solicited {
		_ = q.cq.ReqNotify(false) // fails if the CQ was destroyed
	}
	_ = q.cq.ReqNotify(true)
	var wcs [7]verbs.WC
	for n := 1; n > 0; {
		n, _ = q.cq.Poll(wcs[:]) // a destroyed CQ returns none
		for i := range n {
			q.take(&wcs[i])
		}
	}
}

// take hands a completion to the lane of its queue pair.
func (q *queue) take(wc *verbs.WC) {
	l := q.st.lane(wc.QPN)
	switch {
	case l == nil:
		q.st.t.Errorf("completion %+v of a queue pair that was destroyed", *wc)
	case q.st == l.tx:
		l.completed(wc)
	default:
		l.received(wc)
	}
}

// lane returns the lane of a queue pair.
func (st *station) lane(n ib.QPN) *lane {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.lanes[n]
}

// addQueue creates a CQ.
func (st *station) addQueue(size int, solicited bool) *queue {
	cq, err := st.ctx.CreateCQ(size, st.ch)
	st.must(err)
	q := &queue{st: st, cq: cq, solicited: solicited}
	st.mu.Lock()
	st.queues[cq] = q
	st.mu.Unlock()
	q.drain()
	return q
}

// waitEvents takes asynchronous events by GetAsyncEvent. selectEvents takes one event for
// each element of AsyncEventReady, as a program does that also waits for other channels.
func (st *station) waitEvents() {
	for {
		ev, err := st.ctx.GetAsyncEvent(st.stress.ctx)
		if err != nil {
			return
		}
		st.event(ev)
	}
}

func (st *station) selectEvents() {
	for {
		select {
		case <-st.ctx.AsyncEventReady():
			if ev, err := st.ctx.PollAsyncEvent(); err == nil {
				st.event(ev)
			}
		case <-st.stress.ctx.Done():
			return
		}
	}
}

// event passes an event to its object.
func (st *station) event(ev verbs.AsyncEvent) {
	switch {
	case ev.SRQ != nil && ev.Type == ib.EventSRQLimitReached:
		ev.Ack()
		if n := st.srq.Query().Limit; n != 0 {
			st.t.Errorf("the limit was reached and is armed for %d", n)
		}
		st.limits.Add(1)
		st.armLimit()
	case ev.QP != nil:
		l := st.lane(ev.QP.QPN())
		if l == nil {
			st.t.Errorf("%v about a queue pair that was destroyed", ev)
			return
		}
		select {
		case l.events <- ev:
		case <-l.ctx.Done():
		}
	default:
		st.t.Errorf("unexpected %v", ev)
	}
}

// armLimit makes the next consumed receive raise an event.
func (st *station) armLimit() {
	st.armed.Add(1)
	if err := st.srq.SetLimit(st.srq.Query().MaxWR); err != nil {
		st.t.Error(err)
	}
}

// lane is a pair of queue pairs, its completion queues, and the model of their current
// life: from connection to RESET or destruction.
type lane struct {
	*stress
	rng    *rand.Rand
	number int
	q      [2]*verbs.QP // of tx and rx
	cq     [2]*queue
	srq    bool
	events chan verbs.AsyncEvent

	mu      sync.Mutex // guards what follows; after that of a queue
	cond    sync.Cond
	life    int
	posted  [stressPosters]int // accepted by PostSend
	done    [stressPosters]int // completed
	success int
	got     [stressPosters]int // received
	recvs   int                // receives posted
	taken   int                // receives completed
	flushed [2]bool            // no later completion is successful
	ended   [2]bool            // no later completion arrives
	free    chan struct{}      // free entries of the send queue
	over    chan struct{}      // closed when posting should stop
}

// newLane creates a lane. Half of the lanes share a send CQ.
func (s *stress) newLane(n int) *lane {
	l := &lane{
		stress: s, number: n, rng: rand.New(rand.NewPCG(*stressSeed, uint64(n))), srq: n%3 == 0,
		events: make(chan verbs.AsyncEvent, 4),
	}
	l.cond.L = &l.mu
	if l.cq[0] = s.shared; n%2 == 1 {
		l.cq[0] = s.tx.addQueue(stressCQE, false)
	}
	l.cq[1] = s.rx.addQueue(stressCQE, n%2 == 0)
	return l
}

// id returns the work request ID of a request of this life.
func (l *lane) id(poster, seq int) uint64 {
	return uint64(l.life)<<32 | uint64(poster)<<16 | uint64(seq)
}

// completed is called with each send completion: each request completes once,
// in the order in which its poster posted, and none succeeds after one was
// flushed.
func (l *lane) completed(wc *verbs.WC) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.cond.Broadcast()
	p := int(wc.WRID >> 16 & 0xffff)
	if l.ended[0] || wc.WRID != l.id(p, l.done[p]) {
		l.t.Errorf("lane %d, life %d, ended %v: completion of request %#x, want %#x", l.number, l.life, l.ended, wc.WRID, l.id(p, l.done[p]))
		return
	}
	l.done[p]++
	switch {
	case wc.Status == ib.WCSuccess && !l.flushed[0]:
		l.success++
	case wc.Status == ib.WCWRFlushErr:
		l.flushed[0] = true
	default:
		l.t.Errorf("lane %d, life %d: completion %v after a flush: %v", l.number, l.life, wc.Status, l.flushed[0])
	}
	select {
	case l.free <- struct{}{}:
	default:
		l.t.Errorf("lane %d, life %d: more completions than requests", l.number, l.life)
	}
}

// received is called with each receive completion: each message arrives once,
// in the order of its poster.
func (l *lane) received(wc *verbs.WC) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.cond.Broadcast()
	if l.taken++; l.ended[1] {
		l.t.Errorf("lane %d, life %d: a receive completes after the end", l.number, l.life)
	}
	if wc.Status == ib.WCWRFlushErr {
		l.flushed[1] = true
		return
	}
	p, seq := int(wc.ImmData>>16), int(wc.ImmData&0xffff)
	if wc.Status != ib.WCSuccess || l.flushed[1] || p >= stressPosters || seq != l.got[p] {
		l.t.Errorf("lane %d, life %d: received %#x, %v, after a flush: %v", l.number, l.life, wc.ImmData, wc.Status, l.flushed[1])
		return
	}
	l.got[p]++
	l.repost()
}

// repost posts a completed receive again.
func (l *lane) repost() {
	var err error
	if l.srq {
		err = l.rx.srq.PostRecv(verbs.RecvWR{})
	} else {
		l.recvs++
		err = l.q[1].PostRecv(verbs.RecvWR{})
	}
	if err != nil {
		l.t.Errorf("lane %d, life %d: post a receive: %v", l.number, l.life, err)
	}
}

// await sleeps until ok returns true. A missing wake-up fails the test here.
func (l *lane) await(what string, ok func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	late, cancel := context.WithTimeout(l.ctx, stressWaitLimit)
	defer cancel()
	defer context.AfterFunc(late, l.cond.Broadcast)()
	for !ok() {
		if late.Err() != nil {
			l.stop()
			l.t.Errorf("lane %d, life %d waits for %s in vain: posted %v, completed %v, received %v, receives %d of %d, woken %d %d",
				l.number, l.life, what, l.posted, l.done, l.got, l.taken, l.recvs, l.cq[0].woken.Load(), l.cq[1].woken.Load())
			runtime.Goexit()
		}
		l.cond.Wait()
	}
}

// event waits for the only event that a queue pair must have. Until the event is
// acknowledged, the queue pair cannot be destroyed.
func (l *lane) event(q *verbs.QP, want ib.EventType) {
	select {
	case ev := <-l.events:
		if ev.Type != want || ev.QP != q {
			l.t.Errorf("lane %d, life %d: %v, want %v", l.number, l.life, ev, want)
		}
		if err := q.Destroy(); !errors.Is(err, verbs.ErrBusy) {
			l.t.Errorf("a queue pair with an event that is not acknowledged is destroyed: %v", err)
		}
		ev.Ack()
	case <-l.ctx.Done():
		runtime.Goexit()
	case <-time.After(stressWaitLimit):
		l.stop()
		l.t.Errorf("lane %d, life %d: %v does not come", l.number, l.life, want)
		runtime.Goexit()
	}
}
