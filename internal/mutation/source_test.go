//go:build mutation

package mutation

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// module is the source of the module below root, by package.
type module struct {
	root     string
	packages map[string][]*declaration
}

func newModule(root string) *module {
	return &module{root, make(map[string][]*declaration)}
}

// source is a file.
type source struct {
	path string // below the root of the module
	text []byte
	fset *token.FileSet
	pkg  string
}

// declaration is a function, or the specification of variables or constants.
type declaration struct {
	source *source
	node   ast.Node // *ast.FuncDecl or *ast.ValueSpec
	tok    token.Token
}

// declarations returns those of a package on this machine, tests aside.
func (m *module) declarations(dir string) ([]*declaration, error) {
	if list, ok := m.packages[dir]; ok {
		return list, nil
	}
	p, err := build.ImportDir(filepath.Join(m.root, dir), 0)
	if err != nil {
		return nil, err
	}
	var list []*declaration
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		s := &source{path: path.Join(dir, name), fset: token.NewFileSet(), pkg: p.Name}
		if s.text, err = os.ReadFile(filepath.Join(m.root, s.path)); err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(s.fset, s.path, s.text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				list = append(list, &declaration{s, d, token.FUNC})
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						list = append(list, &declaration{s, v, d.Tok})
					}
				}
			}
		}
	}
	m.packages[dir] = list
	return list, nil
}

// splitPlace separates the directory of a package from what is named in it.
func splitPlace(in string) (dir, name string) {
	slash := strings.LastIndexByte(in, '/') + 1
	before, name, _ := strings.Cut(in[slash:], ".")
	return in[:slash] + before, name
}

// named reports whether a place of a mutant names this declaration.
func (d *declaration) named(in string) bool {
	_, want := splitPlace(in)
	_, have := splitPlace(d.name())
	_, method, _ := strings.Cut(have, ".")
	return have == want || method == want
}

// name returns the package, the type of the receiver if there is one, and the
// name of the function or of the first of the variables.
func (d *declaration) name() string {
	name := path.Dir(d.source.path) + "."
	fn, ok := d.node.(*ast.FuncDecl)
	if !ok {
		return name + d.node.(*ast.ValueSpec).Names[0].Name
	}
	if fn.Recv != nil {
		name += receiverType(fn.Recv.List[0].Type) + "."
	}
	return name + fn.Name.Name
}

func receiverType(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiverType(t.X)
	case *ast.IndexExpr:
		return receiverType(t.X)
	case *ast.IndexListExpr:
		return receiverType(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// offset returns where in the file a place is.
func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

// print returns a node of the file as text.
func (s *source) print(n ast.Node) ([]byte, error) {
	var b bytes.Buffer
	err := format.Node(&b, s.fset, n)
	return b.Bytes(), err
}

// file returns the file with the changed declaration in it.
func (e *edit) file() ([]byte, error) {
	s := e.source
	text, err := s.print(e.changed)
	if err != nil {
		return nil, err
	}
	begin, end := s.offset(e.node.Pos()), s.offset(e.node.End())
	return bytes.Join([][]byte{s.text[:begin], text, s.text[end:]}, nil), nil
}
