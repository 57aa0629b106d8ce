package rules

import (
	"go/ast"
	"go/token"
	"go/types"
)

// reachOf names the packages whose structures are made of parts that know each other, with the
// structures that are no parts: what all share, and plain values.
var reachOf = map[string][]string{"internal/qp": {"Env", "Path", "destination", "links"}}

// checkReach requires that a part asks its neighbour, not its neighbour's parts: a chain of selectors
// goes through at most one unexported field that is a structure of the package.
func checkReach(m *Module, report reporter) {
	for _, p := range m.Packages {
		shared, ok := reachOf[p.Path]
		if !ok {
			continue
		}
		info, files := m.resolve(p)
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				second, ok := ast.Unparen(sel.X).(*ast.SelectorExpr)
				if !ok || !isPart(info, second, shared) {
					return true
				}
				if first, ok := ast.Unparen(second.X).(*ast.SelectorExpr); ok && isPart(info, first, shared) {
					report(sel.Pos(), "%s reaches through %s and %s: ask %[2]s", types.ExprString(sel), first.Sel.Name, second.Sel.Name)
				}
				return true
			})
		}
	}
}

// isPart reports whether a selector chooses an unexported field that is, or points to, a structure
// of its own package which is not shared.
func isPart(info *types.Info, sel *ast.SelectorExpr, shared []string) bool {
	s := info.Selections[sel]
	if s == nil || s.Kind() != types.FieldVal || token.IsExported(sel.Sel.Name) {
		return false
	}
	t := s.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() != s.Obj().Pkg() {
		return false
	}
	for _, name := range shared {
		if named.Obj().Name() == name {
			return false
		}
	}
	_, ok = named.Underlying().(*types.Struct)
	return ok
}
