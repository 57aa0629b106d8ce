package rules

import (
	"go/ast"
	"slices"
)

// checkTestSleep rejects tests that sleep: tests wait for a condition, or run
// in virtual time.
func checkTestSleep(m *Module, report reporter) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if !f.Test {
				continue
			}
			f.eachUse(func(sel *ast.SelectorExpr, pkg string) {
				if pkg == "time" && sel.Sel.Name == "Sleep" {
					report(sel.Pos(), "time.Sleep in a test")
				}
			})
		}
	}
}

// checkTestSkip requires a comment with the reason on or right above every call
// that skips a test.
func checkTestSkip(m *Module, report reporter) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if !f.Test {
				continue
			}
			comments := m.commentLines(f)
			ast.Inspect(f.AST, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isSkip(call) {
					return true
				}
				if line := m.line(call.Pos()); !comments[line] && !comments[line-1] {
					report(call.Pos(), "a skipped test without a comment that says why")
				}
				return true
			})
		}
	}
}

func isSkip(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name)
}

// commentLines returns the lines of f on which a comment stands.
func (m *Module) commentLines(f *File) map[int]bool {
	lines := map[int]bool{}
	for _, g := range f.AST.Comments {
		for l := m.line(g.Pos()); l <= m.line(g.End()); l++ {
			lines[l] = true
		}
	}
	return lines
}
