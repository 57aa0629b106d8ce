package perf

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// channel is one end of the channel that all queue pairs of RD share.
type channel struct {
	eec *verbs.EEC
	psn uint32
}

// newChannel creates the EE context of a side whose service needs one, and returns the
// domain of its queue pairs. For other services it returns nil.
func (s *localSide) newChannel() *verbs.RDD {
	if !s.plan.service().channel {
		return nil
	}
	rdd := s.NewRDD()
	s.channel = &channel{s.NewEEC(rdd), randomPSN()}
	return rdd
}

// connectChannel moves the EE context and the queue pairs to RTS. The EE context has the
// attributes of the path.
func (s *localSide) connectChannel(attr ib.QPAttr, peer *side) error {
	if peer.EEC == nil {
		return errors.New("the peer names no EE context")
	}
	e := s.channel.eec
	path := attr
	path.DestQPN, path.RQPSN, path.SQPSN = ib.QPN(peer.EEC.EECN), ib.NewPSN(peer.EEC.PSN), ib.NewPSN(s.channel.psn)
	if err := e.ModifyToRTS(path); err != nil {
		return fmt.Errorf("connect the EE context: %w", err)
	}
	if err := s.load(e, peer); err != nil {
		return fmt.Errorf("load the alternate path of the EE context: %w", err)
	}
	for i, q := range s.qps {
		err := q.ModifyToRTS(attr)
		if err == nil { // no move requires the RNR timer; its default would make the peer wait long
			err = q.Modify(&ib.QPAttr{State: ib.RTS, MinRNRTimer: minRNRTimer}, ib.AttrState|ib.AttrMinRNRTimer)
		}
		if err != nil {
			return fmt.Errorf("move queue pair %d: %w", i, err)
		}
	}
	return nil
}
