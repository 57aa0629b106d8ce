package ends

import (
	"context"
	"fmt"

	"github.com/softhca/softhca/ib"
)

const (
	hopLimit = 64

	// QKey is the Q_Key of every UD queue pair.
	QKey ib.QKey = 0x11111111
)

// Attributes are the attributes that two queue pairs agree on, and their
// timeouts and retries.
type Attributes struct {
	MTU                ib.MTU
	ResponderMTU       ib.MTU // 0 is the same
	RequesterPSN       ib.PSN
	ResponderPSN       ib.PSN
	Access             ib.Access // of the responder's queue pair
	Timeout            uint8     // local ACK timeout code
	RetryCnt, RNRRetry uint8
	MinRNRTimer        uint8
	MaxRDAtomic        uint8  // of the requester
	MaxDestRDAtomic    uint8  // of the responder
	SkippedPSNs        uint32 // how far the requester's first PSN is beyond the responder's expected PSN
	ResponderState     ib.QPState
}

// Defaults are attributes for an exchange without faults.
func Defaults(mtu ib.MTU) Attributes {
	return Attributes{
		MTU: mtu, RequesterPSN: ib.NewPSN(0xfffff0), ResponderPSN: ib.NewPSN(0xabcde0), Access: ib.AccessRemote, Timeout: 17, RetryCnt: 7, RNRRetry: 7,
		MinRNRTimer: 12, MaxRDAtomic: 4, MaxDestRDAtomic: 16, ResponderState: ib.RTS,
	}
}

// half is the attributes of one side of a connection, for Modify.
type half struct {
	end  End
	qp   QP
	typ  ib.QPType
	to   Path
	attr ib.QPAttr
	goal ib.QPState
}

// Connect moves two queue pairs of one service to RTS, the responder's only to
// the state in the attributes.
func Connect(ctx context.Context, req, resp Side, typ ib.QPType, a Attributes) error {
	common := ib.QPAttr{PathMTU: a.MTU, Port: 1, QKey: QKey, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, MinRNRTimer: a.MinRNRTimer}
	r, s := common, common
	r.AccessFlags, s.AccessFlags = ib.AccessRemote, a.Access
	r.SQPSN, r.RQPSN = a.RequesterPSN.Add(a.SkippedPSNs), a.ResponderPSN
	s.SQPSN, s.RQPSN = a.ResponderPSN, a.RequesterPSN
	r.MaxRDAtomic, r.MaxDestRDAtomic = a.MaxRDAtomic, 4
	s.MaxRDAtomic, s.MaxDestRDAtomic = 4, a.MaxDestRDAtomic
	r.DestQPN, s.DestQPN = resp.QP.QPN(), req.QP.QPN()
	if a.ResponderMTU != 0 {
		s.PathMTU = a.ResponderMTU
	}
	if err := (half{resp.End, resp.QP, typ, req.End.Path(), s, a.ResponderState}).raise(ctx); err != nil {
		return fmt.Errorf("connect the responder, %s: %w", resp.End.Name(), err)
	}
	if err := (half{req.End, req.QP, typ, resp.End.Path(), r, ib.RTS}).raise(ctx); err != nil {
		return fmt.Errorf("connect the requester, %s: %w", req.End.Name(), err)
	}
	return nil
}

// Side is an end and its queue pair.
type Side struct {
	End End
	QP  QP
}

// masks are the attributes that each move needs, by service.
func masks(typ ib.QPType, to ib.QPState) ib.AttrMask {
	m := ib.AttrState
	switch {
	case to == ib.INIT && typ == ib.UD:
		m |= ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey
	case to == ib.INIT:
		m |= ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags
	case to == ib.RTR && typ != ib.UD:
		m |= ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN
		if typ == ib.RC {
			m |= ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer
		}
	case to == ib.RTS:
		m |= ib.AttrSQPSN
		if typ == ib.RC {
			m |= ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrMaxRDAtomic
		}
	}
	return m
}

func (h half) raise(ctx context.Context) error {
	h.attr.AV = ib.AHAttr{DGID: h.to.GID, SGIDIndex: h.end.Path().Index, HopLimit: hopLimit, Port: 1}
	for _, to := range []ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		if h.goal < to {
			return nil
		}
		h.attr.State = to
		if err := h.qp.Modify(ctx, &h.attr, masks(h.typ, to)); err != nil {
			return fmt.Errorf("to %s: %w", to, err)
		}
	}
	if h.goal == ib.ERR {
		h.attr.State = ib.ERR
		return h.qp.Modify(ctx, &h.attr, ib.AttrState)
	}
	return nil
}
