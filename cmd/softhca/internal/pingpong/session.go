package pingpong

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// qkey is the Q_Key of the UD program.
const qkey ib.QKey = 0x11111111

// session is what one side has: its adapter's objects and how far it is.
type session struct {
	o      Options
	hca    *verbs.Context
	gid    int // index in the GID table
	local  []dest
	client bool
	peer   *peer

	pd      *verbs.PD
	channel *verbs.CompChannel // nil: poll
	cq      *verbs.CQ
	srq     *verbs.SRQ // nil: each QP has its own queue
	mr      *verbs.MR  // what the client sends, then the slots
	slots   int
	qps     []*verbs.QP
	index   map[ib.QPN]int // of the local QPs
	peers   []dest
	ah      ib.AHHandle // UD

	progress
}

// newSession makes the objects of a side, with queue pairs in INIT and all
// receives posted. tcp is the local address of the TCP connection. Closing
// the adapter ends them.
func newSession(hca *verbs.Context, o Options, tcp netip.Addr) (*session, error) {
	s := &session{o: o, hca: hca, index: map[ib.QPN]int{}}
	// One message for each QP may have come and not been looked at; a slot is
	// not used again until it has.
	s.slots = 2*o.QPs + 1
	for _, step := range [...]func() error{
		func() error { return s.chooseGID(tcp) }, s.checkPort, s.createQueues, s.registerMemory, s.createQPs, s.postFirst,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// chooseGID takes the entry that the user named, or that of the TCP
// connection, or the first of its family, or the first.
func (s *session) chooseGID(tcp netip.Addr) error {
	p, err := s.hca.QueryPort()
	if err != nil {
		return err
	}
	if s.o.GIDIndex >= 0 {
		if s.o.GIDIndex >= p.GIDTblLen {
			return fmt.Errorf("GID index %d: the adapter has %d", s.o.GIDIndex, p.GIDTblLen)
		}
		s.gid = s.o.GIDIndex
		return nil
	}
	family := -1
	for i := range p.GIDTblLen {
		a := s.hca.QueryGID(i).Addr()
		if a == tcp {
			s.gid = i
			return nil
		}
		if family < 0 && a.Is4() == tcp.Is4() {
			family = i
		}
	}
	s.gid = max(family, 0)
	return nil
}

// checkPort refuses what the port cannot carry.
func (s *session) checkPort() error {
	p, err := s.hca.QueryPort()
	if err != nil {
		return err
	}
	limit := p.ActiveMTU.Bytes()
	switch {
	case s.o.Kind == UD && s.o.Size > limit:
		return fmt.Errorf("a UD message of %d bytes does not fit into the port's MTU of %d", s.o.Size, limit)
	case s.o.Kind != UD && s.o.MTU > limit:
		return fmt.Errorf("path MTU %d is more than the port's %d", s.o.MTU, limit)
	}
	return nil
}

func (s *session) createQueues() (err error) {
	if s.pd, err = s.hca.AllocPD(); err != nil {
		return err
	}
	if s.o.Events {
		s.channel = verbs.NewCompChannel()
	}
	if s.cq, err = s.hca.CreateCQ(s.o.RxDepth+s.o.QPs, s.channel); err != nil {
		return err
	}
	if s.o.Kind == SRQ {
		s.srq, err = s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: uint32(s.o.RxDepth), MaxSGE: 1})
	}
	return err
}

// registerMemory fills the client's message with a pattern.
func (s *session) registerMemory() (err error) {
	buf := make([]byte, s.o.Size+s.slots*s.o.slotBytes())
	for i := range buf[:s.o.Size] {
		buf[i] = byte(i*7 + i>>8 + 1)
	}
	s.mr, err = s.pd.RegMR(buf, ib.AccessLocalWrite)
	return err
}

func (s *session) createQPs() error {
	for range s.o.QPs {
		q, err := s.pd.CreateQP(&verbs.QPInitAttr{
			Type: s.o.Kind.service(), SendCQ: s.cq, RecvCQ: s.cq, SRQ: s.srq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: s.recvDepth(), MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		if err != nil {
			return err
		}
		if err := s.modifyInit(q); err != nil {
			return err
		}
		s.index[q.QPN()] = len(s.qps)
		s.qps = append(s.qps, q)
		s.local = append(s.local, dest{qpn: q.QPN(), psn: ib.NewPSN(rand.Uint32()), gid: s.hca.QueryGID(s.gid)})
	}
	return nil
}

// recvDepth is the size of a QP's own receive queue.
func (s *session) recvDepth() uint32 {
	if s.srq != nil {
		return 0
	}
	return uint32(s.o.RxDepth)
}

func (s *session) modifyInit(q *verbs.QP) error {
	attr := verbs.QPAttr{State: ib.INIT, Port: 1, QKey: qkey}
	mask := ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort
	if s.o.Kind == UD {
		return q.Modify(&attr, mask|ib.AttrQKey)
	}
	return q.Modify(&attr, mask|ib.AttrAccessFlags)
}

// connect brings every QP to RTS with its peer, with the attributes of the
// Linux programs.
func (s *session) connect(peers []dest) error {
	s.peers = peers
	for i, q := range s.qps {
		if err := s.connectQP(q, &s.local[i], &peers[i]); err != nil {
			return fmt.Errorf("connect to %v: %w", &peers[i], err)
		}
	}
	return nil
}

func (s *session) connectQP(q *verbs.QP, mine, peer *dest) error {
	av := verbs.AHAttr{DGID: peer.gid, SGIDIndex: uint8(s.gid), HopLimit: 64, Port: 1}
	mtu, _ := ib.MTUFor(s.o.MTU)
	rtr := verbs.QPAttr{
		State: ib.RTR, AV: av, PathMTU: mtu, DestQPN: peer.qpn, RQPSN: peer.psn, MaxDestRDAtomic: 1, MinRNRTimer: 12,
	}
	rts := verbs.QPAttr{State: ib.RTS, SQPSN: mine.psn, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1}
	rtrMask := ib.AttrState
	rtsMask := ib.AttrState | ib.AttrSQPSN
	if s.o.Kind != UD {
		rtrMask |= ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN
	}
	if s.o.Kind.service() == ib.RC {
		rtrMask |= ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer
		rtsMask |= ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrMaxRDAtomic
	}
	if err := q.Modify(&rtr, rtrMask); err != nil {
		return err
	}
	if err := q.Modify(&rts, rtsMask); err != nil {
		return err
	}
	if s.o.Kind != UD {
		return nil
	}
	ah, err := s.pd.CreateAH(av)
	if err == nil {
		s.ah = ah.Handle()
	}
	return err
}
