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
	batch []ib.RecvWR // receives of one post
	wcs   [pollBatch]ib.WC
}

// drain is one queue pair of a sink.
type drain struct {
	qp    *verbs.QP
	recv  ib.RecvWR
	owed  int    // receives not posted again yet
	taken uint64 // messages received
}

// newSink returns a sink with all receives posted.
func newSink(own *localSide) (*sink, error) {
	depth := own.plan.Depth * recvSlack
	s := &sink{own: own, cq: own.cq, batch: make([]ib.RecvWR, depth)}
	for i, q := range own.qps {
		d := drain{qp: q, recv: ib.RecvWR{WRID: uint64(i)}, owed: depth}
		if own.plan.Op == Send {
			d.recv.SGList = own.inSGE(i)
		}
		s.lanes = append(s.lanes, d)
		if err := s.repost(&s.lanes[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *sink) repost(d *drain) error {
	wrs := s.batch[:d.owed]
	for i := range wrs {
		wrs[i] = d.recv
	}
	d.owed = 0
	return d.qp.PostRecv(wrs...)
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
		d := &s.lanes[wc.WRID]
		d.taken++
		if d.owed++; d.owed*4 >= len(s.batch) {
			if err := s.repost(d); err != nil {
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
