package demo

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// The range of a memory window.
const (
	windowStart = 1024
	windowBytes = 256
)

// window is the scene of a memory window whose key is invalidated.
func (s *stage) window(ctx context.Context) error {
	s.title("A memory window: a key that dies")
	s.text(0, "B registers memory that gives A no right. On a new queue pair, B binds a memory window to %d bytes of it, which gives A a key to "+
		"write there, and nowhere else. Then B invalidates the key, and A uses it again.", windowBytes)
	r := [2]*adapter.Resources{adapter.NewResources(s.a.Device), adapter.NewResources(s.b.Device)}
	a, b := r[0].NewQP(s.a.pd, s.a.queues()), r[1].NewQP(s.b.pd, s.b.queues())
	mr, w := r[1].NewMR(s.b.pd, regionBytes/16, ib.AccessLocalWrite|ib.AccessMWBind), r[1].NewMW(s.b.pd, ib.MWType2)
	return inOrder(
		r[0].Err, r[1].Err,
		func() error { return s.joinByHand(a, b) },
		func() error { return s.bind(ctx, b, mr, w) },
		func() error { return s.through(ctx, a, mr, w) },
		func() error { return s.invalidate(ctx, b, w) },
		func() error { return s.tooLate(ctx, a, b, mr, w) },
		r[0].Close, r[1].Close)
}

// queues describes a queue pair that the connection manager does not connect.
func (n *node) queues() *verbs.QPInitAttr {
	return &verbs.QPInitAttr{Type: ib.RC, SendCQ: n.cq, RecvCQ: n.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}
}

// joinByHand connects a queue pair of A to a queue pair of B, without the connection manager. It
// does not draw their state transitions.
func (s *stage) joinByHand(a, b *verbs.QP) error {
	s.aTrace.record(false)
	s.bTrace.record(false)
	defer s.aTrace.record(true)
	defer s.bTrace.record(true)
	psn := [2]ib.PSN{ib.NewPSN(rand.Uint32()), ib.NewPSN(rand.Uint32())}
	for i, end := range [2]struct {
		own, peer *verbs.QP
		to        *node
	}{{a, b, s.b}, {b, a, s.a}} {
		attr := ib.QPAttr{
			Port: 1, AccessFlags: ib.AccessRemote, PathMTU: s.mtu, MaxRDAtomic: readDepth, MaxDestRDAtomic: readDepth,
			Timeout: ackTimeout, RetryCnt: retries, RNRRetry: retries,
			DestQPN: end.peer.QPN(), SQPSN: psn[i], RQPSN: psn[1-i],
			AV: ib.AHAttr{DGID: ib.GIDFromAddr(end.to.ip()), HopLimit: 64, Port: 1},
		}
		if err := adapter.Move(end.own, attr, ib.INIT, ib.RTR, ib.RTS); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
	}
	return nil
}

// bind binds the window on B's queue pair.
func (s *stage) bind(ctx context.Context, q *verbs.QP, mr *verbs.MR, w *verbs.MW) error {
	err := q.PostSend(verbs.SendWR{WRID: 11, Opcode: ib.WRBindMW, Flags: ib.SendSignaled, Bind: &verbs.MWBind{
		MW: w, RKey: w.RKey().Inc(), MR: mr, Addr: mr.Addr() + windowStart, Length: windowBytes, Access: ib.AccessRemoteWrite,
	}})
	if err != nil {
		return err
	}
	wc, err := s.b.next(ctx)
	if err != nil {
		return err
	}
	s.line("")
	s.check(wc.WRID == 11 && wc.Status == ib.WCSuccess, "B: BIND_MW completed: %d bytes at %#x have the key %#08x", windowBytes,
		mr.Addr()+windowStart, uint32(w.RKey()))
	return nil
}

// through writes through the window.
func (s *stage) through(ctx context.Context, q *verbs.QP, mr *verbs.MR, w *verbs.MW) error {
	if err := s.postOn(ctx, q, s.intoWindow(12, mr, w)); err != nil {
		return err
	}
	got := mr.Bytes()
	s.check(bytes.Equal(got[windowStart:][:windowBytes], s.a.part(source, windowBytes)) &&
		got[windowStart-1] == 0 && got[windowStart+windowBytes] == 0, "the bytes of the window have the data of A, and no other byte changed")
	return nil
}

// intoWindow returns a WRITE of A over the whole window.
func (s *stage) intoWindow(id uint64, mr *verbs.MR, w *verbs.MW) verbs.SendWR {
	return verbs.SendWR{
		WRID: id, Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{s.a.mr.SGE(source, windowBytes)}, RemoteAddr: mr.Addr() + windowStart, RKey: w.RKey(),
	}
}

// invalidate makes B invalidate the key of the window.
func (s *stage) invalidate(ctx context.Context, q *verbs.QP, w *verbs.MW) error {
	if err := q.PostSend(verbs.SendWR{WRID: 13, Opcode: ib.WRLocalInv, Flags: ib.SendSignaled, InvRKey: w.RKey()}); err != nil {
		return err
	}
	wc, err := s.b.next(ctx)
	if err != nil {
		return err
	}
	s.check(wc.WRID == 13 && wc.Status == ib.WCSuccess, "B: LOCAL_INV completed: the key %#08x is dead", uint32(w.RKey()))
	return nil
}

// tooLate writes once more with the dead key.
func (s *stage) tooLate(ctx context.Context, a, b *verbs.QP, mr *verbs.MR, w *verbs.MW) error {
	before := bytes.Clone(mr.Bytes())
	wr := s.intoWindow(14, mr, w)
	wr.Flags = ib.SendSignaled
	wr.SGList[0].Addr += windowBytes // other bytes than before
	if err := a.PostSend(wr); err != nil {
		return err
	}
	wc, err := s.a.next(ctx)
	if err != nil {
		return err
	}
	if err := inOrder(func() error { return s.b.eventOf(ctx, ib.EventQPAccessErr, b) }, s.b.settle); err != nil {
		return err
	}
	s.draw()
	s.check(wc.WRID == 14 && wc.Status == ib.WCRemAccessErr, "A: wr_id %d  RDMA_WRITE, dead key  %s  no window has this key now",
		wc.WRID, s.paint(red, wc.Status.String()))
	s.check(a.State() == ib.ERR && b.State() == ib.ERR, "both new queue pairs are in %s; the event at B is %s", s.paint(red, "ERR"),
		s.paint(yellow, ib.EventQPAccessErr.String()))
	s.check(bytes.Equal(before, mr.Bytes()), "B's memory is unchanged")
	return nil
}
