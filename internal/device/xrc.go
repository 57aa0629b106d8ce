package device

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// XRCD is an XRC domain with its verbs, as PD is a protection domain. A nil or closed one has the
// error ib.ErrInvalidXRCD.
type XRCD struct {
	dev  *Device
	xrcd *qp.XRCD
}

// OpenXRCD makes x a new XRC domain.
func (d *Device) OpenXRCD(x *XRCD) error {
	return d.Call("OpenXRCDomain", func(clock.Instant) (err error) {
		x.dev = d
		x.xrcd, err = d.HCA.OpenXRCD()
		return err
	})
}

// Of reports whether x is a domain of a device.
func (x *XRCD) Of(d *Device) bool { return x != nil && x.dev == d }

// Close closes the domain, which must be empty.
func (x *XRCD) Close() error {
	return x.call("CloseXRCDomain", func(clock.Instant) error { return x.dev.HCA.CloseXRCD(x.xrcd) })
}

// CreateTarget makes q a new target of the domain.
func (x *XRCD) CreateTarget(q *QP, owner any) error {
	return x.call("CreateQP", func(clock.Instant) (err error) {
		if q.QP, err = x.dev.HCA.CreateQP(nil, hca.QPConfig{Type: ib.XRCTgt, XRCD: x.xrcd}); err != nil {
			return err
		}
		q.Owner = owner
		x.dev.Add(&q.Object)
		return nil
	})
}

// OpenTarget makes q another handle of the target with number n, which must be of the domain.
func (x *XRCD) OpenTarget(q *QP, owner any, n ib.QPN) error {
	return x.call("OpenQP", func(clock.Instant) error {
		if err := x.dev.HCA.Enter(func() error {
			if q.QP = x.dev.HCA.Shard().QP(n); q.QP == nil || !x.xrcd.Has(q.QP) {
				return fmt.Errorf("no XRC target of the domain has the number %v: %w", n, ib.EINVAL)
			}
			return nil
		}); err != nil {
			return err
		}
		q.Owner = owner
		x.dev.Add(&q.Object)
		return nil
	})
}

// call is Device.Call for verbs that concern no other object.
func (x *XRCD) call(verb string, f func(now clock.Instant) error) error {
	if x == nil {
		return ib.ErrInvalidXRCD
	}
	return x.dev.Call(verb, f)
}
