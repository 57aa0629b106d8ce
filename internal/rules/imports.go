package rules

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// dependencies are the modules that the project may use, with the kinds of
// package whose sources may import them. Tests may import any of them.
var dependencies = []struct {
	path  string
	kinds []Kind
}{
	{"golang.org/x/sys", []Kind{Engine, Waiter, IO, Shell, Tool}},
	{"golang.org/x/sync", []Kind{Tool}},
	{"golang.org/x/tools", []Kind{Tool}},
	{"github.com/spf13/cobra", []Kind{Shell}},
	{"github.com/spf13/pflag", []Kind{Shell}},
	{"github.com/gdamore/tcell/v2", []Kind{Shell}},
	{"github.com/prometheus/client_golang", []Kind{Shell}},
	{"github.com/prometheus/common", []Kind{Shell}}, // the text format
	{"github.com/HdrHistogram/hdrhistogram-go", []Kind{Shell}},
	{"github.com/gopacket/gopacket", []Kind{IO, Shell}},
	{"github.com/cockroachdb/datadriven", []Kind{Shell}},
	{"github.com/ianlancetaylor/demangle", []Kind{Shell}},
	{"github.com/vishvananda/netlink", []Kind{Shell, Tool}},
	{"golang.org/x/net", nil}, // nettest: what a net.Conn must do
	{"github.com/google/go-cmp", nil},
	{"pgregory.net/rapid", nil},
	{"go.uber.org/goleak", nil},
}

// importPath returns the path of an import, which the parser has checked.
func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic("rules: parsed import path " + spec.Path.Value)
	}
	return p
}

// checkTable requires that every package is in the table, and that exactly the
// packages that the table does not call public are below internal/. No package
// can import a command.
func checkTable(m *Module, report reporter) {
	for _, p := range m.Packages {
		first := p.Files[0].AST
		row, ok := Find(p.Path)
		if !ok {
			report(first.Package, "package %q is not in the table of levels", p.Path)
			continue
		}
		hidden := inTree(p.Path, "internal") || row.Program()
		if row.Public == hidden {
			report(first.Package, "package %q: public is %v in the table", p.Path, row.Public)
		}
	}
}

// checkImports requires that imports inside the module point down the levels.
func checkImports(m *Module, report reporter) {
	for _, p := range m.Packages {
		from, ok := Find(p.Path)
		if !ok {
			continue
		}
		for _, f := range p.Sources() {
			for _, spec := range f.AST.Imports {
				rel, inside := strings.CutPrefix(importPath(spec), m.Path+"/")
				if !inside || inTree(rel, p.Path) {
					continue
				}
				to, ok := Find(rel)
				if ok && to.Level >= from.Level && !mutual(from, to) {
					report(spec.Pos(), "%s (level %d) imports %s (level %d)", p.Path, from.Level, rel, to.Level)
				}
			}
		}
	}
}

// mutual reports whether a package of one row may import one of the other whose
// level is not lower: tools may import tools, packages of one tree each other,
// and every package the footing of its level.
func mutual(from, to Row) bool {
	tree := from.Path == to.Path && strings.HasSuffix(from.Path, "/...")
	tools := from.Kind == Tool && to.Kind == Tool
	onFooting := from.Level == to.Level && slices.Contains(footing, to.Path)
	return tree || tools || onFooting
}

// checkDependencies requires that imports from outside the standard library and
// the module are on the list.
func checkDependencies(m *Module, report reporter) {
	for _, p := range m.Packages {
		row, _ := Find(p.Path)
		for _, f := range p.Files {
			for _, spec := range f.AST.Imports {
				path := importPath(spec)
				outside := strings.Contains(strings.Split(path, "/")[0], ".")
				if outside && !inTree(path, m.Path) && !allowed(path, row.Kind, f.Test) {
					report(spec.Pos(), "%s (%v) may not depend on %s", p.Path, row.Kind, path)
				}
			}
		}
	}
}

func allowed(path string, kind Kind, test bool) bool {
	for _, d := range dependencies {
		if inTree(path, d.path) && (test || slices.Contains(d.kinds, kind)) {
			return true
		}
	}
	return false
}
