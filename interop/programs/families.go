//go:build linux

package programs

import (
	"slices"

	"github.com/softhca/softhca/interop/suite"
)

// Families returns the cases.
func Families() []suite.Family {
	return slices.Concat(library(), libraryCM(), connections(), connect(), mckey(), crowd(), refused(), parting(), lost(), faults(), volume())
}
