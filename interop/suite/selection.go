//go:build linux

package suite

import (
	"regexp"

	"github.com/softhca/softhca/interop/matrix"
)

// Selection says which cases to run.
type Selection struct {
	Kernels []string
	All     bool           // the full product, not only all pairs
	Short   bool           // only the cases of a short run
	Match   *regexp.Regexp // matches the names of cases; nil: all
}

// Cases returns the cases of families that are selected. A pattern selects
// every cell that it matches, so that a failed case can be repeated.
func (s Selection) Cases(families []Family) []Case {
	var cases []Case
	for i := range families {
		f := &families[i]
		dims := append([]matrix.Dim{matrix.Kernel(s.Kernels...)}, f.Dims...)
		cells := matrix.All(dims, f.Skip)
		if !s.All && !s.Short && !f.Always && s.Match == nil {
			cells = matrix.Pairs(dims, f.Skip)
		}
		for _, c := range cells {
			cs := Case{f, c}
			if s.Short && (f.Short == nil || !f.Short(c)) || s.Match != nil && !s.Match.MatchString(cs.ID()) {
				continue
			}
			cases = append(cases, cs)
		}
	}
	return cases
}
