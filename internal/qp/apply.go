package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/roce"
)

// Modify sets QP attributes and, if the mask has STATE, moves the QP (V7). The
// modify table decides which calls are legal; a refused call changes nothing
// (V9). Errors unwrap to EINVAL, EOPNOTSUPP or EPERM.
func (q *QP) Modify(now clock.Instant, attr *ib.QPAttr, mask ib.AttrMask) error {
	q.ep.env.Enter(now)
	defer q.Arm()
	defer q.describe()
	m, err := q.plan(attr, mask)
	if err != nil {
		return err
	}
	if m.to == ib.RESET {
		q.rd.leave(now, ib.WCSuccess)
		q.accept(&m)
		return nil
	}
	q.accept(&m)
	q.carryOut(now, &m)
	q.enter(now, &m)
	return nil
}

// accept stores the attributes of a change, or resets the QP. It holds both posting locks,
// so it raises no event.
func (q *QP) accept(m *change) {
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if m.to == ib.RESET {
		q.clear()
		q.forget()
		q.setState(ib.RESET, "modify")
		return
	}
	q.store(m.attr, m.mask)
}

// change is a modify call that passed all checks.
type change struct {
	from, to  ib.QPState
	attr      *ib.QPAttr
	mask      ib.AttrMask
	path, alt Path // of the endpoint afterwards
}

// plan checks a modify call and works out its effect.
func (e *End) plan(attr *ib.QPAttr, mask ib.AttrMask) (m change, err error) {
	mig := &e.ep.mig
	from := ModifyFrom{
		Type: e.ep.typ, State: e.State(), Draining: e.sqd.draining, Port: e.ep.attr.Port,
		Migration: mig.state, AltPath: mig.loaded,
	}
	m = change{from: from.State, attr: attr, mask: mask, path: e.ep.path, alt: mig.path}
	if m.to, err = CheckModify(from, attr, mask, &e.ep.env.Limits); err != nil {
		return m, err
	}
	flow := roce.FlowLabel(e.ep.num, e.ep.attr.DestQPN)
	if mask&ib.AttrDestQPN != 0 {
		flow = roce.FlowLabel(e.ep.num, attr.DestQPN)
	}
	if mask&ib.AttrPort != 0 {
		m.path.Port = e.ep.env.port(attr.Port)
	}
	if mask&ib.AttrAV != 0 {
		if m.path, err = e.ep.env.Resolve(&attr.AV, flow); err != nil {
			return m, err
		}
	}
	if mask&ib.AttrAltPath != 0 {
		m.alt, err = e.ep.env.Resolve(&attr.AltAV, flow)
	}
	return m, err
}

// forget clears all attributes, as RESET does.
func (e *End) forget() {
	e.ep.attr, e.ep.limit = ib.QPAttr{}, RateLimit{}
	e.setPath(Path{Port: e.ep.env.port(1)})
	e.ep.pkey, e.ep.mtu, e.ep.dest = 0, 0, destination{}
}

// carryOut applies the stored attributes of a change to the parts of the end.
func (e *End) carryOut(now clock.Instant, m *change) {
	mig := &e.ep.mig
	e.setPath(m.path)
	mig.path = m.alt
	if m.mask&(ib.AttrPKeyIndex|ib.AttrPort|ib.AttrAV) != 0 {
		e.ep.pkey = m.path.Port.PKeys[e.ep.attr.PKeyIndex]
	}
	e.ep.setPace()
	if m.mask&ib.AttrPathMigState != 0 {
		e.in.peer = place{next: e.in.epsn}
		mig.set(now, m.attr.PathMigState)
	}
	if m.mask&(ib.AttrPathMTU|ib.AttrAV) != 0 {
		e.ep.mtu = e.ep.attr.PathMTU.Bytes()
		if e.ep.reliable() {
			e.req.chunk = newChunkSize(e.ep.env.Settings.WindowBytes, e.ep.mtu)
			e.req.flight.Join(e.ep.env.Peers, e.ep.path.Dst)
		}
	}
	e.req.setPolicy()
}

// store copies the attributes that the mask names.
func (e *End) store(a *ib.QPAttr, m ib.AttrMask) {
	mig := &e.ep.mig
	for _, f := range [...]struct {
		bit ib.AttrMask
		set func()
	}{
		{ib.AttrEnSQDAsyncNotify, func() { e.ep.attr.EnSQDAsyncNotify = a.EnSQDAsyncNotify }},
		{ib.AttrAccessFlags, func() { e.ep.attr.AccessFlags = a.AccessFlags }},
		{ib.AttrPort, func() { e.ep.attr.Port = a.Port }},
		{ib.AttrPKeyIndex, func() { e.ep.attr.PKeyIndex = a.PKeyIndex }},
		{ib.AttrQKey, func() { e.ep.attr.QKey = a.QKey }},
		{ib.AttrAV, func() { e.ep.attr.AV, e.ep.attr.Port, e.ep.prefixes = a.AV, a.AV.Port, packet.Prefixes{} }},
		{ib.AttrPathMTU, func() { e.ep.attr.PathMTU = a.PathMTU }},
		{ib.AttrTimeout, func() { e.ep.attr.Timeout = a.Timeout }},
		{ib.AttrRetryCnt, func() { e.ep.attr.RetryCnt = a.RetryCnt; e.req.retry.SetRetries(a.RetryCnt) }},
		{ib.AttrRNRRetry, func() { e.ep.attr.RNRRetry = a.RNRRetry; e.req.retry.SetRNRRetries(a.RNRRetry) }},
		{ib.AttrRQPSN, func() { e.in.epsn = a.RQPSN }},
		{ib.AttrMaxRDAtomic, func() { e.ep.attr.MaxRDAtomic = a.MaxRDAtomic }},
		{ib.AttrMinRNRTimer, func() { e.ep.attr.MinRNRTimer = a.MinRNRTimer }},
		{ib.AttrSQPSN, func() { e.req.start(a.SQPSN) }},
		{ib.AttrMaxDestRDAtomic, func() { e.ep.attr.MaxDestRDAtomic = a.MaxDestRDAtomic }},
		{ib.AttrAltPath, func() { mig.load(a) }},
		{ib.AttrDestQPN, func() { e.ep.attr.DestQPN, e.ep.dest.qpn, e.in.src = a.DestQPN, a.DestQPN, a.DestQPN }},
	} {
		if m&f.bit != 0 {
			f.set()
		}
	}
}

// enter carries out the move from one state to another.
func (q *QP) enter(now clock.Instant, m *change) {
	from, to := m.from, m.to
	switch {
	case from == to:
		return
	case to == ib.ERR:
		q.rd.findLost(now)
		q.findLost(now)
		q.challenge.conclude(now)
		if q.State() == ib.ERR {
			return
		}
		q.setState(ib.ERR, "modify")
		q.stop(now)
		return
	case to == ib.INIT && !q.ep.connected() && q.ep.path.Port.SrcPort == 0:
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
		q.rd.pause(now)
		q.drain(m)
		q.settled(now)
	case ib.RTS:
		q.sqd = drainState{}
		q.sender.sendPosted(now)
	}
}

// drain starts draining the send queue (SQD).
func (e *End) drain(m *change) {
	e.sqd = drainState{draining: true, notify: m.mask&ib.AttrEnSQDAsyncNotify != 0 && e.ep.attr.EnSQDAsyncNotify}
}

// Query returns the attributes (V12): the state and, except in RESET, where the
// others are undefined, the attributes as last set, with the current PSNs.
func (q *QP) Query() ib.QPAttr {
	a := q.End.Query()
	a.Cap = q.Cap()
	return a
}

// Query returns the attributes except the queue sizes, which belong to the
// queue pair.
func (e *End) Query() ib.QPAttr {
	st := e.State()
	if st == ib.RESET {
		return ib.QPAttr{State: st, CurState: st}
	}
	a, mig := e.ep.attr, &e.ep.mig
	a.State, a.CurState = st, st
	a.SQPSN, a.RQPSN = e.req.alloc, e.in.epsn
	a.SQDraining, a.PathMigState = e.sqd.draining, mig.state
	return a
}
