package device

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Advise gives an advice on the memory of scatter/gather elements. It follows the advice
// before it returns; only with wait does it also say whether that failed: EFAULT for
// memory that is not mapped. Memory of the adapter's regions is never pinned, so the
// advice is about the page table of the process.
func (p *PD) Advise(advice ib.Advice, wait bool, sges []ib.SGE) error {
	need := ib.Access(0)
	switch {
	case advice > ib.AdvicePrefetchNoFault:
		return fmt.Errorf("advice %d: %w", advice, ib.EOPNOTSUPP)
	case len(sges) == 0:
		return fmt.Errorf("an advice on no memory: %w", ib.EINVAL)
	case advice == ib.AdvicePrefetchWrite:
		need = ib.AccessLocalWrite
	}
	views := make([][]byte, 0, len(sges))
	err := p.call("AdviseMR", func(clock.Instant) error {
		for _, e := range sges {
			b, err := p.pd.View(e, need)
			if err != nil {
				return err
			}
			views = append(views, b)
		}
		return nil
	})
	if err != nil || advice == ib.AdvicePrefetchNoFault {
		return err
	}
	for _, b := range views {
		if failed := populate(b, advice == ib.AdvicePrefetchWrite); failed != nil && wait {
			return fmt.Errorf("prefetch %d bytes: %w", len(b), failed)
		}
	}
	return nil
}
