package hca_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/churn"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
)

var (
	churnAddr = netip.MustParseAddr("10.0.0.1")
	churnCaps = fabric.Caps{Name: "churn", Addrs: []netip.Addr{churnAddr}, MTU: 65507, MaxSegments: 64, MaxRunBytes: 65000}
)

// churnSlot is the upper byte of the queue pair numbers.
const churnSlot = 0x5a

// world is an adapter under churn and the model of what is in it: lists of the
// objects, each with the count of its users.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	hca   *hca.HCA
	now   clock.Instant
	batch *fabric.Batch
	buf   []byte

	pds  churn.Pool[*pdModel]
	cqs  churn.Pool[*cqModel]
	srqs churn.Pool[*srqModel]
	mrs  churn.Pool[*mrModel]
	ahs  churn.Pool[*ahModel]
	qps  churn.Pool[*qpModel]
	nums numbers
	keys map[ib.LKey]bool     // the indices of live ones
	past map[ib.AHHandle]bool // all that ever were
	gone churn.Pool[ib.AHHandle]
	mc   mcastModel
	made [numKinds]int
}

type pdModel struct {
	pd    *hca.PD
	users int
}

type cqModel struct {
	cq    *qp.CQ
	users int
}

type srqModel struct {
	srq   *qp.SRQ
	pd    *pdModel
	users int
}

type mrModel struct {
	r   *memory.Region
	pd  *pdModel
	key ib.LKey
}

type ahModel struct {
	h   ib.AHHandle
	pd  *pdModel
	dst netip.Addr
}

type qpModel struct {
	q          *qp.QP
	pd         *pdModel
	send, recv *cqModel
	srq        *srqModel
	groups     map[ib.GID]bool
}

func newWorld(t *testing.T, l hca.Limits) *world {
	w := &world{t: t, rng: churn.Rand(t), buf: make([]byte, 64), batch: fabric.NewBatch(64<<10, churnCaps)}
	var err error
	w.hca, err = hca.New(hca.Config{
		Caps: churnCaps, NodeGUID: 1, Rand: w.rng.Uint32, QPNSlot: churnSlot, Limits: l,
		Settings: qp.Settings{InOrderOnly: true}, // the model knows the verbs' own timers, and no probes
	})
	w.must(err)
	w.nums = numbers{w: w, live: map[ib.QPN]bool{}, freed: map[ib.QPN]int{}}
	w.keys, w.past = map[ib.LKey]bool{}, map[ib.AHHandle]bool{}
	w.mc = mcastModel{groups: map[ib.GID]int{}}
	return w
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatalf("after %v objects: %v", w.made, err)
	}
}

// ends checks the outcome of destroying something that has users.
func (w *world) ends(what string, err error, users int) bool {
	if users == 0 {
		w.must(err)
		return true
	}
	if !errors.Is(err, ib.ErrBusy) {
		w.t.Fatalf("%s with %d users is destroyed: %v", what, users, err)
	}
	return false
}

// spared reports whether it is not tried to destroy something with users, which
// fails: it is, now and then.
func (w *world) spared(users int) bool { return users > 0 && w.rng.IntN(16) > 0 }

// first returns one of the first objects of a pool: few have users, so that the
// others can go.
func first[T any](w *world, p *churn.Pool[T], create func()) T {
	if p.Len() == 0 {
		create()
	}
	return p.All[w.rng.IntN(min(p.Len(), 16))]
}

// home returns the protection domain for a new object.
func (w *world) home() *pdModel { return first(w, &w.pds, w.makePD) }

func (w *world) makePD() {
	pd, err := w.hca.AllocPD()
	w.must(err)
	for _, p := range w.pds.All {
		if p.pd.ID == pd.ID {
			w.t.Fatalf("two protection domains are number %d", pd.ID)
		}
	}
	w.pds.Add(&pdModel{pd: pd})
}

func (w *world) endPD() {
	i := w.rng.IntN(w.pds.Len())
	p := w.pds.All[i]
	if w.spared(p.users) || !w.ends("protection domain", p.pd.Dealloc(), p.users) {
		return
	}
	w.pds.Drop(i)
	if w.rng.IntN(16) > 0 {
		return
	}
	if err := p.pd.Dealloc(); !errors.Is(err, ib.ErrInvalidPD) {
		w.t.Fatalf("a protection domain ends twice: %v", err)
	}
}

func (w *world) makeCQ() {
	cq, err := w.hca.CreateCQ(1, nil)
	w.must(err)
	w.cqs.Add(&cqModel{cq: cq})
}

func (w *world) endCQ() {
	i := w.rng.IntN(w.cqs.Len())
	if c := w.cqs.All[i]; !w.spared(c.users) && w.ends("CQ", w.hca.CQs().Destroy(c.cq), c.users) {
		w.cqs.Drop(i)
	}
}

func (w *world) makeSRQ() {
	pd := w.home()
	srq, err := pd.pd.CreateSRQ(1, 1, 0)
	w.must(err)
	pd.users++
	w.srqs.Add(&srqModel{srq: srq, pd: pd})
}

func (w *world) endSRQ() {
	i := w.rng.IntN(w.srqs.Len())
	if s := w.srqs.All[i]; !w.spared(s.users) && w.ends("SRQ", s.pd.pd.DestroySRQ(s.srq), s.users) {
		s.pd.users--
		w.srqs.Drop(i)
	}
}

// index returns the part of a key that no two live ones share.
func index(k ib.LKey) ib.LKey { return k >> 8 }

func (w *world) makeMR() {
	m := &mrModel{pd: w.home()}
	var err error
	m.r, err = m.pd.pd.RegMR(memory.RegionConfig{Buf: w.buf, Access: ib.AccessLocalWrite})
	w.must(err)
	m.pd.users++
	w.gaveKey(m)
	w.mrs.Add(m)
}

func (w *world) gaveKey(m *mrModel) {
	if m.key = m.r.LKey(); w.keys[index(m.key)] {
		w.t.Fatalf("key %#x is given out twice", m.key)
	}
	w.keys[index(m.key)] = true
}

func (w *world) endMR() {
	m := w.mrs.Take(w.rng)
	w.must(m.pd.pd.DeregMR(m.r))
	m.pd.users--
	delete(w.keys, index(m.key))
	if w.rng.IntN(16) > 0 {
		return
	}
	if err := m.pd.pd.DeregMR(m.r); err == nil {
		w.t.Fatalf("key %#x is deregistered twice", m.key)
	}
}

// changeMR moves a region to another protection domain, or gives it a new key.
func (w *world) changeMR() {
	m, to := w.mrs.Pick(w.rng), w.home()
	what := memory.ChangePD
	if w.rng.IntN(2) == 0 {
		what |= memory.ChangeTranslation
	}
	w.must(m.pd.pd.ReregMR(m.r, what, memory.RegionConfig{Buf: w.buf}, to.pd))
	m.pd.users--
	to.users++
	m.pd = to
	if what&memory.ChangeTranslation != 0 {
		old := m.key
		w.gaveKey(m)
		delete(w.keys, index(old))
	}
}

func (w *world) makeAH() {
	n := w.made[kindAH]
	a := &ahModel{pd: w.home(), dst: netip.AddrFrom4([4]byte{11, byte(n >> 16), byte(n >> 8), byte(n)})}
	var err error
	a.h, err = a.pd.pd.CreateAH(&ib.AHAttr{DGID: ib.GIDFromAddr(a.dst), HopLimit: 64, Port: 1})
	w.must(err)
	a.pd.users++
	if w.past[a.h] {
		w.t.Fatalf("address handle %#x of %v named another address before", a.h, a.dst)
	}
	w.past[a.h] = true
	w.ahs.Add(a)
}

func (w *world) endAH() {
	a := w.ahs.Take(w.rng)
	w.must(a.pd.pd.DestroyAH(a.h))
	a.pd.users--
	w.gone.Add(a.h)
	if w.rng.IntN(16) > 0 {
		return
	}
	if err := a.pd.pd.DestroyAH(w.gone.Pick(w.rng)); !errors.Is(err, ib.EINVAL) {
		w.t.Fatalf("an address handle is destroyed twice: %v", err)
	}
}

func (w *world) makeQP() {
	m := &qpModel{pd: w.home(), send: first(w, &w.cqs, w.makeCQ), recv: first(w, &w.cqs, w.makeCQ)}
	c := hca.QPConfig{
		Type: []ib.QPType{ib.RC, ib.UC, ib.UD}[w.rng.IntN(3)], SendCQ: m.send.cq, RecvCQ: m.recv.cq,
		Cap: ib.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	}
	if w.srqs.Len() > 0 && w.rng.IntN(3) == 0 {
		m.srq = first(w, &w.srqs, w.makeSRQ)
		m.pd, c.SRQ = m.srq.pd, m.srq.srq
	}
	var err error
	m.q, err = w.hca.CreateQP(m.pd.pd, c)
	w.must(err)
	w.use(m, 1)
	w.nums.gave(m.q.Num())
	w.qps.Add(m)
}

// use counts what a queue pair uses.
func (w *world) use(m *qpModel, by int) {
	m.pd.users += by
	m.send.users += by
	m.recv.users += by
	if m.srq != nil {
		m.srq.users += by
	}
}

func (w *world) endQP() {
	m := w.qps.Take(w.rng)
	if w.rng.IntN(4) == 0 { // the shard has not looked yet when it ends
		w.hca.Single().RingDoorbell(m.q)
	}
	w.hca.DestroyQP(m.pd.pd, m.q)
	w.use(m, -1)
	w.nums.died(m.q.Num())
	w.mc.left(m)
}

// numbers is the model of the queue pair numbers.
type numbers struct {
	w     *world
	live  map[ib.QPN]bool
	freed map[ib.QPN]int // how many were freed before it
	dead  churn.Pool[ib.QPN]
	count int // freed
}

// numberRest is how many queue pairs are destroyed before a number is used
// again.
const numberRest = 2048

func (n *numbers) gave(q ib.QPN) {
	if q>>16 != churnSlot || q&0xffff < 2 || n.live[q] {
		n.w.t.Fatalf("number %v is given out, of %d live ones", q, len(n.live))
	}
	if at, ok := n.freed[q]; ok {
		if n.count-at < numberRest {
			n.w.t.Fatalf("number %v rested for %d destroyed queue pairs", q, n.count-at)
		}
		delete(n.freed, q)
	}
	n.live[q] = true
}

func (n *numbers) died(q ib.QPN) {
	delete(n.live, q)
	n.freed[q] = n.count
	n.count++
	n.dead.Add(q)
}

// allCameBack checks that no number stays unused longer than chance allows,
// with one error in a million.
func (n *numbers) allCameBack(free int) {
	n.w.t.Helper()
	for q, at := range n.freed {
		if n.count-at > numberRest+24*free {
			n.w.t.Errorf("number %v was not used again while %d queue pairs were destroyed", q, n.count-at)
		}
	}
}

// reach sends a packet with a wrong ICRC to a number: it is dropped for that if
// the number is live, and because it has no queue pair otherwise.
func (n *numbers) reach(q ib.QPN) {
	before := n.w.hca.Counters()
	d := fabric.Datagram{
		Bytes: []byte{4, 0, 0xff, 0xff, 0, byte(q >> 16), byte(q >> 8), byte(q), 0, 0, 0, 0, 0, 0, 0, 0},
		Src:   netip.MustParseAddr("10.0.0.2"), Dst: churnAddr, DstPort: fabric.RoCEPort, IDKnown: true, HopLimit: 64,
	}
	n.w.hca.Single().Receive(n.w.now, &d)
	after := n.w.hca.Counters()
	want := counters.DropNoQP
	if n.live[q] {
		want = counters.DropICRC
	}
	if after.Drops[want] != before.Drops[want]+1 {
		n.w.t.Fatalf("a packet to number %v, live %v, is not dropped for %v", q, n.live[q], want)
	}
}

// same compares the queue pairs that the adapter finds with the live ones.
func (n *numbers) same() {
	n.w.t.Helper()
	found := 0
	n.w.hca.EachQP(func(q *qp.QP) {
		if found++; !n.live[q.Num()] {
			n.w.t.Errorf("queue pair %v is found and does not live", q.Num())
		}
	})
	if found != len(n.live) {
		n.w.t.Errorf("%d queue pairs are found, %d live", found, len(n.live))
	}
}

// mcastModel is the model of the multicast groups.
type mcastModel struct {
	groups   map[ib.GID]int // attachments
	attached int
}

func (m *mcastModel) left(q *qpModel) {
	for g := range q.groups {
		m.drop(g)
	}
	q.groups = nil
}

func (m *mcastModel) drop(g ib.GID) {
	m.attached--
	if m.groups[g]--; m.groups[g] == 0 {
		delete(m.groups, g)
	}
}

// attach attaches a queue pair to a group or detaches it.
func (w *world) attach() {
	m := w.qps.Pick(w.rng)
	g := ib.GIDFromAddr(netip.AddrFrom4([4]byte{239, 0, 0, byte(w.rng.IntN(6))}))
	if m.q.Type() != ib.UD {
		return
	}
	w.made[kindMcast]++
	if w.rng.IntN(3) == 0 {
		if err := w.hca.DetachMcast(m.q, g); (err == nil) != m.groups[g] {
			w.t.Fatalf("queue pair is attached: %v; detach: %v", m.groups[g], err)
		} else if err == nil {
			delete(m.groups, g)
			w.mc.drop(g)
		}
		return
	}
	added, err := w.hca.AttachMcast(m.q, g)
	l := w.hca.Limits()
	full := w.mc.groups[g] == 0 && len(w.mc.groups) == l.MaxMcastGrp ||
		w.mc.groups[g] == l.MaxMcastQPAttach || w.mc.attached == l.MaxTotalMcastQPAttach
	switch {
	case m.groups[g]:
		if added || err != nil {
			w.t.Fatalf("a queue pair is attached twice: %v", err)
		}
	case full != errors.Is(err, ib.ErrInsufficientResources), added == full:
		w.t.Fatalf("%d attachments in %d groups, %d in this: added %v, %v", w.mc.attached, len(w.mc.groups), w.mc.groups[g], added, err)
	case added:
		if m.groups == nil {
			m.groups = map[ib.GID]bool{}
		}
		m.groups[g] = true
		w.mc.groups[g]++
		w.mc.attached++
	}
}
