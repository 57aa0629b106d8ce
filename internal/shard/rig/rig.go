package rig

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/shard"
	"github.com/softhca/softhca/mad"
)

// Constants of a side.
const (
	Ports = 2
	Bytes = 1 << 20 // of the region
	QKey  = ib.QKey(0x11111111)
	pd    = memory.PD(1)
)

// PKeys are the P_Keys of all ports. Each port's table has them in another order.
var PKeys = [Ports]ib.PKey{0x8001, 0x8002}

// Side is a shard with two ports and the usual objects.
type Side struct {
	T      testing.TB
	Env    *qp.Env
	Shard  *shard.Shard
	CQ     *qp.CQ
	MR     *memory.Region
	Buf    []byte
	Agent  *gsi.Agent     // of the connection manager's class
	MADs   []gsi.Received // that the agent received, without their MAD
	Events []ib.EventType

	last byte
	next ib.QPN
}

// Addr returns the address of a port of side n.
func Addr(n byte, port uint8) netip.Addr { return netip.AddrFrom4([4]byte{10, port, 0, n}) }

// New returns side n.
func New(t testing.TB, n byte) *Side {
	t.Helper()
	s := &Side{T: t, Buf: make([]byte, Bytes), last: n, next: 0x100 * ib.QPN(n)}
	counts := new(counters.Set)
	s.Env = &qp.Env{
		Settings: qp.Settings{WindowBytes: 256 << 10, NoChallenge: true, MigReq: true},
		Limits: qp.ModifyLimits{
			Ports: Ports, PKeys: len(PKeys), GIDs: 1, ActiveMTU: ib.MTU1024, MaxRDAtomic: 4, MaxDestRDAtomic: 4, APM: true, PortMbps: 100_000,
		},
		Mem: memory.NewTable(rand.New(rand.NewPCG(uint64(n), 1)).Uint32, memory.Limits{Regions: 4}), AHs: qp.NewAHTable(8),
		Counters: counts, Out: &packet.Writer{Counters: counts},
		Raise: func(e qp.Event) { s.Events = append(s.Events, e.Type) },
	}
	var addrs [][]netip.Addr
	for i := range uint8(Ports) {
		a := []netip.Addr{Addr(n, i+1)}
		addrs = append(addrs, a)
		s.Env.Ports = append(s.Env.Ports, &qp.Port{Addrs: a, PKeys: []ib.PKey{PKeys[i], PKeys[1-i]}})
	}
	g := gsi.New(gsi.Config{Ports: addrs, Out: s.Env.Out})
	s.Shard = shard.New(s.Env, 0, g)
	var err error
	s.Agent, err = g.Register(gsi.AgentConfig{
		Class: mad.ClassCM, Version: mad.CMClassVersion, Methods: []mad.Method{mad.MethodSend},
		Receive: func(_ clock.Instant, r *gsi.Received) bool {
			got := *r
			got.MAD = nil
			s.MADs = append(s.MADs, got)
			return true
		},
	})
	must.Do(t, err)
	s.CQ, err = qp.NewCQ(ring.Allocator{}, qp.CQConfig{Entries: 256})
	must.Do(t, err)
	s.MR, err = s.Env.Mem.Register(memory.RegionConfig{PD: pd, Buf: s.Buf, Access: ib.AccessLocalWrite | ib.AccessRemote})
	must.Do(t, err)
	return s
}

// QP returns a queue pair in RESET.
func (s *Side) QP(typ ib.QPType) *qp.QP {
	s.T.Helper()
	s.next++
	q, err := qp.New(s.Env, qp.Config{
		Num: s.next, Type: typ, Via: memory.Via{PD: pd, QP: memory.Serial(s.next)}, SendCQ: s.CQ, RecvCQ: s.CQ, SigAll: true,
		Cap: ib.QPCap{MaxSendWR: 16, MaxSendSGE: 1, MaxRecvWR: 16, MaxRecvSGE: 1},
	})
	must.Do(s.T, err)
	s.Shard.Add(q)
	return q
}

// Path returns an address vector from a port to that port of side n.
func Path(n byte, port uint8) ib.AHAttr {
	return ib.AHAttr{DGID: ib.GIDFromAddr(Addr(n, port)), HopLimit: 64, Port: port}
}

// Attr returns the attributes that connect a queue pair to that of another side, from port to port.
func Attr(peer *Side, to *qp.QP, port uint8) ib.QPAttr {
	return ib.QPAttr{
		Port: port, AccessFlags: ib.AccessRemote, PathMTU: ib.MTU1024, DestQPN: to.Num(), QKey: QKey,
		MaxDestRDAtomic: 4, MaxRDAtomic: 4, Timeout: 14, RetryCnt: 7, RNRRetry: 7, AV: Path(peer.last, port),
	}
}

// Steps are the attributes of each move up to RTS, by service.
var steps = map[ib.QPType][]ib.AttrMask{
	ib.RC: {
		ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags,
		ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer,
		ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrSQPSN | ib.AttrMaxRDAtomic,
	},
	ib.UC: {
		ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags,
		ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN, ib.AttrSQPSN,
	},
	ib.UD: {ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey, 0, ib.AttrSQPSN},
}

// Walk moves a queue pair from RESET to RTS.
func (s *Side) Walk(now clock.Instant, q *qp.QP, a ib.QPAttr) {
	s.T.Helper()
	for i, mask := range steps[q.Type()] {
		a.State = ib.INIT + ib.QPState(i)
		must.Do(s.T, q.Modify(now, &a, mask|ib.AttrState))
	}
}

// Pair is a queue pair of each of two sides.
type Pair struct {
	A, B *Side
	P, Q *qp.QP // of A and of B
}

// Connect connects the queue pairs from port to port.
func (x Pair) Connect(now clock.Instant, port uint8) {
	x.A.T.Helper()
	x.A.Walk(now, x.P, Attr(x.B, x.Q, port))
	x.B.Walk(now, x.Q, Attr(x.A, x.P, port))
}

// Arm gives the connected queue pairs an alternate path by another port. The first packets in both
// directions arm it.
func (x Pair) Arm(now clock.Instant, port uint8) {
	x.A.T.Helper()
	for q, peer := range map[*qp.QP]*Side{x.P: x.B, x.Q: x.A} {
		attr := ib.QPAttr{AltAV: Path(peer.last, port), AltPort: port, AltTimeout: 14, PathMigState: ib.REARM}
		must.Do(x.A.T, q.Modify(now, &attr, ib.AttrAltPath|ib.AttrPathMigState))
	}
}

// Write returns a WRITE of n bytes to the same offset of the peer's region.
func (s *Side) Write(peer *Side, at, n int) ib.SendWR {
	return ib.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{{Addr: s.MR.Addr() + uint64(at), Length: uint32(n), LKey: s.MR.LKey()}},
		RemoteAddr: peer.MR.Addr() + uint64(at), RKey: peer.MR.RKey(),
	}
}

// Post posts a request and rings the doorbell.
func (s *Side) Post(q *qp.QP, wr ib.SendWR) {
	s.T.Helper()
	_, err := q.PostSend(wr)
	must.Do(s.T, err)
	s.Shard.RingDoorbell(q)
}

// AH returns an address handle of a path from a port to that port of side n.
func (s *Side) AH(n byte, port uint8) ib.AHHandle {
	s.T.Helper()
	av := Path(n, port)
	path, err := s.Env.Resolve(&av, 1)
	must.Do(s.T, err)
	h, ok := s.Env.AHs.Add(qp.NewAH(s.Env, pd, path, av.StaticRate))
	if !ok {
		s.T.Fatal("the table of address handles is full")
	}
	return h
}

// Poll returns the completions so far.
func (s *Side) Poll() []ib.WC {
	wcs := make([]ib.WC, 256)
	return wcs[:s.CQ.Poll(wcs)]
}

// MAD sends a MAD from a port to side n.
func (s *Side) MAD(now clock.Instant, n byte, port uint8) {
	s.T.Helper()
	var m mad.MAD
	m.PutHeader(mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassCM, ClassVersion: mad.CMClassVersion, Method: mad.MethodSend})
	must.Do(s.T, s.Agent.Send(now, gsi.Address{Local: Addr(s.last, port), Remote: Addr(n, port)}, &m))
}

// Latency is the one-way time of a packet in virtual time.
const Latency = 10 * time.Microsecond
