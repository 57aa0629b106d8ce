package verbs

import "github.com/softhca/softhca/ib"

// Advice is an advice on memory of regions.
type Advice = ib.Advice

// The advices.
const (
	AdvicePrefetch        Advice = ib.AdvicePrefetch        // make the pages present, for reading
	AdvicePrefetchWrite   Advice = ib.AdvicePrefetchWrite   // make the pages present, for writing
	AdvicePrefetchNoFault Advice = ib.AdvicePrefetchNoFault // use the pages that are present, and add none
)

// AdviseMR gives an advice on the memory that the elements name, so that later requests do not
// wait for pages. It follows the advice before it returns. With wait, it returns EFAULT for
// memory that is not mapped; without, that is no error.
//
// ENOENT for an unknown LKey, EPERM for a region of another protection domain, and for
// AdvicePrefetchWrite of a region without LOCAL_WRITE, EFAULT for a range outside of its region,
// EINVAL for no elements, EOPNOTSUPP for an unknown advice.
func (p *PD) AdviseMR(advice Advice, wait bool, sges []SGE) error {
	return wrap("advise MR", p.object().Advise(advice, wait, sges))
}
