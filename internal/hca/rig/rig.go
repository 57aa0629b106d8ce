package rig

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/roce"
)

// Rig is two adapters joined in virtual time.
type Rig struct {
	T     testing.TB
	Now   clock.Instant
	Sides [2]*Side
	// Drop, if set, is called for every packet; true drops it.
	Drop func(from int, p *roce.Packet) bool
}

// Side is one adapter with the usual objects.
type Side struct {
	virtual.Adapter
	Addr   netip.Addr
	CQ     *qp.CQ
	QP     *qp.QP
	MR     *memory.Region
	Buf    []byte
	Events []qp.Event
	// OnEvent, if set, is called for every event.
	OnEvent func(qp.Event)
}

// Latency is the one-way time of a packet.
const Latency = 10 * time.Microsecond

// New returns two adapters with a queue pair each, in RESET.
func New(t testing.TB, typ ib.QPType, cap ib.QPCap) *Rig {
	r := &Rig{T: t}
	for i := range r.Sides {
		r.Sides[i] = Config{Type: typ, Cap: cap, Bytes: 4 << 20}.NewSide(t, byte(i+1))
	}
	return r
}

// Addr is the address of side n-1.
func Addr(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, n}) }

// Config configures a side.
type Config struct {
	HCA   hca.Config // Caps, Rand, Raise and MigReq are filled in
	Type  ib.QPType
	Cap   ib.QPCap
	Bytes int // of the memory region
	// Challenge enables challenges. Without it each claim of a packet is believed at once,
	// so that a test shows one rule.
	Challenge bool
}

// NewSide makes side n-1.
func (c Config) NewSide(t testing.TB, n byte) *Side {
	t.Helper()
	s := &Side{Addr: Addr(n)}
	cfg := c.HCA
	cfg.Settings.MigReq = true
	cfg.Settings.NoChallenge = !c.Challenge
	s.open(t, cfg, uint64(n), memory.RegionConfig{Buf: make([]byte, c.Bytes)})
	var err error
	s.QP, err = s.HCA.CreateQP(s.PD, hca.QPConfig{Type: c.Type, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: c.Cap, SigAll: true})
	Must(t, err)
	return s
}

// open makes the adapter, with random numbers from a seed, and its usual
// objects, except the queue pair.
func (s *Side) open(t testing.TB, c hca.Config, seed uint64, mr memory.RegionConfig) {
	t.Helper()
	c.Caps, c.Rand = virtual.Caps(s.Addr), rand.New(rand.NewPCG(seed, 7)).Uint32
	c.NodeGUID = cmp.Or(c.NodeGUID, seed)
	c.Raise = func(e qp.Event) {
		s.Events = append(s.Events, e)
		if s.OnEvent != nil {
			s.OnEvent(e)
		}
	}
	Must(t, s.Open(c, 256<<10))
	var err error
	s.CQ, err = s.HCA.CreateCQ(1024, nil)
	Must(t, err)
	mr.Access, mr.Durable = cmp.Or(mr.Access, ib.AccessLocalWrite|ib.AccessRemote|ib.AccessFlush), true
	s.Buf = mr.Buf
	s.MR, err = s.PD.RegMR(mr)
	Must(t, err)
}

// Must fails the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// SGE returns an element of the side's region.
func (s *Side) SGE(off, n int) ib.SGE {
	return ib.SGE{Addr: s.MR.Addr() + uint64(off), Length: uint32(n), LKey: s.MR.LKey()}
}

// InitMask are the attributes of a connected service for INIT; the others are
// those of RC for RTR and RTS.
const (
	InitMask = ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags
	rtrMask  = ib.AttrState | ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer
	rtsMask  = ib.AttrState | ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrSQPSN | ib.AttrMaxRDAtomic
)

// Attrs returns the attributes that connect side i to the other one.
func (r *Rig) Attrs(i int, mtu ib.MTU) ib.QPAttr {
	peer := r.Sides[1-i]
	return ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote | ib.AccessFlush, PathMTU: mtu, DestQPN: peer.QP.Num(),
		RQPSN: ib.NewPSN(0x1000 * uint32(2-i)), SQPSN: ib.NewPSN(0x1000 * uint32(i+1)),
		MaxDestRDAtomic: 4, MaxRDAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(peer.Addr), HopLimit: 64, Port: 1},
	}
}

// Connect moves both QPs of a connected service to RTS.
func (r *Rig) Connect(mtu ib.MTU) *Rig {
	r.T.Helper()
	for i := range r.Sides {
		r.Walk(i, r.Attrs(i, mtu), ib.RTS)
	}
	return r
}

// Walk moves side i's QP from RESET to a state.
func (r *Rig) Walk(i int, a ib.QPAttr, to ib.QPState) {
	r.T.Helper()
	q := r.Sides[i].QP
	masks := map[ib.QPState]ib.AttrMask{ib.INIT: InitMask, ib.RTR: rtrMask, ib.RTS: rtsMask}
	switch q.Type() {
	case ib.UC:
		masks[ib.RTR] &^= ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer
		masks[ib.RTS] = ib.AttrState | ib.AttrSQPSN
	case ib.UD:
		masks[ib.INIT] = ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey
		masks[ib.RTR] = ib.AttrState
		masks[ib.RTS] = ib.AttrState | ib.AttrSQPSN
	}
	for _, st := range []ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		a.State = st
		Must(r.T, q.Modify(r.Now, &a, masks[st]))
		if st == to {
			return
		}
	}
}

// Post posts sends on side i and rings the doorbell.
func (r *Rig) Post(i int, wrs ...ib.SendWR) {
	r.T.Helper()
	if _, err := r.Sides[i].QP.PostSend(wrs...); err != nil {
		r.T.Fatal(err)
	}
	r.Sides[i].HCA.Single().RingDoorbell(r.Sides[i].QP)
}

// Recv posts receives on side i.
func (r *Rig) Recv(i int, wrs ...ib.RecvWR) {
	r.T.Helper()
	if _, err := r.Sides[i].QP.PostRecv(wrs...); err != nil {
		r.T.Fatal(err)
	}
}

// Transmit transmits packets of side i to the other side and reports whether
// there were any.
func (r *Rig) Transmit(i int) bool {
	s, peer := r.Sides[i], r.Sides[1-i]
	s.HCA.Single().Transmit(r.Now, s.Batch)
	runs := s.Batch.Pending()
	if len(runs) == 0 {
		return false
	}
	var p roce.Packet
	for k := range runs {
		run := &runs[k]
		if r.Drop == nil {
			d := virtual.Arrival(run, 0, run.Count)
			peer.HCA.Single().Receive(r.Now, &d)
			continue
		}
		for j := range run.Count {
			seg := run.Segment(j)
			if f := p.Parse(seg); f != roce.FaultNone {
				r.T.Fatalf("side %d sent bytes that are no packet: %v", i, f)
			}
			if r.Drop(i, &p) {
				continue
			}
			d := virtual.Arrival(run, j, j+1)
			peer.HCA.Single().Receive(r.Now, &d)
		}
	}
	s.Batch.Reset()
	return true
}

// Run delivers packets until there are none, then advances time to the next
// timer, until done returns true or no timer is left within limit.
func (r *Rig) Run(limit time.Duration, done func() bool) {
	r.T.Helper()
	end := r.Now.Add(limit)
	for !done() {
		moved := r.Transmit(0)
		moved = r.Transmit(1) || moved
		if moved {
			r.Now = r.Now.Add(Latency)
			continue
		}
		next := min(r.Sides[0].HCA.Single().Deadline(), r.Sides[1].HCA.Single().Deadline())
		if next > end {
			return
		}
		r.Now = max(r.Now, next)
		for _, s := range r.Sides {
			s.HCA.Single().Advance(r.Now)
		}
	}
}

// Poll returns all completions of side i.
func (r *Rig) Poll(i int) []ib.WC {
	wcs := make([]ib.WC, 1024)
	return wcs[:r.Sides[i].CQ.Poll(wcs)]
}

// Fill writes a pattern that differs by seed.
func Fill(b []byte, seed uint64) {
	src := rand.New(rand.NewPCG(seed, seed))
	for i := range b {
		b[i] = byte(src.Uint32())
	}
}

// Cap is the size of queues that most tests use.
var Cap = ib.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64}
