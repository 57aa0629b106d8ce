package pingpong

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// qkey is the Q_Key of the UD program, and of RD.
const qkey ib.QKey = 0x11111111

// session is the state of one side: its objects and its progress.
type session struct {
	*adapter.Resources
	o      Options
	gid    int // index in the GID table
	local  []dest
	client bool

	pd      *verbs.PD
	channel *verbs.CompChannel // nil: poll
	cq      *verbs.CQ
	srq     *verbs.SRQ // nil: each QP has its own queue
	mr      *verbs.MR  // the client's message, then the slots
	slots   int
	qps     []*verbs.QP
	index   map[ib.QPN]int // of the local QPs
	peers   []dest
	ah      *verbs.AH  // UD
	eec     *verbs.EEC // RD

	progress
}

// newSession creates the objects of a side, with queue pairs in INIT and all
// receives posted. tcp is the local address of the TCP connection. Closing the
// adapter destroys the objects.
func newSession(hca *verbs.Context, o Options, tcp netip.Addr) (*session, error) {
	s := &session{Resources: adapter.NewResources(hca), o: o, index: map[ib.QPN]int{}}
	// Each QP may have one received message that is not processed yet. Its slot is not
	// reused before.
	s.slots = 2*o.QPs + 1
	for _, step := range [...]func() error{func() error { return s.chooseGID(tcp) }, s.checkPort, s.create, s.postFirst} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// chooseGID chooses the user's entry, or the entry of the TCP connection's address, or
// the first one of its family, or the first one.
func (s *session) chooseGID(tcp netip.Addr) error {
	all, err := adapter.GIDs(s.Device)
	if err != nil {
		return err
	}
	s.gid = s.o.GIDIndex
	if s.gid < 0 {
		s.gid = slices.Index(all, tcp)
	}
	if s.gid < 0 {
		s.gid = max(slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is4() == tcp.Is4() }), 0)
	}
	if s.gid >= len(all) {
		return fmt.Errorf("GID index %d: the adapter has %d", s.gid, len(all))
	}
	return nil
}

// checkPort refuses options that the port does not support.
func (s *session) checkPort() error {
	p, err := s.Device.QueryPort()
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

// create creates the objects, and fills the client's message with a pattern.
func (s *session) create() error {
	s.pd = s.NewPD()
	if s.o.Events {
		s.channel = verbs.NewCompChannel(1)
	}
	s.cq = s.NewCQ(s.o.RxDepth+s.o.QPs, s.channel)
	recvDepth := uint32(s.o.RxDepth)
	if s.o.Kind == SRQ {
		s.srq = s.NewSRQ(s.pd, &verbs.SRQInitAttr{MaxWR: recvDepth, MaxSGE: 1})
		recvDepth = 0
	}
	s.mr = s.NewMR(s.pd, s.o.Size+s.slots*s.o.slotBytes(), ib.AccessLocalWrite)
	var rdd *verbs.RDD
	if s.o.Kind == RD {
		rdd = s.NewRDD()
		s.eec = s.NewEEC(rdd)
	}
	for range s.o.QPs {
		s.qps = append(s.qps, s.NewQP(s.pd, &verbs.QPInitAttr{
			Type: s.o.Kind.service(), SendCQ: s.cq, RecvCQ: s.cq, SRQ: s.srq, RDD: rdd,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: recvDepth, MaxSendSGE: 1, MaxRecvSGE: 1},
		}))
	}
	if err := s.Err(); err != nil {
		return err
	}
	message := s.mr.Bytes()[:s.o.Size]
	for i := range message {
		message[i] = byte(i*7 + i>>8 + 1)
	}
	for i, q := range s.qps {
		if err := adapter.Move(q, verbs.QPAttr{Port: 1, QKey: qkey}, ib.INIT); err != nil {
			return err
		}
		s.index[q.QPN()] = i
		s.addLocal(q.QPN())
	}
	if s.eec != nil {
		s.addLocal(ib.QPN(s.eec.EECN()))
	}
	return nil
}

// addLocal adds an end to those sent to the peer.
func (s *session) addLocal(n ib.QPN) {
	s.local = append(s.local, dest{qpn: n, psn: ib.NewPSN(rand.Uint32()), gid: s.Device.QueryGID(s.gid)})
}

// show returns the printed line of the i-th end of a side.
func (s *session) show(i int, d *dest) string {
	if i < len(s.qps) {
		return d.String()
	}
	return d.text("EECN")
}

// connect moves every QP to RTS with its peer, with the attributes of the Linux
// programs.
func (s *session) connect(peers []dest) error {
	s.peers = peers
	mtu, _ := ib.MTUFor(s.o.MTU)
	for i, q := range s.qps {
		peer := &peers[i]
		attr := verbs.QPAttr{
			AV:      verbs.AHAttr{DGID: peer.gid, SGIDIndex: uint8(s.gid), HopLimit: 64, Port: 1},
			PathMTU: mtu, DestQPN: peer.qpn, RQPSN: peer.psn, MaxDestRDAtomic: 1, MinRNRTimer: 12,
			SQPSN: s.local[i].psn, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1,
		}
		err := adapter.Move(q, attr, ib.RTR, ib.RTS)
		switch {
		case err != nil:
		case s.o.Kind == UD:
			s.ah = s.NewAH(s.pd, attr.AV)
			err = s.Err()
		case s.o.Kind == RD:
			err = s.connectChannel(attr, &peers[len(s.qps)])
		}
		if err != nil {
			return fmt.Errorf("connect to %v: %w", peer, err)
		}
	}
	return nil
}

// connectChannel moves the EE context to RTS with the peer's, and sets the RNR timer of
// the RD queue pair, which no move requires.
func (s *session) connectChannel(attr verbs.QPAttr, peer *dest) error {
	attr.Port, attr.DestQPN, attr.RQPSN, attr.SQPSN = 1, peer.qpn, peer.psn, s.local[len(s.qps)].psn
	if err := s.eec.ModifyToRTS(attr); err != nil {
		return err
	}
	attr.State = ib.RTS
	return s.qps[0].Modify(&attr, ib.AttrState|ib.AttrMinRNRTimer)
}
