//go:build mutation

package mutation

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// Mutants are built all at once: each becomes a copy of its function, and the
// function calls the copy when the environment selects the mutant; a variable
// gets its other value when the program begins. That makes a hundred builds
// one.

// selectVar is the variable of the environment that selects a mutant by its
// number, from 1.
const selectVar = "MUTANT"

// selector is what a package with mutants has in addition.
const selector = `package %s

import (
	"os"
	"strconv"
)

var selectedMutant, _ = strconv.Atoi(os.Getenv(%q))
`

// lineOf is the name of the file to which the compiler assigns a graft.
const lineOf = "mutant%d.go"

// graft is a copy of a function with a bug, and the call of it.
type graft struct {
	source *source
	at     int    // where in the file the call goes
	call   string // inserted there
	copy   string // appended to the file
}

// graft makes the graft of an edit; nil if it needs a build of its own.
func (e *edit) graft(number int) (*graft, error) {
	g := &graft{source: e.source}
	head := fmt.Sprintf("\n//line %s:1\n", fmt.Sprintf(lineOf, number))
	switch n := e.changed.(type) {
	case *ast.FuncDecl:
		suffix := fmt.Sprint("Mutant", number)
		call, ok := callOf(n, suffix)
		if !ok {
			return nil, nil
		}
		n.Name.Name += suffix
		text, err := e.source.print(n)
		n.Name.Name = strings.TrimSuffix(n.Name.Name, suffix)
		g.at = e.source.offset(e.node.(*ast.FuncDecl).Body.Lbrace) + 1
		g.call = fmt.Sprintf("\nif selectedMutant == %d {\n%s\n}\n", number, call)
		g.copy = head + string(text) + "\n"
		return g, err
	case *ast.ValueSpec:
		if e.tok != token.VAR || len(n.Names) != 1 || len(n.Values) != 1 || n.Names[0].Name == "_" {
			return nil, nil
		}
		text, err := e.source.print(n.Values[0])
		g.copy = fmt.Sprintf("%sfunc init() {\nif selectedMutant == %d {\n%s = %s\n}\n}\n", head, number, n.Names[0].Name, text)
		return g, err
	}
	return nil, nil
}

// callOf returns a call of the copy of a function that passes on what it got.
func callOf(fn *ast.FuncDecl, suffix string) (string, bool) {
	var args []string
	for _, p := range fn.Type.Params.List {
		dots := ""
		if _, variadic := p.Type.(*ast.Ellipsis); variadic {
			dots = "..."
		}
		if len(p.Names) == 0 {
			return "", false
		}
		for _, n := range p.Names {
			if n.Name == "_" {
				return "", false
			}
			args = append(args, n.Name+dots)
		}
	}
	if fn.Body == nil || fn.Type.TypeParams != nil || fn.Name.Name == "init" || fn.Name.Name == "main" {
		return "", false
	}
	call := fmt.Sprintf("%s%s(%s)", fn.Name.Name, suffix, strings.Join(args, ", "))
	if fn.Recv != nil {
		names := fn.Recv.List[0].Names
		if len(names) == 0 || names[0].Name == "_" {
			return "", false
		}
		call = names[0].Name + "." + call
	}
	if fn.Type.Results != nil {
		return "return " + call, true
	}
	return call + "\nreturn", true
}

// graftAll returns the files with the grafts in them, by path.
func graftAll(grafts []*graft) map[string][]byte {
	files := make(map[string][]byte)
	grafts = slices.Clone(grafts)
	slices.SortStableFunc(grafts, func(a, b *graft) int {
		return cmp.Or(strings.Compare(a.source.path, b.source.path), a.at-b.at)
	})
	for len(grafts) > 0 {
		s := grafts[0].source
		var text, copies bytes.Buffer
		from := 0
		for len(grafts) > 0 && grafts[0].source.path == s.path {
			g := grafts[0]
			if g.call != "" {
				text.Write(s.text[from:g.at])
				text.WriteString(g.call)
				from = g.at
			}
			copies.WriteString(g.copy)
			grafts = grafts[1:]
		}
		text.Write(s.text[from:])
		files[s.path] = append(text.Bytes(), copies.Bytes()...)
		files[path.Join(path.Dir(s.path), "selectedmutant.go")] = fmt.Appendf(nil, selector, s.pkg, selectVar)
	}
	return files
}
