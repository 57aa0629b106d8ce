package hca_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/churn"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// The kinds of objects that a world churns.
const (
	kindPD = iota
	kindCQ
	kindSRQ
	kindMR
	kindAH
	kindQP
	kindMcast // attachments
	numKinds
)

// kinds has the maximum number of objects of each kind, and how to create and
// destroy them.
func (w *world) kinds() [kindMcast]kind {
	return [kindMcast]kind{
		kindPD:  {churn.Tide{Least: 30, Most: 100}, w.pds.Len, w.makePD, w.endPD},
		kindCQ:  {churn.Tide{Least: 30, Most: 200}, w.cqs.Len, w.makeCQ, w.endCQ},
		kindSRQ: {churn.Tide{Least: 30, Most: 200}, w.srqs.Len, w.makeSRQ, w.endSRQ},
		kindMR:  {churn.Tide{Most: 5000}, w.mrs.Len, w.makeMR, w.endMR},
		kindAH:  {churn.Tide{Most: 30000}, w.ahs.Len, w.makeAH, w.endAH},
		kindQP:  {churn.Tide{Most: 2000}, w.qps.Len, w.makeQP, w.endQP},
	}
}

type kind struct {
	tide        churn.Tide
	live        func() int
	create, end func()
}

// counted compares the adapter's numbers with the model's.
func (w *world) counted() {
	want := hca.Resources{PDs: w.pds.Len(), CQs: w.cqs.Len(), SRQs: w.srqs.Len(), QPs: w.qps.Len(), MRs: w.mrs.Len()}
	if got := w.hca.Resources(); got != want {
		w.t.Fatalf("the adapter has %+v, want %+v", got, want)
	}
}

// look compares samples of what is there and of what is not any more.
func (w *world) look() {
	w.counted()
	if w.rng.IntN(8) > 0 {
		return
	}
	if w.qps.Len() > 0 {
		w.nums.reach(w.qps.Pick(w.rng).q.Num())
	}
	if w.nums.dead.Len() > 0 {
		w.nums.reach(w.nums.dead.Pick(w.rng))
	}
	if w.mrs.Len() > 0 {
		if m := w.mrs.Pick(w.rng); m.r.LKey() != m.key || m.r.PD() != m.pd.pd.ID {
			w.t.Fatalf("region with key %#x of domain %d has %#x of %d", m.key, m.pd.pd.ID, m.r.LKey(), m.r.PD())
		}
	}
	if w.rng.IntN(4) == 0 { // the doorbells of those that ended
		w.hca.Single().Transmit(w.now, w.batch)
		if len(w.batch.Pending()) != 0 || w.hca.Single().Pending() {
			w.t.Fatal("an adapter on which nothing was posted has something to send")
		}
	}
}

// TestChurnObjects creates and destroys protection domains, CQs, SRQs, regions,
// address handles, queue pairs and multicast attachments in disorder, a quarter
// million of each: each step creates or destroys one of every kind. All numbers are those of the model; what has users stays; no number
// or handle names two; and in the end nothing is left.
func TestChurnObjects(t *testing.T) {
	l := hca.DefaultLimits()
	l.MaxMcastGrp, l.MaxMcastQPAttach, l.MaxTotalMcastQPAttach = 5, 40, 150
	w := newWorld(t, l)
	kinds, objects := w.kinds(), churn.Objects()/4
	for next := 0; slices.Min(w.made[:]) < objects; {
		for i := range kinds {
			if k := &kinds[i]; k.tide.Rises(w.rng, k.live()) {
				k.create()
				w.made[i]++
			} else {
				k.end()
			}
		}
		if w.mrs.Len() > 0 && w.rng.IntN(4) == 0 {
			w.changeMR()
		}
		for range min(w.qps.Len(), 2) {
			w.attach()
		}
		if w.look(); w.made[kindQP] >= next {
			next += objects / 20
			w.nums.same()
			w.handles()
		}
	}
	w.empty(&kinds)
	t.Logf("%v objects", w.made)
}

// empty destroys all that is left.
func (w *world) empty(kinds *[kindMcast]kind) {
	w.t.Helper()
	for _, i := range []int{kindQP, kindAH, kindMR, kindSRQ, kindCQ, kindPD} {
		for kinds[i].live() > 0 {
			kinds[i].end()
		}
	}
	w.counted()
	w.nums.same()
	if w.mc.attached != 0 || len(w.mc.groups) != 0 {
		w.t.Fatalf("%d attachments are left in the model", w.mc.attached)
	}
}

// handles sends to every live address handle and to some dead ones: a packet
// leaves for the address of the handle, or the work request fails.
func (w *world) handles() {
	w.t.Helper()
	pd, err := w.hca.AllocPD()
	w.must(err)
	cq, err := w.hca.CreateCQ(1, nil)
	w.must(err)
	senders := map[*pdModel]*udSender{}
	for _, a := range w.ahs.All {
		s := senders[a.pd]
		if s == nil {
			s = w.newSender(a.pd.pd, cq)
			senders[a.pd] = s
		}
		if status := s.send(a.h); status != ib.WCSuccess || len(w.batch.Pending()) != 1 || w.batch.Pending()[0].Path.Dst != a.dst {
			w.t.Fatalf("address handle %#x of %v: %v, %d runs", a.h, a.dst, status, len(w.batch.Pending()))
		}
		w.batch.Reset()
	}
	for range min(w.gone.Len(), 100) {
		s := w.newSender(pd, cq)
		if h := w.gone.Pick(w.rng); s.send(h) != ib.WCLocQPOpErr {
			w.t.Fatalf("dead address handle %#x is sent to", h)
		}
		s.end()
	}
	for _, s := range senders {
		s.end()
	}
	w.must(w.hca.CQs().Destroy(cq))
	w.must(pd.Dealloc())
}

// udSender is a queue pair that sends to address handles.
type udSender struct {
	w  *world
	pd *hca.PD
	cq *qp.CQ
	q  *qp.QP
}

func (w *world) newSender(pd *hca.PD, cq *qp.CQ) *udSender {
	w.t.Helper()
	q, err := w.hca.CreateQP(pd, hca.QPConfig{Type: ib.UD, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 1, MaxSendSGE: 1}, SigAll: true})
	w.must(err)
	w.nums.gave(q.Num())
	a := ib.QPAttr{Port: 1, QKey: 1}
	for _, m := range []struct {
		to   ib.QPState
		mask ib.AttrMask
	}{{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey}, {ib.RTR, 0}, {ib.RTS, ib.AttrSQPSN}} {
		a.State = m.to
		w.must(q.Modify(w.now, &a, m.mask|ib.AttrState))
	}
	return &udSender{w, pd, cq, q}
}

// send sends nothing to a handle and returns how that ended.
func (s *udSender) send(h ib.AHHandle) ib.WCStatus {
	s.w.t.Helper()
	_, err := s.q.PostSend(ib.SendWR{Opcode: ib.WRSend, AH: h, RemoteQPN: 5, RemoteQKey: 1})
	s.w.must(err)
	s.w.hca.Single().RingDoorbell(s.q)
	s.w.hca.Single().Transmit(s.w.now, s.w.batch)
	var wc [1]ib.WC
	if s.cq.Poll(wc[:]) != 1 {
		s.w.t.Fatal("a datagram without a completion")
	}
	return wc[0].Status
}

func (s *udSender) end() {
	s.w.hca.DestroyQP(s.pd, s.q)
	s.w.nums.died(s.q.Num())
}

// TestChurnHandles creates and destroys address handles of which few live at a
// time. A destroyed handle never names another address.
func TestChurnHandles(t *testing.T) {
	w := newWorld(t, hca.Limits{})
	tide := churn.Tide{Most: 10}
	for objects := churn.Objects(); w.made[kindAH] < objects; {
		if tide.Rises(w.rng, w.ahs.Len()) {
			w.makeAH()
			w.made[kindAH]++
		} else {
			w.endAH()
		}
	}
}

// TestChurnNumbers fills an adapter with queue pairs. With as many as there may
// be, of whose numbers few are free and not at rest, each that ends makes room
// for another: a number that rested comes back, and surely, as none would be
// left.
func TestChurnNumbers(t *testing.T) {
	w := newWorld(t, hca.Limits{})
	most := w.hca.Limits().MaxQP
	for range most {
		w.makeQP()
	}
	if _, err := w.hca.CreateQP(w.home().pd, hca.QPConfig{Type: ib.RC, SendCQ: w.cqs.All[0].cq, RecvCQ: w.cqs.All[0].cq}); !errors.Is(err, ib.ErrInsufficientResources) {
		t.Fatalf("one queue pair more than %d: %v", most, err)
	}
	for range churn.Objects() / 4 {
		w.endQP()
		w.makeQP()
		w.nums.reach(w.qps.Pick(w.rng).q.Num())
		w.nums.reach(w.nums.dead.Pick(w.rng))
	}
	w.nums.same()
	w.nums.allCameBack(1<<16 - 2 - most - numberRest)
	for w.qps.Len() > 0 {
		w.endQP()
	}
	w.nums.same()
	w.counted()
}
