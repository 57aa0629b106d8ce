package main

import (
	"go/ast"
	"io/fs"
	"strconv"
	"strings"

	"github.com/softhca/softhca/internal/rules"
)

// byThreads parts the packages of the module that have tests: those in whose
// tests several threads run, which the race detector is to look at, and those
// in whose tests there is but one. It would find nothing in the latter, and
// makes them several times slower: they simulate for long.
func byThreads(root fs.FS) (several, one []string, err error) {
	m, err := rules.Load(root)
	if err != nil {
		return nil, nil, err
	}
	pkgs := map[string]*rules.Package{}
	for _, p := range m.Packages {
		pkgs[m.Path+"/"+p.Path] = p
	}
	known := map[string]bool{}
	for _, p := range m.Packages {
		switch {
		case len(p.Files) == len(p.Sources()):
		case anyOf(p.Files, func(f *rules.File) bool { return threaded(f, pkgs, known) }):
			several = append(several, "./"+p.Path)
		default:
			one = append(one, "./"+p.Path)
		}
	}
	return several, one, nil
}

// threaded reports whether f, or a package that it imports, may start a thread of
// Go, which are those that the race detector sees. What is found of packages is
// known from then on.
func threaded(f *rules.File, pkgs map[string]*rules.Package, known map[string]bool) bool {
	if startsThread(f.AST) {
		return true
	}
	for _, spec := range f.AST.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		p := pkgs[path]
		if err != nil || p == nil {
			continue // of others, which work on what they are called with
		}
		if _, ok := known[path]; !ok {
			known[path] = anyOf(p.Sources(), func(f *rules.File) bool { return threaded(f, pkgs, known) })
		}
		if known[path] {
			return true
		}
	}
	return false
}

func anyOf(files []*rules.File, is func(*rules.File) bool) bool {
	for _, f := range files {
		if is(f) {
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
