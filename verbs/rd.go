package verbs

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/qp"
)

// RDD is a reliable datagram domain: its RD queue pairs and EE contexts can be
// used only with each other.
type RDD struct {
	dev *device.Device
	rdd *qp.RDD

	check *live.Object
}

// AllocRDD returns a new reliable datagram domain. ErrInsufficientResources at the
// limit of domains.
func (c *Context) AllocRDD() (*RDD, error) {
	d := &RDD{dev: c.dev()}
	err := d.call("AllocRDD", func(clock.Instant) (err error) {
		d.rdd, err = d.dev.HCA.AllocRDD()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("allocate RDD: %w", err)
	}
	d.check = c.checks().Made("reliable datagram domain", 0)
	return d, nil
}

// Dealloc deallocates a reliable datagram domain. ErrBusy while queue pairs or EE
// contexts are in it, ErrInvalidRDD if it was deallocated before.
func (d *RDD) Dealloc() error {
	err := d.call("DeallocRDD", func(clock.Instant) error { return d.dev.HCA.DeallocRDD(d.rdd) })
	if d != nil && d.dev != nil {
		_ = ended(d.dev.Check, d.check, err)
	}
	return wrap("deallocate RDD", err)
}

// call is Device.Call for verbs that concern no other object.
func (d *RDD) call(verb string, f func(now clock.Instant) error) error {
	if d == nil {
		return ErrInvalidRDD
	}
	return d.dev.Call(verb, f)
}

// EEC is an end-to-end (EE) context: one end of a reliable datagram channel
// between two adapters. It has the connection state of an RC queue pair: the path,
// the PSNs, the timers and retry counts. Any number of RD queue pairs of its domain
// send and receive over it. Each request names the EE context, the destination queue
// pair, and the destination's Q_Key.
//
// One message of a channel is in flight at a time, and queue pairs take turns. An
// error of a queue pair's message moves that queue pair to SQE, and the channel
// continues; only an unreachable peer moves the EE context to ERR.
type EEC struct {
	door
	dev *device.Device
	obj device.EEC

	check *live.Object
}

// CreateEEC returns an EE context in RESET. ErrInvalidRDD, or
// ErrInsufficientResources at the limit of EE contexts.
func (d *RDD) CreateEEC() (*EEC, error) {
	if d == nil {
		return nil, fmt.Errorf("create EE context: %w", ErrInvalidRDD)
	}
	e := &EEC{dev: d.dev}
	e.door = device.DoorTo(e.dev, &e.obj.Object)
	if err := d.dev.CreateEEC(&e.obj, d.rdd, e); err != nil {
		used(d.dev.Check, err, d.check)
		return nil, fmt.Errorf("create EE context: %w", err)
	}
	e.check = d.dev.Check.Made("EE context", uint32(e.obj.EEC.Num()), d.check)
	return e, nil
}

// EECN returns the 24-bit number of the EE context. The peer's EE context has it as
// DestQPN, and completions of receives contain it.
func (e *EEC) EECN() EECN {
	if e == nil {
		return 0
	}
	return e.obj.EEC.Num()
}

// State returns the current state, as QP.State does; RESET for an EE context that
// is nil or destroyed.
func (e *EEC) State() QPState {
	if e == nil {
		return ib.RESET
	}
	e.dev.Settle()
	return e.obj.EEC.State()
}

// Modify sets attributes of the EE context and, if the mask has AttrState, moves it
// to a new state, as QP.Modify does. DestQPN is the number of the EE context at the
// other end. "softhca states --type eec" prints which attributes each move requires
// and allows; there is no SQE. When the EE context leaves RTS or SQD for RESET or
// ERR, the request in flight completes with LOC_EEC_OP_ERR, and requests that wait
// for their turn complete with INV_EEC_STATE_ERR.
func (e *EEC) Modify(attr *QPAttr, mask AttrMask) error {
	if attr == nil {
		return fmt.Errorf("modify EE context: %w", errNoAttr)
	}
	return e.verbs().Modify(attr, mask)
}

// ModifyToRTS moves the EE context from RESET through INIT and RTR to RTS, as
// QP.ModifyToRTS does. It sets the port and the P_Key index; then the address
// vector, path MTU, DestQPN, RQPSN and MaxDestRDAtomic; then the timeout, the retry
// counts, SQPSN and MaxRDAtomic.
func (e *EEC) ModifyToRTS(attr QPAttr) error {
	return walkToRTS(ib.EEC, attr, e.Modify)
}

// Query returns the state and the attributes. In RESET only the state is defined.
// EINVAL for an EE context that is destroyed.
func (e *EEC) Query() (QPAttr, error) { return e.verbs().Query() }

// Destroy destroys the EE context in any state. Requests in flight complete with
// LOC_EEC_OP_ERR. Requests that wait for their turn, and later ones that name the
// EE context, complete with INV_EECN_ERR. ErrBusy while an event about it is not
// acknowledged.
func (e *EEC) Destroy() error {
	err := e.verbs().Destroy()
	if e != nil && e.check != nil {
		e.check.Destroyed(err, e.obj.Taken)
		e.dev.Check.Tell()
	}
	return wrap("destroy EE context", err)
}

// number returns the EE context's number in requests to a device; 0, which is no
// EE context's number, for one of another device.
func (e *EEC) number(d *device.Device) EECN {
	if e == nil || e.dev != d {
		return 0
	}
	return e.obj.EEC.Num()
}

// verbs returns the device's side of the EE context, nil for nil.
func (e *EEC) verbs() *device.EEC {
	if e == nil {
		return nil
	}
	return &e.obj
}
