package rules

import (
	"go/ast"
	"slices"
)

// unranked are the packages below the programs that may use mutexes of package sync: they
// run adapters for tests, or have no adapter, and never take a lock while they hold theirs.
var unranked = []string{"internal/explore", "internal/lock", "internal/sim", "internal/testagent"}

// ranked are the programs' packages that are part of an adapter.
var ranked = []string{"capi/engine", "capi/ucm"}

// checkLocks requires that every mutex of an adapter has a rank in the order of internal/lock.
func checkLocks(m *Module, report reporter) {
	for _, p := range m.Packages {
		row, ok := Find(p.Path)
		if slices.Contains(unranked, p.Path) || ok && row.Program() && !slices.Contains(ranked, p.Path) {
			continue
		}
		for _, f := range p.Sources() {
			f.eachUse(func(sel *ast.SelectorExpr, pkg string) {
				if pkg == "sync" && (sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex") {
					report(sel.Pos(), "sync.%s has no rank in the order of locks; use that of internal/lock", sel.Sel.Name)
				}
			})
		}
	}
}
