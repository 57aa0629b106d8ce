package device

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// Errors of calls on objects that are nil or destroyed.
var (
	ErrNoQP  = fmt.Errorf("the queue pair is nil or destroyed: %w", ib.EINVAL)
	ErrNoEEC = fmt.Errorf("the EE context is nil or destroyed: %w", ib.EINVAL)
)

// QP is a queue pair with its verbs. The program's object holds it, and has CreateQP make it.
// Each verb returns ErrNoQP if the queue pair is nil or destroyed, and the error of a rule of
// faults that concerns it.
type QP struct {
	Object
	pd     *hca.PD
	groups int // multicast groups to which it is attached; the shard's thread guards it
}

// CreateQP creates the queue pair q in the protection domain. The control plane calls config,
// so that no object that the configuration names can be destroyed meanwhile.
func (p *PD) CreateQP(q *QP, owner any, config func() (hca.QPConfig, error)) error {
	return p.call("CreateQP", func(clock.Instant) error {
		c, err := config()
		if err != nil {
			return err
		}
		if c.Type == ib.GSI || c.Type == ib.XRCTgt { // the adapter's own queue pair; one of an XRC domain
			return ib.ErrInvalidServiceType
		}
		if q.QP, err = p.dev.HCA.CreateQP(p.pd, c); err != nil {
			return err
		}
		q.pd, q.Owner = p.pd, owner
		p.dev.Add(&q.Object)
		return nil
	})
}

// Modify sets attributes, and the state if the mask has it.
func (q *QP) Modify(attr *ib.QPAttr, mask ib.AttrMask) error {
	return q.call("ModifyQP", func(now clock.Instant) error {
		err := q.QP.Modify(now, attr, mask)
		if mask&(ib.AttrTimeout|ib.AttrRetryCnt) != 0 && err == nil {
			a := q.QP.Query()
			q.dev.faults.countTimers(&a)
		}
		return err
	})
}

// SetRateLimit limits the rate at which the queue pair sends.
func (q *QP) SetRateLimit(l qp.RateLimit) error {
	return q.call("ModifyQPRateLimit", func(clock.Instant) error { return q.QP.SetRateLimit(l) })
}

// Query returns the state and the attributes.
func (q *QP) Query() (a ib.QPAttr, err error) {
	err = q.call("QueryQP", func(clock.Instant) error {
		a = q.QP.Query()
		return nil
	})
	return a, err
}

// Attach has the host join a multicast group, and then attaches the queue pair. The port counts
// joins: each attachment has one join, and detaching undoes it.
func (q *QP) Attach(gid ib.GID) error {
	if q == nil {
		return ErrNoQP
	}
	if err := q.Called("AttachMcast", ErrNoQP); err != nil {
		return err
	}
	group, err := hca.McastGroup(q.QP, gid)
	if err != nil {
		return err
	}
	if err := q.dev.Port.Join(group); err != nil {
		if errors.Is(err, fabric.ErrClosed) {
			return ib.ErrInvalidHCA
		}
		return err
	}
	added := false
	err = q.Do(ErrNoQP, func(clock.Instant) (err error) {
		if added, err = q.dev.HCA.AttachMcast(q.QP, gid); added {
			q.groups++
		}
		return err
	})
	if !added {
		q.leave(group)
	}
	return err
}

// Detach ends an attachment.
func (q *QP) Detach(gid ib.GID) error {
	err := q.call("DetachMcast", func(clock.Instant) error {
		err := q.dev.HCA.DetachMcast(q.QP, gid)
		if err == nil {
			q.groups--
		}
		return err
	})
	if err == nil {
		q.leave(gid.Addr())
	}
	return err
}

// Destroy destroys the queue pair in any state; of an XRC target only the handle, unless it is the
// last one. If detach is false, it fails with EBUSY while
// the queue pair is attached to a multicast group; else it ends the attachments.
func (q *QP) Destroy(detach bool) error {
	var groups []netip.Addr
	if q == nil {
		return ErrNoQP
	}
	end := func() error {
		if q.groups > 0 && !detach {
			return fmt.Errorf("the QP is attached to %d multicast groups: %w", q.groups, ib.EBUSY)
		}
		if !q.dev.events.alone(&q.Object) { // an XRC target that is open elsewhere
			return nil
		}
		groups = q.dev.HCA.LeaveGroups(q.QP)
		q.dev.HCA.DestroyQP(q.pd, q.QP)
		return nil
	}
	err := q.Manage("DestroyQP", ErrNoQP, func(clock.Instant) error {
		return q.dev.HCA.Enter(func() error { return q.Remove(end) })
	})
	q.leave(groups...)
	if err == nil && q.destroyed != nil {
		q.destroyed()
	}
	return err
}

// leave undoes one join of each group.
func (q *QP) leave(groups ...netip.Addr) {
	for _, g := range groups {
		// The group was joined, so this fails only if the port is closed, and a closed port is in
		// no group.
		_ = q.dev.Port.Leave(g)
	}
}

func (q *QP) call(verb string, f func(now clock.Instant) error) error {
	if q == nil {
		return ErrNoQP
	}
	return q.Call(verb, ErrNoQP, f)
}

// EEC is an EE context with its verbs, as QP is a queue pair. Its errors name ErrNoEEC.
type EEC struct{ Object }

// CreateEEC creates the EE context e in a domain.
func (d *Device) CreateEEC(e *EEC, domain *qp.RDD, owner any) error {
	return d.Call("CreateEEC", func(clock.Instant) (err error) {
		if e.EEC, err = d.HCA.CreateEEC(domain); err != nil {
			return err
		}
		e.Owner = owner
		d.Add(&e.Object)
		return nil
	})
}

// Modify sets attributes, and the state if the mask has it.
func (e *EEC) Modify(attr *ib.QPAttr, mask ib.AttrMask) error {
	return e.call("ModifyEEC", func(now clock.Instant) error {
		err := e.EEC.Modify(now, attr, mask)
		if mask&(ib.AttrTimeout|ib.AttrRetryCnt) != 0 && err == nil {
			a := e.EEC.Query()
			e.dev.faults.countTimers(&a)
		}
		return err
	})
}

// Query returns the state and the attributes.
func (e *EEC) Query() (a ib.QPAttr, err error) {
	err = e.call("QueryEEC", func(clock.Instant) error {
		a = e.EEC.Query()
		return nil
	})
	return a, err
}

// Destroy destroys the EE context in any state.
func (e *EEC) Destroy() error {
	if e == nil {
		return ErrNoEEC
	}
	return e.Manage("DestroyEEC", ErrNoEEC, func(now clock.Instant) error {
		end := func() error {
			e.dev.HCA.DestroyEEC(now, e.EEC)
			return nil
		}
		return e.dev.HCA.Enter(func() error { return e.Remove(end) })
	})
}

func (e *EEC) call(verb string, f func(now clock.Instant) error) error {
	if e == nil {
		return ErrNoEEC
	}
	return e.Call(verb, ErrNoEEC, f)
}
