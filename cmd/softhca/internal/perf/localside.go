package perf

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// Attributes of the connections.
const (
	rnrRetry    = ib.RNRInfiniteRetry
	minRNRTimer = 1 // 10 µs
	hopLimit    = 64
	maxAtomics  = 128 // maximum outstanding READs and atomics of a queue pair
	maxInline   = 256 // maximum bytes of an inline message in latency measurements
	// recvSlack times the depth is the number of receives that a server keeps, so that
	// it can repost in batches.
	recvSlack = 2
)

// localSide is one side: its queue pairs and a buffer. The first half of the buffer has
// the messages that the side sends or that the peer reads, the second half the received
// ones. Each queue pair has a message in each half.
type localSide struct {
	*adapter.Resources
	plan   Plan
	serves bool // the server's side
	gid    int  // index in the GID table
	alt    int  // index for the alternate path, with Plan.Alt
	pd     *verbs.PD
	cq     *verbs.CQ
	ahs    []*verbs.AH // for datagrams: one for each queue pair
	mr     *verbs.MR
	qps    []*verbs.QP
	psns   []uint32

	channel *channel    // for RD
	shared  *shared     // for XRC
	windows []*verbs.MW // for each queue pair, if this side binds windows
}

// newLocalSide creates the objects of the client's or the server's side, with an address of
// the peer's family.
func newLocalSide(dev *verbs.Context, p Plan, serves, v4 bool) (*localSide, error) {
	s := &localSide{Resources: adapter.NewResources(dev), plan: p, serves: serves}
	var err error
	if s.gid, err = gidIndex(dev, v4, 0); err != nil {
		return s, err
	}
	if p.Alt {
		if s.alt, err = gidIndex(dev, v4, s.gid+1); err != nil {
			return s, fmt.Errorf("an alternate path: %w", err)
		}
	}
	s.pd = s.NewPD()
	s.cq = s.NewCQ(p.QPs*p.Depth*(1+recvSlack), nil)
	s.mr = s.NewMR(s.pd, 2*p.QPs*p.stride(), s.access())
	rdd := s.newChannel()
	s.shared = s.newShared()
	for range p.QPs {
		s.qps = append(s.qps, s.newQP(rdd))
		s.psns = append(s.psns, randomPSN())
		if s.binds() {
			s.windows = append(s.windows, s.NewMW(s.pd, ib.MWType2))
		}
	}
	if err := s.Err(); err != nil {
		return s, errors.Join(err, s.Close())
	}
	return s, nil
}

// newQP creates a queue pair of the plan's type, whose messages go from client to server.
func (s *localSide) newQP(rdd *verbs.RDD) *verbs.QP {
	if s.shared != nil {
		return s.newXRC(s.shared.domain, s.serves)
	}
	p := &s.plan
	return s.NewQP(s.pd, &verbs.QPInitAttr{
		Type: p.Type, SendCQ: s.cq, RecvCQ: s.cq, RDD: rdd,
		Cap: ib.QPCap{
			MaxSendWR: uint32(p.Depth), MaxSendSGE: 1,
			MaxRecvWR: uint32(p.Depth * recvSlack), MaxRecvSGE: 1,
			MaxInlineData: s.inlineSize(),
		},
	})
}

// inlineSize returns the maximum inline data of the queue pairs.
func (s *localSide) inlineSize() uint32 {
	if s.plan.echoed() && s.plan.Size <= maxInline {
		return uint32(s.plan.Size)
	}
	return 0
}

// gidIndex returns the first entry of the GID table of a family, from one on.
func gidIndex(dev *verbs.Context, v4 bool, from int) (int, error) {
	all, err := adapter.GIDs(dev)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(all[from:], func(a netip.Addr) bool { return a.Is4() == v4 })
	if i >= 0 {
		return from + i, nil
	}
	family := map[bool]string{true: "IPv4", false: "IPv6"}[v4]
	if from == 0 {
		return 0, fmt.Errorf("the adapter has no %s address: name one with --addr", family)
	}
	return 0, fmt.Errorf("the adapter has no second %s address: name one with --alt", family)
}

// random returns an unpredictable number.
func random() uint64 {
	var b [8]byte
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(b[:])
	return binary.NativeEndian.Uint64(b[:])
}

// randomPSN returns a random initial PSN.
func randomPSN() uint32 { return uint32(random()) & 0xffffff }

// out returns the message that queue pair i sends, in returns the one that it
// receives. They end at a multiple of 64 bytes.
func (s *localSide) out(i int) []byte { return s.mr.Bytes()[s.offset(i):][:s.plan.Size] }

func (s *localSide) in(i int) []byte { return s.out(s.plan.QPs + i) }

func (s *localSide) offset(i int) int { return (i+1)*s.plan.stride() - s.plan.Size }

// outSGE and inSGE return the same messages as scatter/gather elements.
func (s *localSide) outSGE(i int) []ib.SGE {
	return []ib.SGE{s.mr.SGE(uint64(s.offset(i)), uint32(s.plan.Size))}
}

func (s *localSide) inSGE(i int) []ib.SGE {
	front := s.plan.service().header
	return []ib.SGE{s.mr.SGE(uint64(s.offset(s.plan.QPs+i)-front), uint32(front+s.plan.Size))}
}

// remote returns the index of the first message that the peer accesses. The peer reads the
// messages that this side would send, and writes those that it would receive.
func (s *localSide) remote() int {
	if s.plan.Op == Read {
		return 0
	}
	return s.plan.QPs
}

// side returns the description of this side for the peer.
func (s *localSide) side() side {
	me := side{
		GID:  s.Device.QueryGID(s.gid).Addr().String(),
		Addr: s.mr.Addr() + uint64(s.offset(s.remote())), RKey: uint32(s.mr.RKey()),
	}
	if s.plan.Alt {
		me.Alt = s.Device.QueryGID(s.alt).Addr().String()
	}
	for i, q := range s.qps {
		me.QPs = append(me.QPs, endpoint{QPN: uint32(q.QPN()), PSN: s.psns[i]})
	}
	if s.serves {
		for i, w := range s.windows {
			me.QPs[i].RKey = uint32(w.RKey())
		}
	}
	s.shared.describe(&me)
	if c := s.channel; c != nil {
		me.EEC = &eecEnd{uint32(c.eec.EECN()), c.psn}
	}
	return me
}

// connect moves the queue pairs to RTS.
func (s *localSide) connect(peer *side, mtu ib.MTU) error {
	addr, err := netip.ParseAddr(peer.GID)
	if err != nil {
		return fmt.Errorf("GID of the peer: %w", err)
	}
	if len(peer.QPs) != len(s.qps) {
		return fmt.Errorf("the peer has %d queue pairs, this side %d", len(peer.QPs), len(s.qps))
	}
	if s.plan.service().datagram && s.plan.Size > mtu.Bytes() {
		return fmt.Errorf("size %d: a datagram has at most the path MTU, %d bytes", s.plan.Size, mtu.Bytes())
	}
	if err := s.address(addr); err != nil {
		return fmt.Errorf("address the peer: %w", err)
	}
	attr := ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote | ib.AccessFlushGlobal, PathMTU: mtu, MaxRDAtomic: s.atomics(), MaxDestRDAtomic: s.atomics(),
		MinRNRTimer: minRNRTimer, Timeout: s.plan.Timeout, RetryCnt: s.plan.retryCount(), RNRRetry: rnrRetry,
		AV: s.path(addr, s.gid), QKey: qKey,
	}
	if s.channel != nil {
		return s.connectChannel(attr, peer)
	}
	for i, q := range s.qps {
		if err := s.connectQP(q, attr, s.psns[i], peer, &peer.QPs[i]); err != nil {
			return fmt.Errorf("queue pair %d: %w", i, err)
		}
	}
	return s.connectBack(attr, peer)
}

// connectQP moves a queue pair with the initial PSN psn to RTS, and connects it to one of the
// peer.
func (s *localSide) connectQP(q *verbs.QP, attr ib.QPAttr, psn uint32, peer *side, to *endpoint) error {
	attr.DestQPN, attr.RQPSN, attr.SQPSN = ib.QPN(to.QPN), ib.NewPSN(to.PSN), ib.NewPSN(psn)
	if err := adapter.Move(q, attr, ib.INIT, ib.RTR, ib.RTS); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := s.load(q, peer); err != nil {
		return fmt.Errorf("load the alternate path: %w", err)
	}
	if s.plan.Limit == 0 {
		return nil
	}
	if err := q.ModifyRateLimit(verbs.RateLimit{Rate: s.plan.Limit}); err != nil {
		return fmt.Errorf("limit the rate: %w", err)
	}
	return nil
}

// path returns the path to an address from one of the adapter's addresses.
func (s *localSide) path(to netip.Addr, from int) ib.AHAttr {
	return ib.AHAttr{
		DGID: ib.GIDFromAddr(to.Unmap()), SGIDIndex: uint8(from), HopLimit: hopLimit, Port: 1, StaticRate: s.plan.Rate,
	}
}

// end is a queue pair or an EE context, which has a path.
type end interface {
	Modify(*ib.QPAttr, ib.AttrMask) error
}

// load sets the alternate path of an end, if the plan has one, and moves the migration
// state to REARM.
func (s *localSide) load(e end, peer *side) error {
	if !s.plan.Alt {
		return nil
	}
	to, err := netip.ParseAddr(peer.Alt)
	if err != nil {
		return fmt.Errorf("the peer's second address: %w", err)
	}
	return e.Modify(&ib.QPAttr{
		State: ib.RTS, PathMigState: ib.REARM, AltAV: s.path(to, s.alt), AltPort: 1, AltTimeout: s.plan.Timeout,
	}, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState)
}

// atomics returns the maximum number of outstanding READs and atomics of a queue pair.
func (s *localSide) atomics() uint8 { return uint8(min(s.plan.Depth, maxAtomics)) }

// pattern is a pseudo-random stream of bytes: the content of the last message of a queue
// pair.
type pattern struct{ state uint64 }

func newPattern(seed uint64, i int) pattern { return pattern{seed ^ uint64(i)<<32} }

// next returns eight bytes of SplitMix64, whose values differ at any two places.
func (p *pattern) next() (b [8]byte) {
	p.state += 0x9e3779b97f4a7c15
	z := p.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	binary.LittleEndian.PutUint64(b[:], z^z>>31)
	return b
}

// fill writes the pattern over b.
func (p pattern) fill(b []byte) {
	for len(b) > 0 {
		v := p.next()
		b = b[copy(b, v[:]):]
	}
}

// check returns an error with the first byte of b that differs from the pattern.
func (p pattern) check(b []byte) error {
	for at := 0; at < len(b); at += 8 {
		v := p.next()
		for j := range min(8, len(b)-at) {
			if b[at+j] != v[j] {
				return fmt.Errorf("byte %d of %d is %#02x, sent was %#02x", at+j, len(b), b[at+j], v[j])
			}
		}
	}
	return nil
}
