//go:build mutation

package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"

	"github.com/softhca/softhca/internal/mutation/pattern"
)

// site is a place in a declaration and one small edit that can be made there.
type site struct {
	*declaration
	old, with []ast.Node
}

// operators are the replacements of an operator, one at a time.
var operators = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.QUO},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND}, token.AND_NOT: {token.AND},
	token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN}, token.REM_ASSIGN: {token.QUO_ASSIGN},
	token.AND_ASSIGN: {token.OR_ASSIGN}, token.OR_ASSIGN: {token.AND_ASSIGN}, token.XOR_ASSIGN: {token.AND_ASSIGN},
	token.AND_NOT_ASSIGN: {token.AND_ASSIGN},
	token.SHL_ASSIGN:     {token.SHR_ASSIGN}, token.SHR_ASSIGN: {token.SHL_ASSIGN},
}

// sites returns all edits of a declaration: operators, constants, statements
// deleted, branches swapped.
func sites(d *declaration) (all []site) {
	root := d.node
	if fn, ok := root.(*ast.FuncDecl); ok {
		if fn.Body == nil {
			return nil
		}
		root = fn.Body
	}
	ast.Inspect(root, func(n ast.Node) bool {
		for _, with := range smallEdits(n) {
			all = append(all, site{d, []ast.Node{n}, []ast.Node{with}})
		}
		for _, run := range listEdits(n) {
			all = append(all, site{d, run[0], run[1]})
		}
		return true
	})
	return all
}

// smallEdits returns what may stand instead of a node.
func smallEdits(n ast.Node) (with []ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, op := range operators[n.Op] {
			c := *n
			c.Op = op
			with = append(with, &c)
		}
	case *ast.AssignStmt:
		for _, op := range operators[n.Tok] {
			c := *n
			c.Tok = op
			with = append(with, &c)
		}
	case *ast.IncDecStmt:
		c := *n
		c.Tok = operators[n.Tok][0]
		with = append(with, &c)
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			with = append(with, n.X)
		}
	case *ast.BasicLit:
		return otherNumbers(n)
	case *ast.Ident:
		if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
			with = append(with, &ast.Ident{NamePos: n.NamePos, Name: other})
		}
	case *ast.IfStmt:
		c := *n
		c.Cond = &ast.UnaryExpr{OpPos: n.Cond.Pos(), Op: token.NOT, X: &ast.ParenExpr{Lparen: n.Cond.Pos(), X: n.Cond, Rparen: n.Cond.End()}}
		if not, ok := n.Cond.(*ast.UnaryExpr); !ok || not.Op != token.NOT { // that has an edit of its own
			with = append(with, &c)
		}
	}
	return with
}

// otherNumbers returns the numbers next to an integer.
func otherNumbers(n *ast.BasicLit) (with []ast.Node) {
	v, err := strconv.ParseUint(n.Value, 0, 63)
	if n.Kind != token.INT || err != nil {
		return nil
	}
	number := func(v uint64) {
		with = append(with, &ast.BasicLit{ValuePos: n.ValuePos, Kind: token.INT, Value: strconv.FormatUint(v, 10)})
	}
	number(v + 1)
	if v > 0 {
		number(v - 1)
	}
	return with
}

// listEdits returns runs of a node's statements and what may stand instead:
// nothing, or, of two clauses of a switch, each with the other's body.
func listEdits(n ast.Node) (edits [][2][]ast.Node) {
	var list []ast.Stmt
	switch n := n.(type) {
	case *ast.BlockStmt:
		list = n.List
	case *ast.CaseClause:
		list = n.Body
	case *ast.CommClause:
		list = n.Body
	}
	for i, s := range list {
		switch s := s.(type) {
		case *ast.CaseClause:
			if i == 0 {
				continue
			}
			before, ok := list[i-1].(*ast.CaseClause)
			if ok && len(before.Body)+len(s.Body) > 0 {
				a, b := *before, *s
				a.Body, b.Body = b.Body, a.Body
				edits = append(edits, [2][]ast.Node{{before, s}, {&a, &b}})
			}
			continue
		case *ast.DeclStmt, *ast.LabeledStmt, *ast.CommClause, *ast.EmptyStmt:
			continue
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		}
		edits = append(edits, [2][]ast.Node{{s}, nil})
	}
	return edits
}

// edit makes the edit; nil if nothing changes.
func (s *site) edit() (*edit, error) {
	changed, err := pattern.Replace(s.node, s.old, s.with)
	if err != nil || pattern.Equal(s.node, changed) {
		return nil, err
	}
	return &edit{s.declaration, changed}, nil
}

// String returns the place and the change of the edit, in a line.
func (s *site) String() string {
	return fmt.Sprintf("%s: %s → %s", s.name(), s.line(s.old), s.line(s.with))
}

// line returns nodes as text in a line.
func (s *site) line(nodes []ast.Node) string {
	if len(nodes) == 0 {
		return "nothing"
	}
	var parts []string
	for _, n := range nodes {
		text, err := s.source.print(pattern.Copy(n))
		if err != nil {
			return err.Error()
		}
		parts = append(parts, strings.Join(strings.Fields(string(text)), " "))
	}
	return strings.Join(parts, "; ")
}

// diff returns the lines of a declaration that an edit changes, with two
// around them.
func (e *edit) diff() (string, error) {
	before, err := e.source.print(pattern.Copy(e.node))
	if err != nil {
		return "", err
	}
	after, err := e.source.print(e.changed)
	if err != nil {
		return "", err
	}
	a, b := bytes.Split(before, []byte("\n")), bytes.Split(after, []byte("\n"))
	same := 0
	for same < min(len(a), len(b)) && bytes.Equal(a[same], b[same]) {
		same++
	}
	tail := 0
	for tail < min(len(a), len(b))-same && bytes.Equal(a[len(a)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	var out strings.Builder
	show := func(mark string, lines [][]byte) {
		for _, l := range lines {
			fmt.Fprintf(&out, "%s%s\n", mark, l)
		}
	}
	const around = 2
	fmt.Fprintf(&out, "@@ %s @@\n", e.source.fset.Position(e.node.Pos()))
	show(" ", a[max(0, same-around):same])
	show("-", a[same:len(a)-tail])
	show("+", b[same:len(b)-tail])
	show(" ", a[len(a)-tail:min(len(a), len(a)-tail+around)])
	return out.String(), nil
}
