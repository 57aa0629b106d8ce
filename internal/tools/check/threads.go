package main

import (
	"go/ast"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/softhca/softhca/internal/rules"
)

// threads are the packages that have tests, by the threads of their tests.
type threads struct {
	several  []string // several threads
	pointers []string // one thread, and package unsafe
	one      []string // one thread
}

// byThreads sorts the packages by the checks that their tests need. In tests with one
// thread the race detector finds nothing, and makes long simulations several times
// slower.
func byThreads(root fs.FS) (parts threads, err error) {
	m, err := rules.Load(root)
	if err != nil {
		return parts, err
	}
	pkgs := map[string]*rules.Package{}
	for _, p := range m.Packages {
		pkgs[m.Path+"/"+p.Path] = p
	}
	known := map[string]bool{}
	for _, p := range m.Packages {
		switch {
		case len(p.Files) == len(p.Sources()):
		case slices.ContainsFunc(p.Files, func(f *rules.File) bool { return threaded(f, pkgs, known) }):
			parts.several = append(parts.several, "./"+p.Path)
		case slices.ContainsFunc(p.Files, usesUnsafe):
			parts.pointers = append(parts.pointers, "./"+p.Path)
		default:
			parts.one = append(parts.one, "./"+p.Path)
		}
	}
	return parts, nil
}

// usesUnsafe reports whether the file may make pointers that Go does not check.
func usesUnsafe(f *rules.File) bool {
	return slices.ContainsFunc(f.AST.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"unsafe"` })
}

// threaded reports whether f, or a package that it imports, may start a
// goroutine, whose races the race detector sees. Results for packages are kept in
// known.
func threaded(f *rules.File, pkgs map[string]*rules.Package, known map[string]bool) bool {
	if startsThread(f.AST) {
		return true
	}
	for _, spec := range f.AST.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		p := pkgs[path]
		if err != nil || p == nil {
			continue // of other modules and of the standard library: startsThread knows its methods that start one
		}
		if _, ok := known[path]; !ok {
			known[path] = slices.ContainsFunc(p.Sources(), func(f *rules.File) bool { return threaded(f, pkgs, known) })
		}
		if known[path] {
			return true
		}
	}
	return false
}

// startsThread reports whether the file has a go statement, or calls a method
// of the standard library that has one: WaitGroup.Go, Parallel, RunParallel,
// AfterFunc.
func startsThread(f *ast.File) (starts bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.SelectorExpr:
			name := n.Sel.Name
			starts = starts || name == "Go" || name == "AfterFunc" || strings.HasSuffix(name, "Parallel")
		}
		return !starts
	})
	return starts
}
