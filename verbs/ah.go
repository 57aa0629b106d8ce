package verbs

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/fault"
)

// errNoAH is what calls on no address handle at all return.
var errNoAH = fmt.Errorf("no address handle: %w", ib.EINVAL)

// AH is an address handle: the destination of UD messages.
type AH struct {
	pd *PD
	h  ib.AHHandle
}

// CreateAH resolves an address vector.
func (p *PD) CreateAH(attr AHAttr) (*AH, error) {
	a := &AH{pd: p}
	err := p.call(fault.CreateAH, func(clock.Instant) (err error) {
		a.h, err = p.pd.CreateAH(&attr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create AH: %w", err)
	}
	return a, nil
}

// Handle returns what SendWR.AH takes.
func (a *AH) Handle() ib.AHHandle { return a.h }

// Destroy ends the handle. Messages that still name it complete with
// LOC_QP_OP_ERR.
func (a *AH) Destroy() error {
	if a == nil {
		return errNoAH
	}
	if err := a.pd.call(fault.DestroyAH, func(clock.Instant) error { return a.pd.pd.DestroyAH(a.h) }); err != nil {
		return fmt.Errorf("destroy AH: %w", err)
	}
	return nil
}
