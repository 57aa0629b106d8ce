package pattern

import (
	"go/ast"
	"go/token"
	"reflect"
)

// Match is a place where a pattern was found.
type Match struct {
	pattern *Pattern
	root    ast.Node
	nodes   []ast.Node         // to be replaced
	bound   map[string]binding // what the variables stand for
}

// binding is the nodes that a variable stands for; one, if it is not a list.
type binding []ast.Node

// Pos returns where the place begins.
func (m *Match) Pos() token.Pos { return m.nodes[0].Pos() }

// End returns where it ends.
func (m *Match) End() token.Pos { return m.nodes[len(m.nodes)-1].End() }

// Find returns the matches of the pattern below root, in source order. Of
// matches that begin with the same node it returns the shortest.
func (p *Pattern) Find(root ast.Node) []*Match {
	var found []*Match
	try := func(list []ast.Node) {
		m := &matcher{bound: make(map[string]binding)}
		if n, ok := m.prefix(p.nodes, list); ok {
			found = append(found, &Match{p, root, list[:n], m.bound})
		}
	}
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		if _, paren := n.(*ast.ParenExpr); !paren && p.in == anywhere {
			if e, ok := n.(ast.Expr); ok {
				try([]ast.Node{e})
			}
			return true
		}
		for _, list := range p.lists(n) {
			for i := range list {
				try(list[i:])
			}
		}
		return true
	})
	return found
}

// lists returns the lists of a node in which a run may match: its lists of
// statements or elements, and each single statement, such as the else of an if.
func (p *Pattern) lists(n ast.Node) (lists [][]ast.Node) {
	v := reflect.ValueOf(n).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		_, literal := n.(*ast.CompositeLit)
		switch {
		case f.Type() == p.in && (p.in == statements || literal):
			lists = append(lists, nodesOf(f))
		case p.in == statements && f.Type() == statements.Elem() && !f.IsNil() && len(p.nodes) == 1 && len(p.with) == 1:
			lists = append(lists, []ast.Node{f.Interface().(ast.Node)})
		}
	}
	return lists
}

// nodesOf returns a list of nodes of any type.
func nodesOf(v reflect.Value) []ast.Node {
	list := make([]ast.Node, v.Len())
	for i := range list {
		list[i] = v.Index(i).Interface().(ast.Node)
	}
	return list
}

// Equal reports whether two trees are the same code.
func Equal(a, b ast.Node) bool { return (&matcher{bound: make(map[string]binding)}).node(a, b) }

// matcher compares a pattern with a tree.
type matcher struct {
	bound map[string]binding
}

// prefix reports whether a list begins with a match of the patterns, and the
// length of the match.
func (m *matcher) prefix(patterns, list []ast.Node) (length int, ok bool) {
	if len(patterns) == 0 {
		return 0, true
	}
	if name, isList, ok := variable(patterns[0]); ok && isList {
		for n := range len(list) + 1 {
			if rest, ok := m.after(name, list[:n], patterns[1:], list[n:]); ok {
				return n + rest, true
			}
		}
		return 0, false
	}
	if len(list) == 0 || !m.node(patterns[0], list[0]) {
		return 0, false
	}
	n, ok := m.prefix(patterns[1:], list[1:])
	return n + 1, ok
}

// after tries a length of a variable that stands for a list: the nodes after it
// must match the remaining patterns.
func (m *matcher) after(name string, list, patterns, rest []ast.Node) (int, bool) {
	if len(patterns) == 0 && len(rest) > 0 {
		return 0, false
	}
	try := &matcher{bound: make(map[string]binding)}
	for k, b := range m.bound {
		try.bound[k] = b
	}
	if !try.bind(name, list) {
		return 0, false
	}
	n, ok := try.prefix(patterns, rest)
	if ok {
		m.bound = try.bound
	}
	return n, ok
}

// bind binds a variable to nodes, or compares them with those that it is bound
// to.
func (m *matcher) bind(name string, list []ast.Node) bool {
	old, ok := m.bound[name]
	if !ok && name != "_" {
		m.bound[name] = list
	}
	if !ok {
		return true
	}
	n, same := m.prefix(old, list)
	return same && n == len(list)
}

// node reports whether a node matches a node of the pattern.
func (m *matcher) node(p, n ast.Node) bool {
	p, n = unparen(p), unparen(n)
	if name, list, ok := variable(p); ok && !list && fits(p, n) {
		return m.bind(name, []ast.Node{n})
	}
	pv, nv := reflect.ValueOf(p), reflect.ValueOf(n)
	return pv.Type() == nv.Type() && m.value(pv.Elem(), nv.Elem())
}

func unparen(n ast.Node) ast.Node {
	if e, ok := n.(ast.Expr); ok {
		return ast.Unparen(e)
	}
	return n
}

// value compares pointers, interfaces, lists and structures by their content.
func (m *matcher) value(p, n reflect.Value) bool {
	switch p.Kind() {
	case reflect.Interface, reflect.Pointer:
		if p.IsNil() || n.IsNil() {
			return p.IsNil() == n.IsNil()
		}
		return m.node(p.Interface().(ast.Node), n.Interface().(ast.Node))
	case reflect.Slice:
		patterns, list := nodesOf(p), nodesOf(n)
		length, ok := m.prefix(patterns, list)
		return ok && length == len(list)
	case reflect.Struct:
		return m.fields(p, n)
	default:
		return p.Interface() == n.Interface()
	}
}

// fits reports whether a variable in the place of p may be n: an expression
// for an expression, any statement for a statement.
func fits(p, n ast.Node) bool {
	switch p.(type) {
	case ast.Stmt:
		_, ok := n.(ast.Stmt)
		return ok
	case *ast.Field:
		_, ok := n.(*ast.Field)
		return ok
	default:
		_, ok := n.(ast.Expr)
		return ok
	}
}

var (
	position = reflect.TypeFor[token.Pos]()
	comments = reflect.TypeFor[*ast.CommentGroup]()
	aNode    = reflect.TypeFor[ast.Node]()
)

// isIgnored reports whether fields of a type have no effect on the program:
// positions, comments, and resolved identifiers.
func isIgnored(t reflect.Type) bool {
	return t == position || t == comments || t.Kind() == reflect.Pointer && !t.Implements(aNode)
}

// fields compares two structures of a type. Of the source positions two matter:
// that of the dots after an argument, and of the = of an alias.
func (m *matcher) fields(p, n reflect.Value) bool {
	for i := range p.NumField() {
		switch f := p.Type().Field(i); {
		case f.Type == position && (f.Name == "Ellipsis" || f.Name == "Assign"):
			if p.Field(i).IsZero() != n.Field(i).IsZero() {
				return false
			}
		case isIgnored(f.Type):
		case !m.value(p.Field(i), n.Field(i)):
			return false
		}
	}
	return true
}
