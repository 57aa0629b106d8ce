package sim

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
)

// Every second end gives its peer no rights to its region, but a memory window of type 1 on it. The
// window dies where the region of other ends is deregistered: it is bound again, unbound, or
// deallocated, under requests that name its key.

// binder is a queue pair of a node that no packet comes to. Its program binds windows with it.
type binder struct {
	qp *qp.QP
	cq *qp.CQ
}

// openBinder creates the node's binder.
func (n *node) openBinder() {
	w := n.w
	cq, err := n.HCA.CreateCQ(4, nil)
	w.Must(err)
	q, err := n.HCA.CreateQP(n.PD, hca.QPConfig{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 1}, SigAll: true})
	w.Must(err)
	n.binder = binder{q, cq}
	a := ib.QPAttr{Port: 1, PathMTU: ib.MTU1024, DestQPN: q.Num(), Timeout: 14, AV: n.destination(0)}
	for st := ib.INIT; st <= ib.RTS; st++ {
		a.State = st
		need, _, _ := qp.Transition(ib.RC, st-1, st)
		w.Must(q.Modify(w.Now, &a, need|ib.AttrState))
	}
}

// closeBinder destroys the node's binder.
func (n *node) closeBinder() {
	n.HCA.DestroyQP(n.PD, n.binder.qp)
	n.w.Must(n.HCA.CQs().Destroy(n.binder.cq))
}

// binds reports whether a record is of the binder, and counts it.
func (n *node) binds(r *trace.Record) bool {
	if n.binder.qp == nil || r.QPN != n.binder.qp.Num() {
		return false
	}
	if r.Kind == trace.State {
		n.tally.moves++
	}
	return true
}

// bind posts a bind, which must succeed at once. Its completion may be late in a nasty adapter.
func (n *node) bind(b ib.MWBind) {
	w, wcs := n.w, [4]ib.WC{}
	_, err := n.binder.qp.PostSend(ib.SendWR{Opcode: ib.WRBindMW, Bind: &b})
	w.Must(err)
	n.HCA.Single().RingDoorbell(n.binder.qp)
	for n.wake(nil); n.carrier != nil && n.carrier.abandon(); n.wake(nil) {
	}
	done := wcs[:n.binder.cq.Poll(wcs[:])]
	if len(done) != 1 && !w.plan.on(nastiness) {
		w.Fail("liveness", "adapter %d: a bind of %+v does not complete at once", n.Index, b)
	}
	for i := range done {
		if done[i].Status != ib.WCSuccess || done[i].Opcode != ib.WCBindMW {
			w.Fail("status", "adapter %d: a bind of %+v completes as %+v", n.Index, b, done[i])
		}
	}
}

// rkey returns the key that the peer uses: of the window, if there is one.
func (a *area) rkey() ib.RKey {
	if b := a.binding; b != nil {
		if b.grant == nil {
			return 0
		}
		return b.grant.key
	}
	if a.mw != nil {
		return a.mw.RKey()
	}
	return a.mr.RKey()
}

// openWindow allocates the window of the remote area, if it has none, and binds it to all of the
// region.
func (s *space) openWindow() {
	a := &s.remote
	if a.binding != nil {
		a.binding.open()
		return
	}
	if a.mw == nil {
		var err error
		a.mw, err = s.pd.AllocMW(ib.MWType1)
		s.w.Must(err)
	}
	s.bindTo(a.mr.LKey(), a.mr.Addr(), a.mr.Len())
}

// died notes that the peer's key has ended.
func (s *space) died(why string) {
	s.w.Mark("M1 window died")
	s.resolve(why)
}

// bindTo binds the window to a part of the region, or with no bytes to nothing.
func (s *space) bindTo(key ib.LKey, addr, n uint64) {
	was := s.remote.mw.RKey()
	s.node.bind(ib.MWBind{RKey: was, NewRKey: was.Inc(), LKey: key, Addr: addr, Length: n, Access: ib.AccessRemote | ib.AccessFlush})
}

// way is how a window dies.
type way uint8

const (
	withRegion  way = iota // it is deallocated, and its region deregistered
	boundAgain             // to the same memory
	unbound                // and then bound again
	deallocated            // and another one allocated
	numWays
)

// way returns how the window dies this time: the ways take turns.
func (s *space) way() way { return way(s.deaths) % numWays }

// closeWindow ends the binding: the region can be deregistered afterwards.
func (s *space) closeWindow() {
	if s.way() == unbound {
		s.bindTo(0, 0, 0)
		return
	}
	s.w.Must(s.pd.DeallocMW(s.remote.mw))
	s.remote.mw = nil
}

// replaceWindow takes the peer's key away, while the region stays.
func (s *space) replaceWindow() {
	if s.way() == boundAgain {
		a := &s.remote
		s.bindTo(a.mr.LKey(), a.mr.Addr(), a.mr.Len())
		s.died("the window was bound again")
		return
	}
	s.closeWindow()
	s.died("the window was closed")
	s.openWindow()
}

// windowed reports whether the peer uses the remote area through a window.
func (s *space) windowed() bool { return s.access&ib.AccessMWBind != 0 }
