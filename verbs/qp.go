package verbs

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/fault"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

var (
	// errDestroyed is returned for calls on a QP that is gone.
	errDestroyed = fmt.Errorf("the queue pair is nil or destroyed: %w", ib.EINVAL)
	// errNoAttr is returned for a nil pointer where attributes belong.
	errNoAttr = fmt.Errorf("no attributes: %w", ib.EINVAL)
)

// QPInitAttr says what a queue pair is made of (V4).
type QPInitAttr struct {
	Type   ib.QPType // RC, UC or UD
	SendCQ *CQ
	RecvCQ *CQ        // may be SendCQ
	SRQ    *SRQ       // nil for a receive queue of its own
	Cap    QPCap      // Create sets the actual sizes, never less than asked (V5)
	SQSig  ib.SigType // SigPerWR: requests choose with SendSignaled
}

// QP is a queue pair.
type QP struct {
	pd        *PD
	qp        *qp.QP
	unacked   int // events that were taken; the event queue's mu guards it
	destroyed atomic.Bool
}

// CreateQP returns a queue pair in RESET. It fails with ErrInvalidHCA,
// ErrInvalidPD, ErrInvalidCQ, ErrInvalidSRQ, ErrInvalidServiceType,
// ErrTooManyWRs, ErrTooManySGEs, ErrTooMuchInline or
// ErrInsufficientResources (V6).
func (p *PD) CreateQP(attr *QPInitAttr) (*QP, error) {
	if p == nil {
		return nil, fmt.Errorf("create QP: %w", ErrInvalidPD)
	}
	if attr == nil {
		return nil, fmt.Errorf("create QP: %w", errNoAttr)
	}
	q := &QP{pd: p}
	err := p.call(fault.CreateQP, func(clock.Instant) error { return q.create(attr) })
	if err != nil {
		return nil, fmt.Errorf("create %v QP: %w", attr.Type, err)
	}
	attr.Cap = q.qp.Cap()
	p.ctx.events.addQP(q)
	return q, nil
}

// create makes the QP. It runs on the shard's thread, so that none of the
// objects that it names ends meanwhile.
func (q *QP) create(attr *QPInitAttr) (err error) {
	p := q.pd
	if attr.Type == ib.GSI { // the adapter's own
		return ErrInvalidServiceType
	}
	c := hca.QPConfig{Type: attr.Type, Cap: attr.Cap, SigAll: attr.SQSig == ib.SigAll}
	if !attr.SendCQ.usableIn(p.ctx) || !attr.RecvCQ.usableIn(p.ctx) {
		return ErrInvalidCQ
	}
	c.SendCQ, c.RecvCQ = attr.SendCQ.cq, attr.RecvCQ.cq
	if s := attr.SRQ; s != nil {
		if s.pd.ctx != p.ctx || s.destroyed.Load() {
			return ErrInvalidSRQ
		}
		c.SRQ = s.srq
	}
	q.qp, err = p.ctx.hca.CreateQP(p.pd, c)
	return err
}

// usableIn reports whether q is a live CQ of c.
func (q *CQ) usableIn(c *Context) bool { return q != nil && q.ctx == c && !q.destroyed.Load() }

// QPN returns the 24-bit queue pair number.
func (q *QP) QPN() ib.QPN { return q.qp.Num() }

// Type returns the transport service.
func (q *QP) Type() ib.QPType { return q.qp.Type() }

// State returns the present state.
func (q *QP) State() ib.QPState { return q.qp.State() }

// Modify gives the QP attributes and, if the mask has AttrState, a new state
// (V7). What is required and allowed for which move is the table that
// "softhca states" prints. A call that is refused changes nothing (V9) and
// says which attributes were missing or too many. Errors unwrap to EINVAL,
// EOPNOTSUPP or EPERM.
func (q *QP) Modify(attr *QPAttr, mask ib.AttrMask) error {
	if attr == nil {
		return fmt.Errorf("modify QP: %w", errNoAttr)
	}
	return q.call(fault.ModifyQP, func(now clock.Instant) error {
		err := q.qp.Modify(now, attr, mask)
		q.pd.ctx.hca.Shard().Arm(q.qp)
		return err
	})
}

// Query returns the state and the attributes (V12). In RESET only the state
// and the sizes are defined.
func (q *QP) Query() (QPAttr, error) {
	var a QPAttr
	err := q.call(fault.QueryQP, func(clock.Instant) error {
		a = q.qp.Query()
		return nil
	})
	return a, err
}

// PostSend posts send work requests in order. An error is a *PostError that
// names the first that was not taken; those before it stay posted. It does
// not block: if the adapter is free it sends on the caller's thread, else
// whoever holds it sends.
func (q *QP) PostSend(wrs ...SendWR) error {
	if err := q.usable(); err != nil {
		return err
	}
	n, err := q.postSend(wrs)
	if n > 0 {
		q.pd.ctx.drv.Post(q.qp)
	}
	if err != nil {
		return &PostError{Index: n, WRID: wrs[n].WRID, Err: err}
	}
	return nil
}

// PostRecv posts receives in order, as PostSend does sends.
func (q *QP) PostRecv(wrs ...RecvWR) error {
	if err := q.usable(); err != nil {
		return err
	}
	n, err := q.postRecv(wrs)
	if n > 0 && q.qp.State() == ib.ERR { // flushed by the shard
		q.pd.ctx.drv.Post(q.qp)
	}
	if err != nil {
		if n == len(wrs) {
			return err
		}
		return &PostError{Index: n, WRID: wrs[n].WRID, Err: err}
	}
	return nil
}

// Destroy ends the QP in any state (V13): its work requests and unpolled
// completions vanish, it leaves its multicast groups, packets that still come
// are dropped, and its QPN rests.
// ErrBusy while an event about it is not acknowledged.
func (q *QP) Destroy() error {
	if q == nil {
		return errDestroyed
	}
	c := q.pd.ctx
	var groups []netip.Addr
	err := q.call(fault.DestroyQP, func(clock.Instant) error {
		return c.events.end(&q.unacked, func() error {
			q.destroyed.Store(true)
			groups = c.hca.LeaveGroups(q.qp)
			c.hca.DestroyQP(q.pd.pd, q.qp)
			c.events.removeQP(q)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("destroy QP: %w", err)
	}
	c.leave(groups...)
	return nil
}

// usable returns why posting fails, nil if it does not.
func (q *QP) usable() error {
	if q == nil {
		return errDestroyed
	}
	if err := q.pd.ctx.alive(); err != nil {
		return err
	}
	if q.destroyed.Load() {
		return errDestroyed
	}
	return nil
}

// call is do for a verb, which the rules of faults may make fail.
func (q *QP) call(v fault.Verb, f func(now clock.Instant) error) error {
	if err := q.called(v); err != nil {
		return err
	}
	return q.do(f)
}

// called tells the rules of faults that a verb is called; an error is one that
// a rule makes it fail with, or that of a QP that is gone.
func (q *QP) called(v fault.Verb) error {
	if q == nil || q.destroyed.Load() {
		return errDestroyed
	}
	return q.pd.ctx.called(v, subject{qp: q.qp})
}

// do runs f as the shard's thread if the QP still exists.
func (q *QP) do(f func(now clock.Instant) error) error {
	if q == nil {
		return errDestroyed
	}
	return q.pd.do(func(now clock.Instant) error {
		if q.destroyed.Load() {
			return errDestroyed
		}
		return f(now)
	})
}
