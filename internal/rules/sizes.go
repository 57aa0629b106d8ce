package rules

import (
	"go/ast"
	"path"
)

// Limits of size, in lines and in parameters.
const (
	maxFileLines     = 800
	maxFunctionLines = 70
	maxParameters    = 5
	maxEngineMethods = 40 // of a type of the engine
	maxMethods       = 60 // of any other type
)

// sizeExempt names pure tables: a file by its path, a function as
// "package.name".
var sizeExempt = map[string]bool{}

func checkFileLines(m *Module, report reporter) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if !f.Generated && !sizeExempt[f.Name] && f.Lines > maxFileLines {
				report(f.AST.Package, "%s has %d lines; the limit is %d", f.Name, f.Lines, maxFileLines)
			}
		}
	}
	for _, f := range m.C {
		if len(f.Lines) > maxFileLines {
			report(f.pos(0), "%s has %d lines; the limit is %d", f.Name, len(f.Lines), maxFileLines)
		}
	}
}

func checkFunctionLines(m *Module, report reporter) {
	m.EachFunc(func(f *File, fn *ast.FuncDecl) {
		if n := m.lines(fn); n > maxFunctionLines && !sizeExempt[funcName(f, fn)] {
			report(fn.Pos(), "%s has %d lines; the limit is %d", fn.Name.Name, n, maxFunctionLines)
		}
	})
	for _, f := range m.C {
		f.eachFunc(func(from, to int) {
			if n := to - from + 1; n > maxFunctionLines {
				report(f.pos(from), "the function has %d lines; the limit is %d", n, maxFunctionLines)
			}
		})
	}
}

func funcName(f *File, fn *ast.FuncDecl) string { return path.Dir(f.Name) + "." + fn.Name.Name }

// checkMethods counts the methods of each type.
func checkMethods(m *Module, report reporter) {
	for _, p := range m.Packages {
		limit := maxMethods
		if row, ok := Find(p.Path); ok && row.Kind.pure() {
			limit = maxEngineMethods
		}
		count := map[string]int{}
		for _, f := range p.Sources() {
			for _, d := range f.AST.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv == nil {
					continue
				}
				name := p.Path + "." + receiver(fn)
				if count[name]++; count[name] == limit+1 {
					report(fn.Pos(), "%s has more than %d methods: it is several types", name, limit)
				}
			}
		}
	}
}

// checkParameters counts the parameters of functions, methods, function
// literals and interface methods; a receiver is not one.
func checkParameters(m *Module, report reporter) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if t, ok := n.(*ast.FuncType); ok && t.Params.NumFields() > maxParameters {
					report(t.Pos(), "%d parameters; the limit is %d", t.Params.NumFields(), maxParameters)
				}
				return true
			})
		}
	}
}
