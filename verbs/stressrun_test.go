package verbs_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// begin connects the queue pairs, which it creates if there are none, and fills the
// receive queue. Each life has its own first PSNs, so that late packets of the previous
// life of the same queue pairs are not mistaken for packets of this one.
func (l *lane) begin() {
	l.mu.Lock()
	l.life++
	l.posted, l.done, l.got = [stressPosters]int{}, [stressPosters]int{}, [stressPosters]int{}
	l.success, l.recvs, l.taken, l.flushed, l.ended = 0, 0, 0, [2]bool{}, [2]bool{}
	l.over, l.free = make(chan struct{}), make(chan struct{}, stressSendWR)
	for range stressSendWR {
		l.free <- struct{}{}
	}
	l.mu.Unlock()
	for i, st := range []*station{l.tx, l.rx} {
		if l.q[i] != nil {
			continue
		}
		a := &verbs.QPInitAttr{
			Type: ib.RC, SendCQ: l.cq[i].cq, RecvCQ: l.cq[i].cq, SQSig: ib.SigAll,
			Cap: verbs.QPCap{MaxSendWR: stressSendWR, MaxRecvWR: stressRecvWR, MaxSendSGE: 1, MaxRecvSGE: 1},
		}
		if i == 1 && l.srq {
			a.SRQ = l.rx.srq
		}
		q, err := st.pd.CreateQP(a)
		l.must(err)
		l.mu.Lock()
		l.q[i] = q
		l.mu.Unlock()
		st.mu.Lock()
		st.lanes[q.QPN()] = l
		st.mu.Unlock()
	}
	psn := [2]ib.PSN{ib.NewPSN(l.rng.Uint32()), ib.NewPSN(l.rng.Uint32())}
	l.connect(0, l.rx, psn)
	l.connect(1, l.tx, psn)
	for range stressRecvWR {
		if !l.srq {
			l.mu.Lock()
			l.repost()
			l.mu.Unlock()
		}
	}
}

// connect moves a queue pair to RTS; psn are the first PSNs of both sides.
func (l *lane) connect(i int, peer *station, psn [2]ib.PSN) {
	a := verbs.QPAttr{
		Port: 1, PathMTU: ib.MTU1024, DestQPN: l.q[1-i].QPN(), SQPSN: psn[i], RQPSN: psn[1-i], MinRNRTimer: 1, Timeout: 16, RetryCnt: 7, RNRRetry: 7,
		AV: verbs.AHAttr{DGID: peer.ctx.QueryGID(0), HopLimit: 64, Port: 1},
	}
	for _, s := range []struct {
		to   ib.QPState
		mask ib.AttrMask
	}{
		{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags},
		{ib.RTR, ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer},
		{ib.RTS, ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrSQPSN | ib.AttrMaxRDAtomic},
	} {
		a.State = s.to
		l.must(l.q[i].Modify(&a, s.mask|ib.AttrState))
	}
}

// move moves a queue pair to a state without attributes.
func (l *lane) move(i int, to ib.QPState) {
	l.must(l.q[i].Modify(&verbs.QPAttr{State: to}, ib.AttrState))
}

// post posts the messages of one poster until all are posted, or the life is
// over and posting fails.
func (l *lane) post(q *verbs.QP, p int) {
	for seq := range stressEach {
		select {
		case <-l.free:
		case <-l.over:
			return
		case <-l.ctx.Done():
			return
		}
		wr := verbs.SendWR{WRID: l.id(p, seq), Opcode: ib.WRSendWithImm, ImmData: uint32(p)<<16 | uint32(seq)}
		if seq%8 == 7 || seq == stressEach-1 {
			wr.Flags = ib.SendSolicited
		}
		l.mu.Lock()
		l.posted[p]++
		l.mu.Unlock()
		if err := q.PostSend(wr); err != nil {
			l.mu.Lock()
			l.posted[p]--
			l.mu.Unlock()
			if !errors.Is(err, ib.EINVAL) {
				l.t.Errorf("lane %d, life %d: post: %v", l.number, l.life, err)
			}
			select { // it was moved or destroyed
			case <-l.over:
			case <-l.ctx.Done():
			}
			return
		}
	}
}

// live runs one life: two posters post while a randomly chosen disturbance happens.
func (l *lane) live() {
	l.begin()
	var posters sync.WaitGroup
	q := l.q[0] // the end of the life may replace l.q[0]
	for p := range stressPosters {
		posters.Go(func() { l.post(q, p) })
	}
	at := l.rng.IntN(stressPosters * stressEach)
	l.await("some completions", func() bool { return l.success >= at*3/4 })
	switch l.rng.IntN(5) {
	case 0: // all of it arrives
	case 1, 2: // drained in between, and the CQs get another size
		l.must(l.q[0].Modify(&verbs.QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState|ib.AttrEnSQDAsyncNotify))
		l.event(l.q[0], ib.EventSQDrained)
		l.must(l.cq[0].cq.Resize(stressCQE + l.rng.IntN(stressCQE)))
		l.must(l.cq[1].cq.Resize(stressCQE + l.rng.IntN(stressCQE)))
		l.move(0, ib.RTS)
	case 3: // it fails while posting continues
		l.move(0, ib.ERR)
	case 4: // its requests are discarded without completions
		l.end(0, l.rng.IntN(2) == 0)
		close(l.over)
		posters.Wait()
		l.finish(false)
		return
	}
	posters.Wait()
	l.await("the completions of all that was posted", func() bool { return l.done == l.posted })
	l.await("all that was sent", func() bool { return l.flushed[0] || l.got == l.posted })
	close(l.over)
	l.finish(true)
}

// finish ends the life of the receiver, compares the results with the model, and
// continues with the same queue pairs or with new ones.
func (l *lane) finish(sender bool) {
	l.move(1, ib.ERR)
	if l.srq {
		l.event(l.q[1], ib.EventQPLastWQEReached)
	} else {
		l.await("the flush of all receives", func() bool { return l.taken == l.recvs })
	}
	l.cq[1].drain()
	l.mu.Lock()
	got := 0
	for p := range l.got {
		if got += l.got[p]; l.got[p] > stressEach || sender && l.got[p] > l.posted[p] {
			l.t.Errorf("lane %d, life %d: received %v, posted %v", l.number, l.life, l.got, l.posted)
		}
	}
	if got < l.success {
		l.t.Errorf("lane %d, life %d: %d messages arrived, of %d that were acknowledged", l.number, l.life, got, l.success)
	}
	l.mu.Unlock()
	reuse := l.rng.IntN(2) == 0
	if sender {
		l.end(0, reuse)
	}
	l.end(1, reuse)
}

// end moves a queue pair to RESET or destroys it. Afterwards it has no completions.
func (l *lane) end(i int, reuse bool) {
	q, st := l.q[i], []*station{l.tx, l.rx}[i]
	if reuse {
		l.move(i, ib.RESET)
	} else {
		l.must(q.Destroy())
	}
	l.cq[i].mu.Lock() // waits until earlier completions were handled
	defer l.cq[i].mu.Unlock()
	if !reuse {
		st.mu.Lock()
		delete(st.lanes, q.QPN())
		st.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[i] = true; !reuse {
		l.q[i] = nil
	}
}

// run goes through all lives of a lane.
func (l *lane) run() {
	for range *stressLives {
		if l.live(); l.t.Failed() {
			return
		}
	}
	for i, st := range []*station{l.tx, l.rx} {
		if l.q[i] != nil {
			l.end(i, false)
		}
		if l.cq[i] != l.shared {
			st.must(l.cq[i].cq.Destroy())
		}
	}
	select {
	case ev := <-l.events:
		l.t.Errorf("lane %d: %v that nothing has caused", l.number, ev)
	default:
	}
}

// churn registers and deregisters memory during the traffic.
func (st *station) churn(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
			mr, err := st.pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
			if err == nil {
				err = mr.Dereg()
			}
			if err != nil {
				st.t.Error(err)
				return
			}
			runtime.Gosched()
		}
	}
}

// close destroys the remaining objects, and checks that the adapter has none left.
func (st *station) close() {
	if st.srq != nil {
		st.must(st.srq.Destroy())
	}
	st.must(st.mr.Dereg())
	st.must(st.pd.Dealloc())
	r, err := st.ctx.Resources()
	st.must(err)
	if r != (verbs.Resources{}) {
		st.t.Errorf("left behind: %+v", r)
	}
	if ev, err := st.ctx.PollAsyncEvent(); err == nil {
		st.t.Errorf("left behind: %v", ev)
	}
	st.must(st.ctx.Close())
}

// test runs the lanes and checks that nothing is left.
func (s *stress) test() {
	var lanes, others sync.WaitGroup
	done := make(chan struct{})
	for n := range stressLanes {
		lanes.Go(s.newLane(n).run)
	}
	others.Go(func() { s.tx.churn(done) })
	lanes.Wait()
	close(done)
	others.Wait()
	if s.t.Failed() {
		s.stop()
		_, _ = s.tx.ctx.Close(), s.rx.ctx.Close()
		s.all.Wait()
		return
	}
	// The limit is armed, or it was reached and its event has come.
	for end := time.Now().Add(stressWaitLimit); s.rx.limits.Load() != s.rx.armed.Load()-1 || s.rx.srq.Query().Limit == 0; {
		if time.Now().After(end) {
			s.t.Fatalf("the limit was armed %d times, its event came %d times", s.rx.armed.Load(), s.rx.limits.Load())
		}
		runtime.Gosched()
	}
	s.stop()
	s.all.Wait()
	s.must(s.shared.cq.Destroy())
	s.tx.close()
	s.rx.close()
}

// stressAddr returns one of two addresses of 127.128.0.0/9 that no concurrent process
// with these tests uses.
func stressAddr(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 128+pid>>8&63, pid&255, n)
}

// TestStress posts, arms, sleeps, drains, fails, resets and destroys in many goroutines
// on two adapters, and compares the results with a model: each posted request completes
// once, in order, unless its queue pair is reset or destroyed; each message arrives
// once, in order; each event is delivered; no goroutine sleeps forever, and no object
// is left.
func TestStress(t *testing.T) {
	for where, open := range map[string]func() [2]verbs.Config{
		"in process": func() [2]verbs.Config {
			n := verbs.NewNetwork()
			return [2]verbs.Config{{Addr: "10.0.0.1", Network: n}, {Addr: "10.0.0.2", Network: n}}
		},
		"udp": func() [2]verbs.Config {
			return [2]verbs.Config{{Addr: stressAddr(1), Wire: verbs.WireUDP}, {Addr: stressAddr(2), Wire: verbs.WireUDP}}
		},
		"host": func() [2]verbs.Config { return [2]verbs.Config{{Addr: stressAddr(3)}, {Addr: stressAddr(4)}} },
	} {
		t.Run(where, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			newStress(t, open()).test()
			if !t.Failed() { // after a failure goroutines may still wait
				goleak.VerifyNone(t, before)
			}
		})
	}
}
