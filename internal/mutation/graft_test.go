//go:build mutation

package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// Most mutants are in the body of one function. They are built all at once:
// each becomes a copy of its function, and the function calls the copy when
// the environment selects the mutant. That makes a hundred builds one.

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

// graft is a copy of a function with a bug, and the call of it.
type graft struct {
	at   int    // where in the file the call goes
	call string // inserted there
	copy string // appended to the file
}

// newGraft makes the graft of a mutant that begins at byte at of the file;
// nil if it is not in the body of one function that can be called again.
func newGraft(f *ast.File, fset *token.FileSet, s *source, m *numbered) *graft {
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || m.at < offset(fn.Pos()) || m.at+len(m.old) > offset(fn.End()) {
			continue
		}
		call, ok := callOf(fn, fmt.Sprint("Mutant", m.number))
		if !ok {
			return nil
		}
		if fn.Type.Results != nil {
			call = "return " + call
		} else {
			call += "\nreturn"
		}
		begin, end := offset(fn.Pos()), offset(fn.End())
		name := offset(fn.Name.End()) - begin // which a mutant does not change
		body := s.text[begin:m.at] + m.new + s.text[m.at+len(m.old):end]
		return &graft{
			at:   offset(fn.Body.Lbrace) + 1,
			call: fmt.Sprintf("\nif selectedMutant == %d {\n%s\n}\n", m.number, call),
			copy: fmt.Sprintf("\n//line %s:1\n%sMutant%d%s\n", m.name, body[:name], m.number, body[name:]),
		}
	}
	return nil
}

// callOf returns a call of the copy of a function that passes on what it got.
func callOf(fn *ast.FuncDecl, suffix string) (string, bool) {
	var args []string
	for _, p := range fn.Type.Params.List {
		if _, variadic := p.Type.(*ast.Ellipsis); variadic || len(p.Names) == 0 {
			return "", false
		}
		for _, n := range p.Names {
			if n.Name == "_" {
				return "", false
			}
			args = append(args, n.Name)
		}
	}
	call := fmt.Sprintf("%s%s(%s)", fn.Name.Name, suffix, strings.Join(args, ", "))
	if fn.Recv == nil {
		return call, fn.Type.TypeParams == nil
	}
	if len(fn.Recv.List[0].Names) == 0 {
		return "", false
	}
	return fn.Recv.List[0].Names[0].Name + "." + call, true
}

// numbered is a mutant, its number and its place in the file.
type numbered struct {
	*mutant
	number int
	at     int
}

// graftAll returns the file with every mutant of the list grafted onto it that
// can be, and the others.
func graftAll(s *source, list []*numbered) (text []byte, rest []*numbered, pkg string, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, s.path, s.text, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, "", err
	}
	calls := make(map[int]string)
	var copies bytes.Buffer
	for _, m := range list {
		g := newGraft(f, fset, s, m)
		if g == nil {
			rest = append(rest, m)
			continue
		}
		calls[g.at] += g.call
		copies.WriteString(g.copy)
	}
	for i := range len(s.text) {
		text = append(text, calls[i]...)
		text = append(text, s.text[i])
	}
	return append(text, copies.Bytes()...), rest, f.Name.Name, nil
}
