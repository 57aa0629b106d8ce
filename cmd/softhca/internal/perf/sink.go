package perf

import (
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// sink is a server that receives messages: it keeps receives posted.
type sink struct {
	own   *localSide
	cq    *verbs.CQ
	lanes []drain
	byQPN map[ib.QPN]int // index of the lane; nil unless the lanes share a receive queue
	batch []ib.RecvWR    // receives of one post
	wcs   [pollBatch]ib.WC
}

// drain is one queue pair of a sink.
type drain struct {
	pool  *pool
	taken uint64 // messages received
	last  int    // index of the place that contains the last one
}

// pool keeps receives posted to one queue, which belongs to a queue pair, or which all share.
type pool struct {
	queue int         // index of the queue pair
	recvs []ib.RecvWR // posted in turn; each has the index of its place as ID
	next  int         // index of the receive to post next
	owed  int         // receives not posted again yet
}

// newSink returns a sink with all receives posted.
func newSink(own *localSide) (*sink, error) {
	depth := own.plan.Depth * recvSlack
	common := (*pool)(nil)
	s := &sink{own: own, cq: own.cq}
	if own.shared != nil {
		depth = own.receives()
		common, s.byQPN = &pool{}, map[ib.QPN]int{}
	}
	s.batch = make([]ib.RecvWR, depth)
	for i, q := range own.qps {
		p := common
		if common == nil {
			p = &pool{queue: i}
		} else {
			s.byQPN[q.QPN()] = i
		}
		p.owed = depth
		wr := ib.RecvWR{WRID: uint64(i)}
		if own.plan.Op == Send {
			wr.SGList = own.inSGE(i)
		}
		p.recvs = append(p.recvs, wr)
		s.lanes = append(s.lanes, drain{pool: p})
	}
	for i := range s.lanes {
		if err := s.repost(s.lanes[i].pool); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// repost posts the receives that a pool owes. Consecutive receives of a common pool are for different
// places, so that the last messages of all queue pairs, which arrive one after another, are too.
func (s *sink) repost(p *pool) error {
	wrs := s.batch[:p.owed]
	for i := range wrs {
		wrs[i] = p.recvs[p.next]
		if p.next++; p.next == len(p.recvs) {
			p.next = 0
		}
	}
	p.owed = 0
	return s.own.postRecv(p.queue, wrs...)
}

// lane returns the queue pair whose message completed a receive.
func (s *sink) lane(wc *ib.WC) *drain {
	if s.byQPN != nil {
		return &s.lanes[s.byQPN[wc.QPN]]
	}
	return &s.lanes[wc.WRID]
}

// run receives until stop returns true.
func (s *sink) run(stop func() bool) error {
	for i := 1; ; i++ {
		n, err := s.poll()
		if err != nil {
			return err
		}
		if n == 0 && stop() {
			return s.own.lost()
		}
		if i%looks == 0 {
			if err := s.own.lost(); err != nil {
				return err
			}
		}
	}
}

// poll polls completions and posts receives again in batches.
func (s *sink) poll() (int, error) {
	n, err := s.cq.Poll(s.wcs[:])
	if err != nil {
		return 0, err
	}
	for i := range n {
		wc := &s.wcs[i]
		if wc.Status != ib.WCSuccess {
			return n, failure(wc)
		}
		d := s.lane(wc)
		d.taken++
		d.last = int(wc.WRID)
		if d.pool.owed++; d.pool.owed*4 >= len(s.batch) {
			if err := s.repost(d.pool); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// messages returns the number of messages that have arrived.
func (s *sink) messages() (n uint64) {
	for i := range s.lanes {
		n += s.lanes[i].taken
	}
	return n
}

// settle polls the completions of all messages that the client reports as sent. For an
// unreliable service the completions were taken before, and some may be missing.
func (s *sink) settle(messages []uint64, reliable bool) error {
	for i := range s.lanes {
		if n := s.lanes[i].taken; !reliable && n > messages[i] {
			return fmt.Errorf("queue pair %d received %d messages, sent were %d", i, n, messages[i])
		}
	}
	if !reliable {
		return nil
	}
	for until := time.Now().Add(replyDue); ; {
		missing := -1
		for i := range s.lanes {
			if s.lanes[i].taken < messages[i] {
				missing = i
			}
		}
		if missing < 0 {
			break
		}
		if _, err := s.poll(); err != nil {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("queue pair %d received %d messages of %d", missing, s.lanes[missing].taken, messages[missing])
		}
	}
	for i := range s.lanes {
		if s.lanes[i].taken != messages[i] {
			return fmt.Errorf("queue pair %d received %d messages, sent were %d", i, s.lanes[i].taken, messages[i])
		}
	}
	return nil
}
