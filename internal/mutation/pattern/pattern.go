package pattern

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
)

// Pattern is what to look for and what to put in its place.
type Pattern struct {
	nodes []ast.Node // the pattern; one, if it is not in a list
	with  []ast.Node // the replacement
	in    reflect.Type
}

// The lists in which a run of nodes may be found; a single expression is
// found anywhere.
var (
	statements = reflect.TypeFor[[]ast.Stmt]()
	elements   = reflect.TypeFor[[]ast.Expr]()
	anywhere   = reflect.TypeFor[ast.Expr]()
)

// Variables are identifiers with these prefixes once a pattern is Go.
const (
	oneOf  = "\u01c0"
	listOf = "\u01c1"
)

var (
	listVariable = regexp.MustCompile(`\$\*(\w+)`)
	oneVariable  = regexp.MustCompile(`\$(\w+)`)
)

// Parse makes a pattern of what to find and what to replace it by. They are
// expressions if both can be, else elements of a composite literal, which have
// keys or are in braces, else statements, else clauses of a switch.
func Parse(find, replace string) (*Pattern, error) {
	find, replace = golang(find), golang(replace)
	for _, form := range []struct {
		in    reflect.Type
		parse func(string) ([]ast.Node, error)
	}{
		{anywhere, parseExpr},
		{elements, parseElements},
		{statements, parseStmts("{\n", "\n}")},
		{statements, parseStmts("{switch {\n", "\n}}")},
	} {
		nodes, err := form.parse(find)
		with, errWith := form.parse(replace)
		if err != nil || errWith != nil {
			continue
		}
		p := &Pattern{nodes, with, form.in}
		return p, p.check()
	}
	return nil, fmt.Errorf("pattern: %q and %q are not expressions, statements, clauses or elements alike", find, replace)
}

// golang turns variables into identifiers.
func golang(s string) string {
	s = listVariable.ReplaceAllString(s, listOf+"$1")
	return oneVariable.ReplaceAllString(s, oneOf+"$1")
}

func parseExpr(s string) ([]ast.Node, error) {
	e, err := parser.ParseExpr(s)
	return []ast.Node{e}, err
}

// parseStmts returns a parser of the text between begin and end, which make it
// a block.
func parseStmts(begin, end string) func(string) ([]ast.Node, error) {
	return func(s string) ([]ast.Node, error) {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() "+begin+s+end, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		list := f.Decls[0].(*ast.FuncDecl).Body.List
		if strings.Contains(begin, "switch") {
			if len(f.Decls) != 1 || len(list) != 1 {
				return nil, errors.New("no clauses")
			}
			list = list[0].(*ast.SwitchStmt).Body.List
		}
		nodes := make([]ast.Node, len(list))
		for i, n := range list {
			nodes[i] = n
		}
		return nodes, nil
	}
}

// parseElements takes elements with a key or in braces only: others look like
// statements.
func parseElements(s string) (nodes []ast.Node, err error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	e, err := parser.ParseExpr("T{\n" + s + ",\n}")
	if err != nil {
		return nil, err
	}
	for _, n := range e.(*ast.CompositeLit).Elts {
		_, pair := n.(*ast.KeyValueExpr)
		if lit, ok := n.(*ast.CompositeLit); !pair && (!ok || lit.Type != nil) {
			return nil, errors.New("no elements")
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// check requires that a pattern is neither empty nor open at its ends, and that
// its replacement uses only variables of the pattern.
func (p *Pattern) check() error {
	if len(p.nodes) == 0 {
		return errors.New("pattern: empty")
	}
	if _, list, ok := variable(p.nodes[0]); ok && (list || len(p.nodes) == 1) {
		return errors.New("pattern: begins with a variable that may be anything")
	}
	if _, list, ok := variable(p.nodes[len(p.nodes)-1]); ok && list {
		return errors.New("pattern: ends with a variable that may be anything")
	}
	known := make(map[string]bool)
	for _, n := range p.nodes {
		walk(n, func(name string) { known[name] = true })
	}
	var err error
	for _, n := range p.with {
		walk(n, func(name string) {
			if !known[name] || name == "_" {
				err = fmt.Errorf("pattern: the replacement has the variable %s, which the pattern does not", name)
			}
		})
	}
	return err
}

// walk calls f with the name of each variable below n.
func walk(n ast.Node, f func(name string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if name, _, ok := variable(id); ok {
				f(name)
			}
		}
		return true
	})
}

// variable returns the name of the variable that a node is, and whether it
// stands for a list.
func variable(n ast.Node) (name string, list, ok bool) {
	switch n := n.(type) {
	case *ast.ExprStmt:
		return variable(n.X)
	case *ast.Field:
		if len(n.Names) == 0 {
			return variable(n.Type)
		}
	case *ast.Ident:
		if name, ok = strings.CutPrefix(n.Name, listOf); ok {
			return name, true, true
		}
		name, ok = strings.CutPrefix(n.Name, oneOf)
	}
	return name, false, ok
}
