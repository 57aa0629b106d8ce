package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// Modify gives the QP attributes and, if the mask names it, a new state (V7).
// The modify table decides; a call that is refused changes nothing (V9).
// Errors unwrap to EINVAL, EOPNOTSUPP or EPERM.
func (q *QP) Modify(now clock.Instant, attr *ib.QPAttr, mask ib.AttrMask) error {
	q.env.Now = now
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	from := ModifyFrom{Type: q.typ, State: q.State(), Draining: q.sqd.draining, Port: q.attr.Port}
	to, err := CheckModify(from, attr, mask, &q.env.Limits)
	if err != nil {
		return err
	}
	path := q.path
	if mask&ib.AttrAV != 0 {
		dest := q.attr.DestQPN
		if mask&ib.AttrDestQPN != 0 {
			dest = attr.DestQPN
		}
		if path, err = q.env.Route(&attr.AV, roce.FlowLabel(q.num, dest)); err != nil {
			return err
		}
	}
	if to == ib.RESET {
		q.clear()
		q.attr = ib.QPAttr{}
		q.path, q.pkey, q.mtu = fabric.Path{}, 0, 0
		q.setState(ib.RESET, "modify")
		return nil
	}
	q.store(attr, mask)
	q.path = path
	q.enter(now, from.State, to, mask)
	return nil
}

// store copies the attributes that the mask names.
func (q *QP) store(a *ib.QPAttr, m ib.AttrMask) {
	for _, f := range [...]struct {
		bit ib.AttrMask
		set func()
	}{
		{ib.AttrEnSQDAsyncNotify, func() { q.attr.EnSQDAsyncNotify = a.EnSQDAsyncNotify }},
		{ib.AttrAccessFlags, func() { q.attr.AccessFlags = a.AccessFlags }},
		{ib.AttrPKeyIndex, func() { q.attr.PKeyIndex = a.PKeyIndex; q.pkey = q.env.PKey(a.PKeyIndex) }},
		{ib.AttrPort, func() { q.attr.Port = a.Port }},
		{ib.AttrQKey, func() { q.attr.QKey = a.QKey }},
		{ib.AttrAV, func() { q.attr.AV = a.AV; q.prefixes = prefixCache{} }},
		{ib.AttrPathMTU, func() { q.attr.PathMTU = a.PathMTU }},
		{ib.AttrTimeout, func() { q.attr.Timeout = a.Timeout }},
		{ib.AttrRetryCnt, func() { q.attr.RetryCnt = a.RetryCnt; q.req.retries = a.RetryCnt }},
		{ib.AttrRNRRetry, func() { q.attr.RNRRetry = a.RNRRetry; q.req.rnrLeft = a.RNRRetry }},
		{ib.AttrRQPSN, func() { q.attr.RQPSN = a.RQPSN; q.resp.epsn = a.RQPSN }},
		{ib.AttrMaxRDAtomic, func() { q.attr.MaxRDAtomic = a.MaxRDAtomic }},
		{ib.AttrMinRNRTimer, func() { q.attr.MinRNRTimer = a.MinRNRTimer }},
		{ib.AttrSQPSN, func() { q.attr.SQPSN = a.SQPSN; q.req.start(a.SQPSN) }},
		{ib.AttrMaxDestRDAtomic, func() {
			q.attr.MaxDestRDAtomic = a.MaxDestRDAtomic
			q.resp.res.reserve(uint32(a.MaxDestRDAtomic))
		}},
		{ib.AttrPathMigState, func() { q.attr.PathMigState = a.PathMigState }},
		{ib.AttrDestQPN, func() { q.attr.DestQPN = a.DestQPN }},
	} {
		if m&f.bit != 0 {
			f.set()
		}
	}
}

// enter carries out the move from one state to another.
func (q *QP) enter(now clock.Instant, from, to ib.QPState, mask ib.AttrMask) {
	if mask&(ib.AttrPathMTU|ib.AttrAV) != 0 {
		q.mtu = q.attr.PathMTU.Bytes()
		q.joinFlow()
	}
	switch {
	case from == to:
		return
	case to == ib.ERR:
		q.setState(ib.ERR, "modify")
		q.stop(now)
		return
	case to == ib.INIT && !q.connected() && q.env.FixedSrcPort == 0:
		q.path.SrcPort = roce.SourcePortOfQPN(q.num)
	case to == ib.RTR:
		q.commEst = false
	case from == ib.SQE:
		q.flushSend(now) // posted since (Q15)
		if q.State() == ib.ERR {
			return // a completion found its CQ full (E18)
		}
	}
	q.setState(to, "modify")
	switch to {
	case ib.SQD:
		q.sqd = drainState{draining: true, notify: mask&ib.AttrEnSQDAsyncNotify != 0 && q.attr.EnSQDAsyncNotify}
		q.checkDrained()
	case ib.RTS:
		q.sqd = drainState{}
		q.env.Wake(q)
	}
}

// joinFlow puts the QP in the window of its peer's address.
func (q *QP) joinFlow() {
	if q.typ != ib.RC || q.flow != nil && q.flow.dst == q.path.Dst {
		return
	}
	q.leaveFlow()
	q.flow = q.env.Flows.hold(q.path.Dst)
}

// leaveFlow takes the QP out of its window.
func (q *QP) leaveFlow() {
	q.releaseFlow()
	if q.flow != nil {
		q.env.Flows.release(q.flow)
		q.flow = nil
	}
}

// Query returns the attributes (V12): the state and, except in RESET, where
// the others are undefined, what was set, with the current PSNs.
func (q *QP) Query() ib.QPAttr {
	st := q.State()
	if st == ib.RESET {
		return ib.QPAttr{State: st, CurState: st, Cap: q.Cap()}
	}
	a := q.attr
	a.State, a.CurState, a.Cap = st, st, q.Cap()
	a.SQPSN, a.RQPSN = q.req.alloc, q.resp.epsn
	a.SQDraining = q.sqd.draining
	return a
}
