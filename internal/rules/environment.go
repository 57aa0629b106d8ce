package rules

import (
	"go/ast"
	"slices"
)

// environmentCalls read the environment, also in a set-user-ID program.
var environmentCalls = map[string][]string{
	"os":                    {"Getenv", "LookupEnv", "Environ", "Expand", "ExpandEnv", "TempDir", "UserConfigDir", "UserCacheDir", "UserHomeDir"},
	"syscall":               {"Getenv", "Environ"},
	"golang.org/x/sys/unix": {"Getenv", "Environ"},
}

// environmentTrees are trees at the program level whose code becomes part of a
// library.
var environmentTrees = []string{"capi/engine", "capi/ucm"}

// environmentExempt are packages of levels below that only commands and tools use, to run
// compilers and package managers, and the one package that may read the environment.
var environmentExempt = []string{"internal/environ", "internal/libraries", "internal/debian"}

// checkEnvironment requires that libraries read the environment through internal/environ,
// which ignores it in set-user-ID programs.
func checkEnvironment(m *Module, report reporter) {
	for _, p := range m.Packages {
		row, ok := Find(p.Path)
		library := ok && !row.Program() || slices.Contains(environmentTrees, p.Path)
		if !library || slices.Contains(environmentExempt, p.Path) {
			continue
		}
		for _, f := range p.Sources() {
			f.eachUse(func(sel *ast.SelectorExpr, pkg string) {
				if slices.Contains(environmentCalls[pkg], sel.Sel.Name) {
					report(sel.Pos(), "library package %s uses %s.%s instead of internal/environ, which ignores the environment of set-user-ID programs", p.Path, pkg, sel.Sel.Name)
				}
			})
		}
	}
}
