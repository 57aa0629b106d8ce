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
	q.ep.env.Now = now
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	from := ModifyFrom{
		Type: q.ep.typ, State: q.State(), Draining: q.sqd.draining, Port: q.ep.attr.Port,
		Migration: q.ep.mig.state, AltPath: q.ep.mig.loaded,
	}
	to, err := CheckModify(from, attr, mask, &q.ep.env.Limits)
	if err != nil {
		return err
	}
	path, alt := q.ep.path, q.ep.mig.path
	flow := roce.FlowLabel(q.ep.num, q.ep.attr.DestQPN)
	if mask&ib.AttrDestQPN != 0 {
		flow = roce.FlowLabel(q.ep.num, attr.DestQPN)
	}
	if mask&ib.AttrAV != 0 {
		if path, err = q.ep.env.Route(&attr.AV, flow); err != nil {
			return err
		}
	}
	if mask&ib.AttrAltPath != 0 {
		if alt, err = q.ep.env.Route(&attr.AltAV, flow); err != nil {
			return err
		}
	}
	if to == ib.RESET {
		q.clear()
		q.ep.attr, q.ep.limit = ib.QPAttr{}, RateLimit{}
		q.ep.path, q.ep.pkey, q.ep.mtu = fabric.Path{}, 0, 0
		q.setState(ib.RESET, "modify")
		return nil
	}
	q.store(attr, mask)
	q.ep.path, q.ep.mig.path = path, alt
	q.ep.setPace()
	if mask&ib.AttrPathMigState != 0 {
		q.in.peer = place{next: q.in.epsn}
		q.ep.mig.set(now, attr.PathMigState)
	}
	q.enter(now, from.State, to, mask)
	return nil
}

// store copies the attributes that the mask names.
func (q *QP) store(a *ib.QPAttr, m ib.AttrMask) {
	for _, f := range [...]struct {
		bit ib.AttrMask
		set func()
	}{
		{ib.AttrEnSQDAsyncNotify, func() { q.ep.attr.EnSQDAsyncNotify = a.EnSQDAsyncNotify }},
		{ib.AttrAccessFlags, func() { q.ep.attr.AccessFlags = a.AccessFlags }},
		{ib.AttrPKeyIndex, func() { q.ep.attr.PKeyIndex = a.PKeyIndex; q.ep.pkey = q.ep.env.PKey(a.PKeyIndex) }},
		{ib.AttrPort, func() { q.ep.attr.Port = a.Port }},
		{ib.AttrQKey, func() { q.ep.attr.QKey = a.QKey }},
		{ib.AttrAV, func() { q.ep.attr.AV = a.AV; q.ep.prefixes = prefixCache{} }},
		{ib.AttrPathMTU, func() { q.ep.attr.PathMTU = a.PathMTU }},
		{ib.AttrTimeout, func() { q.ep.attr.Timeout = a.Timeout }},
		{ib.AttrRetryCnt, func() { q.ep.attr.RetryCnt = a.RetryCnt; q.req.retries = a.RetryCnt }},
		{ib.AttrRNRRetry, func() { q.ep.attr.RNRRetry = a.RNRRetry; q.req.rnrLeft = a.RNRRetry }},
		{ib.AttrRQPSN, func() { q.in.epsn = a.RQPSN }},
		{ib.AttrMaxRDAtomic, func() { q.ep.attr.MaxRDAtomic = a.MaxRDAtomic }},
		{ib.AttrMinRNRTimer, func() { q.ep.attr.MinRNRTimer = a.MinRNRTimer }},
		{ib.AttrSQPSN, func() { q.req.start(a.SQPSN) }},
		{ib.AttrMaxDestRDAtomic, func() {
			q.ep.attr.MaxDestRDAtomic = a.MaxDestRDAtomic
			q.resp.kept.reserve(int(a.MaxDestRDAtomic))
		}},
		{ib.AttrAltPath, func() { q.ep.mig.load(a) }},
		{ib.AttrDestQPN, func() { q.ep.attr.DestQPN = a.DestQPN }},
	} {
		if m&f.bit != 0 {
			f.set()
		}
	}
}

// enter carries out the move from one state to another.
func (q *QP) enter(now clock.Instant, from, to ib.QPState, mask ib.AttrMask) {
	if mask&(ib.AttrPathMTU|ib.AttrAV) != 0 {
		q.ep.mtu = q.ep.attr.PathMTU.Bytes()
		if q.ep.typ == ib.RC {
			q.req.chunk = newChunkSize(q.ep.env.Settings.WindowBytes, q.ep.mtu)
			q.req.share.join(q.ep.env.Peers, q.ep.path.Dst)
			q.req.repair.peer = q.req.share.peer.known
		}
	}
	switch {
	case from == to:
		return
	case to == ib.ERR:
		q.setState(ib.ERR, "modify")
		q.stop(now)
		return
	case to == ib.INIT && !q.ep.connected() && q.ep.env.FixedSrcPort == 0:
		q.ep.path.SrcPort = roce.SourcePortOfQPN(q.ep.num)
	case to == ib.RTR:
		q.in.commEst = false
	case from == ib.SQE:
		q.req.flush(now) // posted since (Q15)
		if q.State() == ib.ERR {
			return // a completion found its CQ full (E18)
		}
	}
	q.setState(to, "modify")
	switch to {
	case ib.SQD:
		q.sqd = drainState{draining: true, notify: mask&ib.AttrEnSQDAsyncNotify != 0 && q.ep.attr.EnSQDAsyncNotify}
		q.checkDrained()
	case ib.RTS:
		q.sqd = drainState{}
		q.ep.env.Wake(&q.End)
	}
}

// Query returns the attributes (V12): the state and, except in RESET, where
// the others are undefined, what was set, with the current PSNs.
func (q *QP) Query() ib.QPAttr {
	st := q.State()
	if st == ib.RESET {
		return ib.QPAttr{State: st, CurState: st, Cap: q.Cap()}
	}
	a := q.ep.attr
	a.State, a.CurState, a.Cap = st, st, q.Cap()
	a.SQPSN, a.RQPSN = q.req.alloc, q.in.epsn
	a.SQDraining, a.PathMigState = q.sqd.draining, q.ep.mig.state
	return a
}
