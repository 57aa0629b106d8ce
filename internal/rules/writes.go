package rules

import (
	"go/ast"
	"go/token"
	"go/types"
)

// writes finds the places that write to package variables.
type writes struct {
	info    *types.Info
	report  reporter
	aliases map[types.Object]bool // local pointers to package variables
	methods map[types.Object]bool // methods that write to their receiver
	local   map[ast.Expr]bool     // address expressions that such pointers come from
	target  types.Object          // look for writes to this; nil: to every package variable
}

// writingMethods returns the methods with a pointer receiver that write to the
// receiver's value, or pass the pointer on.
func writingMethods(info *types.Info, files []*ast.File) map[types.Object]bool {
	methods := map[types.Object]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Body == nil || len(fn.Recv.List[0].Names) == 0 {
				continue
			}
			recv := info.Defs[fn.Recv.List[0].Names[0]]
			w := writes{info: info, aliases: map[types.Object]bool{recv: true}, local: map[ast.Expr]bool{}, target: recv}
			w.report = func(token.Pos, string, ...any) { methods[info.Defs[fn.Name]] = true }
			ast.Inspect(fn.Body, w.visit)
		}
	}
	return methods
}

func (w *writes) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		w.assign(n)
	case *ast.IncDecStmt:
		w.written(n.X, "assigned to")
	case *ast.RangeStmt:
		w.written(n.Key, "assigned to")
		w.written(n.Value, "assigned to")
	case *ast.UnaryExpr:
		if n.Op == token.AND && !isElement(n.X) && !w.local[n] {
			w.written(n.X, "pointed at")
		}
	case *ast.CallExpr:
		w.call(n)
	}
	return true
}

func isElement(e ast.Expr) bool {
	_, ok := e.(*ast.IndexExpr)
	return ok
}

// assign examines the targets of an assignment, and remembers local pointers
// that it defines.
func (w *writes) assign(n *ast.AssignStmt) {
	for i, lhs := range n.Lhs {
		w.written(lhs, "assigned to")
		id, ok := lhs.(*ast.Ident)
		if !ok || n.Tok != token.DEFINE || len(n.Lhs) != len(n.Rhs) {
			continue
		}
		if ptr, ok := n.Rhs[i].(*ast.UnaryExpr); ok && ptr.Op == token.AND && w.root(ptr.X) != nil {
			w.aliases[w.info.Defs[id]] = true
			w.local[ptr] = true
		}
	}
}

func (w *writes) call(n *ast.CallExpr) {
	switch fun := n.Fun.(type) {
	case *ast.Ident:
		writer := fun.Name == "copy" || fun.Name == "clear" || fun.Name == "delete"
		if _, ok := w.info.Uses[fun].(*types.Builtin); ok && writer && len(n.Args) > 0 {
			w.written(n.Args[0], "written by "+fun.Name)
		}
	case *ast.SelectorExpr:
		sel := w.info.Selections[fun]
		if sel == nil || sel.Kind() != types.MethodVal {
			return
		}
		_, byPointer := sel.Obj().Type().(*types.Signature).Recv().Type().(*types.Pointer)
		if byPointer && (w.target != nil || w.methods[sel.Obj()]) {
			w.written(&ast.StarExpr{Star: fun.X.Pos(), X: fun.X}, "written by "+fun.Sel.Name)
		}
	}
}

// written reports e if writing to it writes to a package variable.
func (w *writes) written(e ast.Expr, how string) {
	if e == nil {
		return
	}
	id, ok := e.(*ast.Ident)
	if ok && w.aliases[w.info.Uses[id]] {
		return // the pointer changes, not what it points at
	}
	if id := w.root(e); id != nil {
		w.report(e.Pos(), "package variable %s is %s", id.Name, how)
	}
}

// root returns the name of the package variable, or of the local pointer to
// one, that e is a part of; nil for anything else.
func (w *writes) root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.Ident:
			if w.tracked(w.info.Uses[x]) {
				return x
			}
			return nil
		default:
			return nil
		}
	}
}

func (w *writes) tracked(obj types.Object) bool {
	if w.aliases[obj] {
		return true
	}
	v, ok := obj.(*types.Var)
	return ok && w.target == nil && !v.IsField() && v.Pkg() != nil && v.Parent() == v.Pkg().Scope()
}
