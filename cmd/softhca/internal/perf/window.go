package perf

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// errNoWindow means that a server has not bound the memory windows that the client asked for.
var errNoWindow = errors.New("the server binds no memory windows: its softhca is older than this one")

// checkWindow returns an error if the plan asks for memory windows where there are none.
func (p *Plan) checkWindow() error {
	switch {
	case !p.Window:
		return nil
	case p.Op == Bind:
		return errors.New("bind already binds a memory window")
	case p.Op.info().right == 0:
		return fmt.Errorf("a memory window has no part in %v: its key is for write, write-imm, read, the atomics and atomic-write", p.Op)
	case !p.service().windows:
		return fmt.Errorf("a memory window with --type %s: a window of type 2 is bound to the queue pair that receives the requests, "+
			"by a request in its own send queue; that needs RC or UC", p.service().name)
	}
	return nil
}

// binds reports whether this side binds memory windows: the server for the requests of the
// client, or the client to measure binding.
func (s *localSide) binds() bool {
	return s.plan.Window && s.serves || s.plan.Op == Bind && !s.serves
}

// access returns the rights of a side's memory. Memory with windows has no remote rights itself.
func (s *localSide) access() ib.Access {
	if s.binds() {
		return ib.AccessLocalWrite | ib.AccessMWBind
	}
	return ib.AccessLocalWrite | ib.AccessRemote | ib.AccessFlushGlobal
}

// bind binds the window of each queue pair of the server. The window covers the message of the queue
// pair, and gives only the right that the operation needs.
func (s *localSide) bind() error {
	for i := range s.windows {
		b := s.windowOf(i)
		b.RKey = b.MW.RKey().Inc()
		if err := s.qps[i].PostSend(verbs.SendWR{Opcode: ib.WRBindMW, Flags: ib.SendSignaled, Bind: &b}); err != nil {
			return fmt.Errorf("bind a memory window on queue pair %d: %w", i, err)
		}
		if err := s.bound(); err != nil {
			return fmt.Errorf("bind a memory window on queue pair %d: %w", i, err)
		}
	}
	return nil
}

// windowOf describes the bind of the window of queue pair i, without the new key.
func (s *localSide) windowOf(i int) verbs.MWBind {
	return verbs.MWBind{
		MW: s.windows[i], MR: s.mr,
		Addr: s.mr.Addr() + uint64(s.offset(s.remote()+i)), Length: uint64(s.plan.Size), Access: s.plan.Op.info().right,
	}
}

// cycle alternately binds and invalidates the window of a lane.
type cycle struct {
	binds []verbs.MWBind // one for each request of a list
	key   ib.RKey        // of the last bind
}

// newCycle returns the requests of queue pair i.
func newCycle(own *localSide, i int) *cycle {
	return &cycle{slices.Repeat([]verbs.MWBind{own.windowOf(i)}, own.plan.PostList), own.windows[i].RKey()}
}

// fill makes wrs the next requests, the first of them request n of the lane.
func (c *cycle) fill(wrs []verbs.SendWR, n uint64) {
	for i := range wrs {
		if wr := &wrs[i]; (n+uint64(i))%2 != 0 {
			wr.Opcode, wr.InvRKey = ib.WRLocalInv, c.key
		} else {
			c.key = c.key.Inc()
			c.binds[i].RKey = c.key
			wr.Opcode, wr.Bind = ib.WRBindMW, &c.binds[i]
		}
	}
}

// bound waits for the completion of a bind.
func (s *localSide) bound() error {
	var wc [1]ib.WC
	for until := time.Now().Add(replyDue); ; {
		switch n, err := s.cq.Poll(wc[:]); {
		case err != nil:
			return err
		case n == 1 && wc[0].Status != ib.WCSuccess:
			return failure(&wc[0])
		case n == 1:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("no completion within %v", replyDue)
		}
	}
}
