package hca

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// rig is two adapters joined in virtual time.
type rig struct {
	t    testing.TB
	now  clock.Instant
	side [2]*rigSide
	// drop, if set, is asked about every packet; true loses it.
	drop func(from int, p *roce.Packet) bool
}

// rigSide is one adapter with the usual objects.
type rigSide struct {
	addr   netip.Addr
	hca    *HCA
	batch  *fabric.Batch
	pd     *PD
	cq     *qp.CQ
	qp     *qp.QP
	mr     *memory.Region
	buf    []byte
	events []qp.Event
}

// rigLatency is the one-way time of a packet.
const rigLatency = 10 * time.Microsecond

func newRig(t testing.TB, typ ib.QPType, cap ib.QPCap) *rig {
	r := &rig{t: t}
	for i := range r.side {
		r.side[i] = rigConfig{typ: typ, cap: cap, bytes: 4 << 20}.newSide(t, byte(i+1))
	}
	return r
}

// rigAddr is the address of side n-1.
func rigAddr(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, n}) }

// rigConfig says what a side is made of.
type rigConfig struct {
	hca   Config // Caps, Rand, Raise and MigReq are filled in
	typ   ib.QPType
	cap   ib.QPCap
	bytes int // of the memory region
}

// newSide makes side n-1.
func (c rigConfig) newSide(t testing.TB, n byte) *rigSide {
	t.Helper()
	s := &rigSide{addr: rigAddr(n)}
	caps := fabric.Caps{Name: "rig", Addrs: []netip.Addr{s.addr}, MTU: 65507, MaxSegments: 64, MaxRunBytes: 65000}
	src := rand.New(rand.NewPCG(uint64(n), 7))
	var err error
	cfg := c.hca
	cfg.Caps, cfg.Rand, cfg.Settings.MigReq = caps, src.Uint32, true
	cfg.NodeGUID = cmp.Or(cfg.NodeGUID, uint64(n))
	cfg.Raise = func(e qp.Event) { s.events = append(s.events, e) }
	s.hca, err = New(cfg)
	must(t, err)
	s.batch = fabric.NewBatch(256<<10, caps)
	s.pd, err = s.hca.AllocPD()
	must(t, err)
	s.cq, err = s.hca.CreateCQ(1024, nil)
	must(t, err)
	s.buf = make([]byte, c.bytes)
	s.mr, err = s.pd.RegMR(memory.RegionConfig{Buf: s.buf, Access: ib.AccessLocalWrite | ib.AccessRemote})
	must(t, err)
	s.qp, err = s.hca.CreateQP(s.pd, QPConfig{Type: c.typ, SendCQ: s.cq, RecvCQ: s.cq, Cap: c.cap, SigAll: true})
	must(t, err)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sge returns an element of the side's region.
func (s *rigSide) sge(off, n int) ib.SGE {
	return ib.SGE{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}
}

const (
	rigInit = ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags
	rigRTR  = ib.AttrState | ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer
	rigRTS  = ib.AttrState | ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrSQPSN | ib.AttrMaxRDAtomic
)

// attrs returns the attributes that connect side i to the other one.
func (r *rig) attrs(i int, mtu ib.MTU) ib.QPAttr {
	peer := r.side[1-i]
	return ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, PathMTU: mtu, DestQPN: peer.qp.Num(),
		RQPSN: ib.NewPSN(0x1000 * uint32(2-i)), SQPSN: ib.NewPSN(0x1000 * uint32(i+1)),
		MaxDestRDAtomic: 4, MaxRDAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(peer.addr), HopLimit: 64, Port: 1},
	}
}

// connect walks both QPs of a connected service to RTS.
func (r *rig) connect(mtu ib.MTU) *rig {
	r.t.Helper()
	for i := range r.side {
		r.walk(i, r.attrs(i, mtu), ib.RTS)
	}
	return r
}

// walk takes side i's QP from RESET to a state.
func (r *rig) walk(i int, a ib.QPAttr, to ib.QPState) {
	r.t.Helper()
	q := r.side[i].qp
	masks := map[ib.QPState]ib.AttrMask{ib.INIT: rigInit, ib.RTR: rigRTR, ib.RTS: rigRTS}
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
		must(r.t, q.Modify(r.now, &a, masks[st]))
		if st == to {
			return
		}
	}
}

// post posts sends on side i and rings the bell.
func (r *rig) post(i int, wrs ...ib.SendWR) {
	r.t.Helper()
	if _, err := r.side[i].qp.PostSend(wrs...); err != nil {
		r.t.Fatal(err)
	}
	r.side[i].hca.Shard().RingDoorbell(r.side[i].qp)
}

// recv posts receives on side i.
func (r *rig) recv(i int, wrs ...ib.RecvWR) {
	r.t.Helper()
	if _, err := r.side[i].qp.PostRecv(wrs...); err != nil {
		r.t.Fatal(err)
	}
}

// transmit carries what side i has to send to the other side and reports
// whether there was anything.
func (r *rig) transmit(i int) bool {
	s, peer := r.side[i], r.side[1-i]
	s.hca.Shard().Transmit(r.now, s.batch)
	runs := s.batch.Pending()
	if len(runs) == 0 {
		return false
	}
	var p roce.Packet
	for k := range runs {
		run := &runs[k]
		if r.drop == nil {
			d := datagram(run, run.Bytes, 0)
			d.Stride = run.Size
			peer.hca.Shard().Receive(r.now, &d)
			continue
		}
		for j := range run.Count {
			seg := run.Segment(j)
			if f := p.Parse(seg); f != roce.FaultNone {
				r.t.Fatalf("side %d sent bytes that are no packet: %v", i, f)
			}
			if r.drop(i, &p) {
				continue
			}
			d := datagram(run, seg, uint16(j))
			peer.hca.Shard().Receive(r.now, &d)
		}
	}
	s.batch.Reset()
	return true
}

func datagram(run *fabric.Run, b []byte, id uint16) fabric.Datagram {
	return fabric.Datagram{
		Bytes: b, Src: run.Path.Src, Dst: run.Path.Dst, SrcPort: run.Path.SrcPort,
		DstPort: fabric.RoCEPort, ID: id, IDKnown: true, HopLimit: run.Path.HopLimit, TClass: run.Path.TClass,
	}
}

// run moves packets until nothing moves, then lets time pass to the next
// timer, until done says so or nothing is left to happen before the deadline.
func (r *rig) run(limit time.Duration, done func() bool) {
	r.t.Helper()
	end := r.now.Add(limit)
	for !done() {
		moved := r.transmit(0)
		moved = r.transmit(1) || moved
		if moved {
			r.now = r.now.Add(rigLatency)
			continue
		}
		next := min(r.side[0].hca.Shard().Deadline(), r.side[1].hca.Shard().Deadline())
		if next > end {
			return
		}
		r.now = max(r.now, next)
		for _, s := range r.side {
			s.hca.Shard().Advance(r.now)
		}
	}
}

// poll returns all completions of side i.
func (r *rig) poll(i int) []ib.WC {
	wcs := make([]ib.WC, 1024)
	return wcs[:r.side[i].cq.Poll(wcs)]
}

// fill writes a pattern that differs by seed.
func fill(b []byte, seed uint64) {
	src := rand.New(rand.NewPCG(seed, seed))
	for i := range b {
		b[i] = byte(src.Uint32())
	}
}
