package adapter

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/verbs"
)

// Resources are the objects that a program creates on an adapter. Close destroys
// them from the last to the first. After the first failure, Err returns the error,
// and all further objects are nil. One goroutine at a time uses it.
type Resources struct {
	Device  *verbs.Context
	err     error
	destroy []func() error
}

// NewResources returns Resources without objects.
func NewResources(dev *verbs.Context) *Resources { return &Resources{Device: dev} }

// Err returns the first error of creating an object.
func (r *Resources) Err() error { return r.err }

// OnClose makes Close call f before it destroys the objects created so far.
func (r *Resources) OnClose(f func() error) { r.destroy = append(r.destroy, f) }

// Close destroys the objects. It returns all errors.
func (r *Resources) Close() error {
	var errs []error
	for n := len(r.destroy); n > 0; n = len(r.destroy) {
		destroy := r.destroy[n-1]
		r.destroy = r.destroy[:n-1]
		errs = append(errs, destroy())
	}
	return errors.Join(errs...)
}

// made creates an object unless an earlier creation failed.
func made[T any](r *Resources, create func() (T, error), destroy func(T) error) T {
	var none T
	if r.err != nil {
		return none
	}
	object, err := create()
	if err != nil {
		r.err = err
		return none
	}
	r.OnClose(func() error { return destroy(object) })
	return object
}

// NewPD allocates a protection domain.
func (r *Resources) NewPD() *verbs.PD { return made(r, r.Device.AllocPD, (*verbs.PD).Dealloc) }

// NewCQ creates a completion queue of n entries; ch may be nil.
func (r *Resources) NewCQ(n int, ch *verbs.CompChannel) *verbs.CQ {
	return made(r, func() (*verbs.CQ, error) { return r.Device.CreateCQ(n, ch) }, (*verbs.CQ).Destroy)
}

// NewQueue creates a completion queue of n entries to sleep on.
func (r *Resources) NewQueue(n int) *Queue {
	ch := verbs.NewCompChannel(1)
	return &Queue{r.NewCQ(n, ch), ch}
}

// NewMR registers new memory of n bytes.
func (r *Resources) NewMR(pd *verbs.PD, n int, access ib.Access) *verbs.MR {
	return made(r, func() (*verbs.MR, error) { return pd.RegMR(make([]byte, n), access) }, (*verbs.MR).Dereg)
}

// NewQP creates a queue pair.
func (r *Resources) NewQP(pd *verbs.PD, attr *verbs.QPInitAttr) *verbs.QP {
	return made(r, func() (*verbs.QP, error) { return pd.CreateQP(attr) }, (*verbs.QP).Destroy)
}

// NewMW allocates a memory window.
func (r *Resources) NewMW(pd *verbs.PD, t ib.MWType) *verbs.MW {
	return made(r, func() (*verbs.MW, error) { return pd.AllocMW(t) }, (*verbs.MW).Dealloc)
}

// NewXRCDomain opens a domain of extended reliable connections.
func (r *Resources) NewXRCDomain() *verbs.XRCDomain {
	return made(r, r.Device.OpenXRCDomain, (*verbs.XRCDomain).Close)
}

// NewXRCTarget creates a target in an XRC domain.
func (r *Resources) NewXRCTarget(x *verbs.XRCDomain) *verbs.QP {
	return made(r, func() (*verbs.QP, error) { return x.CreateQP() }, (*verbs.QP).Destroy)
}

// NewXRCSRQ creates a shared receive queue of n receives with one element each in an XRC domain.
func (r *Resources) NewXRCSRQ(pd *verbs.PD, x *verbs.XRCDomain, cq *verbs.CQ, n int) *verbs.SRQ {
	return made(r, func() (*verbs.SRQ, error) {
		return pd.CreateXRCSRQ(x, cq, &verbs.SRQInitAttr{MaxWR: uint32(n), MaxSGE: 1})
	}, (*verbs.SRQ).Destroy)
}

// NewRDD allocates a reliable datagram domain.
func (r *Resources) NewRDD() *verbs.RDD { return made(r, r.Device.AllocRDD, (*verbs.RDD).Dealloc) }

// NewEEC creates an EE context.
func (r *Resources) NewEEC(d *verbs.RDD) *verbs.EEC {
	return made(r, func() (*verbs.EEC, error) { return d.CreateEEC() }, (*verbs.EEC).Destroy)
}

// NewAH creates an address handle.
func (r *Resources) NewAH(pd *verbs.PD, attr ib.AHAttr) *verbs.AH {
	return made(r, func() (*verbs.AH, error) { return pd.CreateAH(attr) }, (*verbs.AH).Destroy)
}

// Move moves a queue pair through states, each with those of the attributes that
// the move requires.
func Move(q *verbs.QP, attr ib.QPAttr, states ...ib.QPState) error {
	for _, to := range states {
		// Modify returns the error for an illegal move.
		required, _, _ := qp.Transition(q.Type(), q.State(), to)
		attr.State = to
		if err := q.Modify(&attr, required|ib.AttrState); err != nil {
			return fmt.Errorf("modify to %v: %w", to, err)
		}
	}
	return nil
}
