//go:build mutation

package mutation

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// Mutants are built all at once: each becomes a copy of its function, and the
// function calls the copy when the environment selects the mutant; a variable
// begins with the value that the environment selects. That makes a hundred
// builds one.

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

func ifMutant[T any](number int, is, not T) T {
	if selectedMutant == number {
		return is
	}
	return not
}
`

// lineOf is the name of the file to which the compiler assigns a graft.
const lineOf = "mutant%d.go"

// graft is what is added to a file for an edit.
type graft struct {
	source *source
	inside []insertion // the call of the copy, or the choice of a value
	copy   string      // of the function, appended to the file
}

// insertion is text that is added at an offset of a file.
type insertion struct {
	at   int
	text string
}

// graft makes the graft of an edit; nil if it needs a build of its own.
func (e *edit) graft(number int) (*graft, error) {
	switch n := e.changed.(type) {
	case *ast.FuncDecl:
		return e.graftFunction(n, number)
	case *ast.ValueSpec:
		return e.graftVariable(n, number)
	}
	return nil, nil
}

func (e *edit) graftFunction(n *ast.FuncDecl, number int) (*graft, error) {
	suffix := fmt.Sprint("Mutant", number)
	call, ok := callOf(n, suffix)
	if !ok {
		return nil, nil
	}
	n.Name.Name += suffix
	text, err := e.source.print(n)
	n.Name.Name = strings.TrimSuffix(n.Name.Name, suffix)
	return &graft{
		source: e.source,
		inside: []insertion{{
			e.source.offset(e.node.(*ast.FuncDecl).Body.Lbrace) + 1,
			fmt.Sprintf("\nif selectedMutant == %d {\n%s\n}\n", number, call),
		}},
		copy: fmt.Sprintf("\n//line %s:1\n%s\n", fmt.Sprintf(lineOf, number), text),
	}, err
}

// graftVariable lets the value be chosen where it is given, so that what is
// made of it follows.
func (e *edit) graftVariable(n *ast.ValueSpec, number int) (*graft, error) {
	if e.tok != token.VAR || len(n.Names) != 1 || len(n.Values) != 1 {
		return nil, nil
	}
	text, err := e.source.print(n.Values[0])
	typ := ""
	if n.Type != nil && err == nil {
		var t []byte
		t, err = e.source.print(n.Type)
		typ = fmt.Sprintf("[%s]", t)
	}
	value := e.node.(*ast.ValueSpec).Values[0]
	return &graft{source: e.source, inside: []insertion{
		{e.source.offset(value.Pos()), fmt.Sprintf("ifMutant%s(%d, /*line %s:1:1*/%s, ", typ, number, fmt.Sprintf(lineOf, number), text)},
		{e.source.offset(value.End()), ")"},
	}}, err
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
	sources := make(map[string]*source)
	inside := make(map[string][]insertion)
	copies := make(map[string]string)
	for _, g := range grafts {
		path := g.source.path
		sources[path] = g.source
		inside[path] = append(inside[path], g.inside...)
		copies[path] += g.copy
	}
	files := make(map[string][]byte)
	for name, s := range sources {
		slices.SortStableFunc(inside[name], func(a, b insertion) int { return a.at - b.at })
		var text []byte
		from := 0
		for _, i := range inside[name] {
			text = append(text, s.text[from:i.at]...)
			text = append(text, i.text...)
			from = i.at
		}
		text = append(text, s.text[from:]...)
		files[name] = append(text, copies[name]...)
		files[path.Join(path.Dir(name), "selectedmutant.go")] = fmt.Appendf(nil, selector, s.pkg, selectVar)
	}
	return files
}
