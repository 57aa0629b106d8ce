package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
)

// NilReceivers calls the exported methods of the package whose source is in dir
// on nil, with zero arguments: objects are nil pointers to its exported types.
// It returns what is wrong: a method that panics; one that returns no error,
// though its last result is one and it is not among mayWork (as "Type.Method");
// and a method with a pointer as its receiver that no object has.
func NilReceivers(dir string, mayWork []string, objects ...any) (wrong []string, err error) {
	methods, err := pointerMethods(dir)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		v := reflect.ValueOf(o)
		for i := range v.NumMethod() {
			name := v.Type().Elem().Name() + "." + v.Type().Method(i).Name
			if !methods[name] {
				continue // a method of the value or of an embedded type: Go itself panics
			}
			delete(methods, name)
			if what := callZero(v.Method(i), slices.Contains(mayWork, name)); what != "" {
				wrong = append(wrong, name+" of nil "+what)
			}
		}
	}
	for name := range methods {
		wrong = append(wrong, name+" was not called")
	}
	slices.Sort(wrong)
	return wrong, nil
}

// callZero calls a method with zero arguments and returns what is wrong.
func callZero(m reflect.Value, mayWork bool) (wrong string) {
	defer func() {
		if r := recover(); r != nil {
			wrong = fmt.Sprintf("panics: %v", r)
		}
	}()
	n := m.Type().NumIn()
	if m.Type().IsVariadic() {
		n--
	}
	var in []reflect.Value
	for i := range n {
		in = append(in, reflect.Zero(m.Type().In(i)))
	}
	out := m.Call(in)
	if len(out) == 0 || mayWork {
		return ""
	}
	if last := out[len(out)-1]; last.Type() == reflect.TypeFor[error]() && last.IsNil() {
		return "returns no error"
	}
	return ""
}

// pointerMethods returns the exported methods, as "Type.Method", of exported
// types that have a pointer as their receiver.
func pointerMethods(dir string) (map[string]bool, error) {
	m := &Module{Fset: token.NewFileSet()}
	if err := m.read(os.DirFS(dir)); err != nil {
		return nil, err
	}
	methods := map[string]bool{}
	m.EachFunc(func(f *File, fn *ast.FuncDecl) {
		if f.Test || strings.Contains(f.Name, "/") || fn.Recv == nil || !fn.Name.IsExported() || !ast.IsExported(receiver(fn)) {
			return
		}
		if _, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
			methods[receiver(fn)+"."+fn.Name.Name] = true
		}
	})
	return methods, nil
}
