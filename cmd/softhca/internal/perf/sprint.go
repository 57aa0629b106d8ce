package perf

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// pollBatch is the maximum number of completions of one poll.
const pollBatch = 64

// sprint keeps every queue pair of the client full.
type sprint struct {
	own   *localSide
	lanes []lane
	busy  int // lists outstanding on all lanes
	meter *meter
	trips *trips // nil after the measurement
	reply *reply // of the server
	idle  int    // polls
	wcs   [pollBatch]ib.WC
}

// lane is one queue pair. Its work requests are posted in lists, of which only
// the last is signalled.
type lane struct {
	qp     *verbs.QP
	list   []verbs.SendWR  // of one post
	free   int             // lists that may still be posted
	posted uint64          // messages
	cycle  *cycle          // of the window that the lane binds
	begun  []time.Duration // ring of the times, after the start, at which the outstanding lists were posted
	first  int             // index of the oldest time
}

func newSprint(own *localSide, peer *side) *sprint {
	s := &sprint{own: own, lanes: make([]lane, len(own.qps))}
	p := &own.plan
	for i := range s.lanes {
		wr := own.begin(i, peer)
		wr.WRID = uint64(i)
		if p.Op.info().fetches {
			wr.SGList = own.inSGE(i)
		}
		if p.Op == FetchAdd {
			wr.CompareAdd = 1
		}
		l := lane{qp: own.qps[i], free: p.Depth / p.PostList}
		if p.Op == Bind {
			l.cycle = newCycle(own, i)
		}
		l.begun = make([]time.Duration, l.free)
		for range p.PostList {
			l.list = append(l.list, wr)
		}
		l.list[len(l.list)-1].Flags = ib.SendSignaled
		s.lanes[i] = l
	}
	return s
}

// run posts for the given time, and then waits until all requests complete. If the
// server fails before, run still waits for the outstanding requests, because their
// status says more.
func (s *sprint) run(ctx context.Context, d time.Duration) error {
	s.meter.begin(d)
	for {
		more, err := s.meter.running(ctx)
		if err != nil {
			return err
		}
		over := s.reply.over.Load()
		if more && !over {
			err = s.fill()
		}
		switch {
		case err != nil:
			return err
		case s.busy == 0 && over:
			return errServerEnded
		case s.busy == 0:
			s.meter.stop()
			return nil
		}
		if err := s.poll(); err != nil {
			return err
		}
	}
}

// fill posts to every lane with room.
func (s *sprint) fill() error {
	for i := range s.lanes {
		for l := &s.lanes[i]; l.free > 0; {
			if err := s.post(l, l.list); err != nil {
				return err
			}
		}
	}
	return nil
}

// post posts work requests that end with a signalled one.
func (s *sprint) post(l *lane, wrs []verbs.SendWR) error {
	switch s.own.plan.Op {
	case CmpSwap:
		for i := range wrs {
			wrs[i].CompareAdd = l.posted + uint64(i)
			wrs[i].Swap = wrs[i].CompareAdd + 1
		}
	case Bind:
		l.cycle.fill(wrs, l.posted)
	}
	l.begun[(l.first+len(l.begun)-l.free)%len(l.begun)] = time.Since(s.meter.start)
	if err := l.qp.PostSend(wrs...); err != nil {
		return err
	}
	l.posted += uint64(len(wrs))
	l.free--
	s.busy++
	return nil
}

// poll polls completions, each of which ends a list.
func (s *sprint) poll() error {
	n, err := s.own.cq.Poll(s.wcs[:])
	if err != nil {
		return err
	}
	if s.idle++; n == 0 && s.idle%looks == 0 {
		if s.reply.closed.Load() {
			return errServerEnded
		}
		return s.own.lost()
	}
	if n > 0 && s.wcs[0].Status == ib.WCSuccess {
		s.meter.complete()
	}
	var now time.Duration
	if n > 0 {
		now = time.Since(s.meter.start)
	}
	for i := range n {
		wc := &s.wcs[i]
		if wc.Status != ib.WCSuccess {
			return failure(wc)
		}
		l := &s.lanes[wc.WRID]
		if s.trips != nil {
			s.trips.add(now - l.begun[l.first])
			s.meter.messages += uint64(len(l.list))
		}
		l.first = (l.first + 1) % len(l.begun)
		l.free++
		s.busy--
	}
	return nil
}

// finish sends one more message with new bytes on each lane, and checks what this side
// can check. read is the pattern that a READ returns.
func (s *sprint) finish(read uint64) (*done, error) {
	end := &done{Pattern: random()}
	op := s.own.plan.Op
	s.trips = nil
	for i := range s.lanes {
		l := &s.lanes[i]
		switch {
		case op.info().atomic:
			end.Messages = append(end.Messages, l.posted)
			if err := s.checkAtomic(i); err != nil {
				return nil, err
			}
			continue
		case op == Read:
			clear(s.own.in(i))
		default:
			newPattern(end.Pattern, i).fill(s.own.out(i))
		}
		if err := s.tail(l); err != nil {
			return nil, err
		}
		for s.busy > 0 {
			if err := s.poll(); err != nil {
				return nil, err
			}
		}
		if op == Read {
			if err := newPattern(read, i).check(s.own.in(i)); err != nil {
				return nil, fmt.Errorf("READ on queue pair %d returned wrong data: %w", i, err)
			}
		}
		end.Messages = append(end.Messages, l.posted)
	}
	return end, nil
}

// checkAtomic checks the value returned by the last atomic of a lane: each earlier one
// must have been executed exactly once.
func (s *sprint) checkAtomic(i int) error {
	n := s.lanes[i].posted
	if n == 0 {
		return nil
	}
	if v := binary.NativeEndian.Uint64(s.own.in(i)); v != n-1 {
		return fmt.Errorf("queue pair %d: atomic number %d returned %d instead of %d", i, n, v, n-1)
	}
	return nil
}
