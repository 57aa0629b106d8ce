package main

import (
	"slices"

	"github.com/softhca/softhca/interop/direct"
	"github.com/softhca/softhca/interop/programs"
	"github.com/softhca/softhca/interop/suite"
)

// families returns all kinds of cases, in the order of the report.
func families() []suite.Family {
	return slices.Concat(programs.Families(), direct.Families())
}
