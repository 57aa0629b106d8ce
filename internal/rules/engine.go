package rules

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// bannedImports are the packages that pure code must not import, with those
// below them, and the reason.
var bannedImports = map[string]string{
	"os":                    "talks to the operating system",
	"net":                   "does I/O",
	"io/ioutil":             "does I/O",
	"syscall":               "talks to the operating system",
	"golang.org/x/sys/unix": "talks to the operating system",
	"log":                   "logs",
	"context":               "hides a clock",
	"crypto/rand":           "is randomness that no configuration gave",
	"plugin":                "loads code",
}

// importExceptions are imports that the ban would catch and that are pure.
var importExceptions = map[string][]string{
	"net/netip": nil,    // nil: allowed in every package
	"syscall":   {"ib"}, // error numbers only
}

// bannedCalls are the functions of permitted packages that pure code must not
// use. With nil, only those of seededCalls may be used.
var bannedCalls = map[string][]string{
	"time":         {"Now", "Since", "Until"},
	"fmt":          {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"math/rand":    nil,
	"math/rand/v2": nil,
}

// timerCalls block or start a timer, which a Waiter may do and an engine may
// not.
var timerCalls = []string{"Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// seededCalls names what may be used of a package of random numbers: sources
// that the caller seeds.
var seededCalls = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}

func checkEngineImports(m *Module, report reporter) {
	for _, p := range m.Packages {
		row, ok := Find(p.Path)
		for _, f := range p.Sources() {
			for _, spec := range f.AST.Imports {
				name := importPath(spec)
				if name == "C" && !inTree(p.Path, "capi") && row.Kind != Tool {
					report(spec.Pos(), "cgo outside capi and the tools")
				}
				if why := importBan(name, p.Path); why != "" && ok && row.Kind.pure() {
					report(spec.Pos(), "engine package %s imports %s, which %s", p.Path, name, why)
				}
			}
		}
	}
}

func importBan(name, pkg string) string {
	if pkgs, ok := importExceptions[name]; ok {
		if pkgs == nil || slices.Contains(pkgs, pkg) {
			return ""
		}
	}
	for ban, why := range bannedImports {
		if inTree(name, ban) {
			return why
		}
	}
	return ""
}

func checkEngineCalls(m *Module, report reporter) {
	for _, p := range m.Packages {
		row, ok := Find(p.Path)
		if !ok || !row.Kind.pure() {
			continue
		}
		for _, f := range p.Sources() {
			f.eachUse(func(sel *ast.SelectorExpr, pkg string) {
				if callBanned(pkg, sel.Sel.Name, row.Kind) {
					report(sel.Pos(), "engine package %s uses %s.%s", p.Path, pkg, sel.Sel.Name)
				}
			})
			ast.Inspect(f.AST, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					report(n.Pos(), "engine package %s starts a goroutine", p.Path)
				case *ast.CallExpr:
					if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
						report(n.Pos(), "engine package %s prints", p.Path)
					}
				}
				return true
			})
		}
	}
}

// importNames maps the names by which a file knows its imports to their
// paths.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		p := importPath(spec)
		name := path.Base(p)
		if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

// packageOf returns the package whose name stands before the selector.
func packageOf(sel *ast.SelectorExpr, names map[string]string) (string, bool) {
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	pkg, ok := names[id.Name]
	return pkg, ok
}

// eachUse calls do for every name of another package that the file uses.
func (f *File) eachUse(do func(sel *ast.SelectorExpr, pkg string)) {
	names := importNames(f.AST)
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := packageOf(sel, names); ok {
				do(sel, pkg)
			}
		}
		return true
	})
}

func callBanned(pkg, name string, kind Kind) bool {
	if pkg == "time" && kind != Waiter && slices.Contains(timerCalls, name) {
		return true
	}
	list, ok := bannedCalls[pkg]
	if !ok {
		return false
	}
	if list == nil {
		return !slices.Contains(seededCalls, name)
	}
	return slices.Contains(list, name)
}

// checkInit rejects init functions in every package: callers call what must
// run.
func checkInit(m *Module, report reporter) {
	m.EachFunc(func(f *File, fn *ast.FuncDecl) {
		if fn.Recv == nil && fn.Name.Name == "init" {
			report(fn.Pos(), "init function")
		}
	})
}

// EachFunc calls do for every function and method that is declared in
// hand-written code.
func (m *Module) EachFunc(do func(f *File, fn *ast.FuncDecl)) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					do(f, fn)
				}
			}
		}
	}
}

// lines returns how many lines a node takes.
func (m *Module) lines(n ast.Node) int { return m.line(n.End()) - m.line(n.Pos()) + 1 }

func (m *Module) line(p token.Pos) int { return m.Fset.Position(p).Line }
