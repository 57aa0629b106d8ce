package perf

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// shared contains the additional objects of a side with XRC. The queue pairs of the client are
// initiators, and those of the server targets. A target has no queue: the requests of all initiators
// name one shared receive queue of the server. If messages go back and forth, a second connection
// carries the server's messages, and the client has a shared receive queue, too.
type shared struct {
	domain *verbs.XRCDomain
	srq    *verbs.SRQ // of this side's targets; nil if it has none
	back   *verbs.QP  // this side's end of the second connection, or nil
	psn    uint32     // initial PSN of back
}

// newShared creates the objects of XRC that a side needs in addition to its queue pairs,
// and returns nil for other services.
func (s *localSide) newShared() *shared {
	if !s.plan.service().shared {
		return nil
	}
	x := &shared{domain: s.NewXRCDomain(), psn: randomPSN()}
	if s.serves || s.plan.echoed() {
		x.srq = s.NewXRCSRQ(s.pd, x.domain, s.cq, s.receives())
	}
	if s.plan.echoed() {
		x.back = s.newXRC(x.domain, !s.serves)
	}
	return x
}

// newXRC creates a target or an initiator.
func (s *localSide) newXRC(x *verbs.XRCDomain, target bool) *verbs.QP {
	if target {
		return s.NewXRCTarget(x)
	}
	return s.NewQP(s.pd, &verbs.QPInitAttr{
		Type: ib.XRCIni, SendCQ: s.cq,
		Cap: ib.QPCap{MaxSendWR: uint32(s.plan.Depth), MaxSendSGE: 1, MaxInlineData: s.inlineSize()},
	})
}

// receives returns the number of receives in the shared receive queue: as many as all queue pairs
// would have without it, but at most as many as the adapter allows.
func (s *localSide) receives() int {
	n := s.plan.QPs * s.plan.Depth * recvSlack
	if attr, err := s.Device.QueryDevice(); err == nil { // the creation of the queue reports the error
		n = min(n, int(attr.MaxSRQWR))
	}
	return n
}

// describe adds the objects of XRC to the description of a side.
func (x *shared) describe(me *side) {
	if x == nil {
		return
	}
	if x.srq != nil {
		me.SRQN = uint32(x.srq.Number())
	}
	if x.back != nil {
		me.Back = &endpoint{QPN: uint32(x.back.QPN()), PSN: x.psn}
	}
}

// connectBack connects the second connection of XRC, if the side has one, with the attributes
// of the first.
func (s *localSide) connectBack(attr ib.QPAttr, peer *side) error {
	switch {
	case s.shared == nil || s.shared.back == nil:
		return nil
	case peer.Back == nil:
		return errors.New("the peer has no second queue pair of XRC for messages back")
	}
	if err := s.connectQP(s.shared.back, attr, s.shared.psn, peer, peer.Back); err != nil {
		return fmt.Errorf("the queue pair for messages back: %w", err)
	}
	return nil
}

// all returns the queue pairs of a side.
func (s *localSide) all() []*verbs.QP {
	if s.shared == nil || s.shared.back == nil {
		return s.qps
	}
	return append(s.qps[:len(s.qps):len(s.qps)], s.shared.back)
}

// sender returns the queue pair that sends this side's messages if messages go back and forth.
func (s *localSide) sender() *verbs.QP {
	if s.shared != nil && s.serves {
		return s.shared.back
	}
	return s.qps[0]
}

// postRecv posts receives for messages of queue pair i.
func (s *localSide) postRecv(i int, wrs ...ib.RecvWR) error {
	if s.shared != nil {
		return s.shared.srq.PostRecv(wrs...)
	}
	return s.qps[i].PostRecv(wrs...)
}
