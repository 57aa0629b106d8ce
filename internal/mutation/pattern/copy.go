package pattern

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
)

// Replaced returns a copy of the searched tree with the replacement in the
// place of the match. The copy has no comments.
func (m *Match) Replaced() (ast.Node, error) {
	c := copier{at: m.Pos(), instead: func(n ast.Node) ([]ast.Node, bool) {
		name, _, ok := variable(n)
		if !ok {
			return nil, false
		}
		return asStatement(n, m.bound[name]), true
	}}
	var with []ast.Node
	err := c.try(func() { with = c.list(m.pattern.with) })
	if err != nil {
		return nil, err
	}
	return Replace(m.root, m.nodes, with)
}

// asStatement makes a statement of an expression that replaces a statement.
func asStatement(place ast.Node, bound []ast.Node) []ast.Node {
	if _, ok := place.(*ast.ExprStmt); ok && len(bound) == 1 {
		if e, ok := bound[0].(ast.Expr); ok {
			return []ast.Node{&ast.ExprStmt{X: e}}
		}
	}
	return bound
}

// Copy returns a copy of a tree without comments.
func Copy(root ast.Node) ast.Node {
	n, err := Replace(root, nil, nil)
	if err != nil {
		panic(err) // cannot fail: nothing is replaced
	}
	return n
}

// Replace returns a copy of a tree with nodes that follow each other in a list,
// or one node, replaced by others. It has no comments.
func Replace(root ast.Node, old, with []ast.Node) (ast.Node, error) {
	c := copier{instead: func(n ast.Node) ([]ast.Node, bool) {
		for i := range old {
			if n == old[i] && i == 0 {
				return with, true
			} else if n == old[i] {
				return nil, true
			}
		}
		return nil, false
	}}
	var list []ast.Node
	err := c.try(func() { list = c.list([]ast.Node{root}) })
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// copier copies trees.
type copier struct {
	instead func(n ast.Node) (with []ast.Node, ok bool) // of a node
	at      token.Pos                                   // position given to every node; NoPos keeps the positions
}

// try calls f, which copies something. It fails if a node would come where its
// type does not fit.
func (c *copier) try(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("pattern: the replacement does not fit: %v", r)
		}
	}()
	f()
	return nil
}

// list copies nodes.
func (c *copier) list(nodes []ast.Node) (list []ast.Node) {
	for _, n := range nodes {
		if with, ok := c.instead(n); ok {
			list = append(list, with...)
			continue
		}
		v := reflect.ValueOf(n)
		w := reflect.New(v.Type().Elem())
		w.Elem().Set(c.value(v.Elem()))
		list = append(list, w.Interface().(ast.Node))
	}
	return list
}

// value copies the value of a node's field, or a node itself.
func (c *copier) value(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return c.pointer(v)
	case reflect.Slice:
		list := reflect.New(v.Type()).Elem()
		for _, n := range c.list(nodesOf(v)) {
			list = reflect.Append(list, reflect.ValueOf(n))
		}
		return list
	case reflect.Struct:
		s := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Type() == position {
				s.Field(i).Set(reflect.ValueOf(c.pos(f.Interface().(token.Pos))))
			} else if !isIgnored(f.Type()) {
				s.Field(i).Set(c.value(f))
			}
		}
		return s
	default:
		return v
	}
}

func (c *copier) pos(p token.Pos) token.Pos {
	if c.at.IsValid() && p.IsValid() {
		return c.at
	}
	return p
}

// pointer copies a node that is not in a list.
func (c *copier) pointer(v reflect.Value) reflect.Value {
	n, ok := v.Interface().(ast.Node)
	if !ok || v.IsNil() {
		return reflect.Zero(v.Type())
	}
	w := reflect.New(v.Type()).Elem()
	switch list := c.list([]ast.Node{n}); len(list) {
	case 0: // such as the else of an if that goes
	case 1:
		w.Set(reflect.ValueOf(list[0]))
	default:
		panic(fmt.Sprintf("%d nodes instead of one", len(list)))
	}
	return w
}
