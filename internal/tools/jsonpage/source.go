package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// modulePath is the prefix of the module's import paths.
const modulePath = "github.com/softhca/softhca/"

// source reads packages of the module.
type source struct {
	root     fs.FS
	packages map[string]*pkg
}

// pkg is the declarations of a package.
type pkg struct {
	dir     string // below the root
	types   map[string]declared
	methods map[string]bool // "Type.Method"
}

// declared is a type, and the imports of its file: paths by name.
type declared struct {
	expr    ast.Expr
	imports map[string]string
}

func newSource(root fs.FS) *source { return &source{root, map[string]*pkg{}} }

// load returns a package, without its tests.
func (s *source) load(dir string) (*pkg, error) {
	if p := s.packages[dir]; p != nil {
		return p, nil
	}
	names, err := fs.Glob(s.root, path.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("%s: no Go files: %w", dir, err)
	}
	p := &pkg{dir: dir, types: map[string]declared{}, methods: map[string]bool{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := fs.ReadFile(s.root, name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, b, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.add(f)
	}
	s.packages[dir] = p
	return p, nil
}

// add adds the declarations of a file.
func (p *pkg) add(f *ast.File) {
	imports := map[string]string{}
	for _, i := range f.Imports {
		if where, err := strconv.Unquote(i.Path.Value); err == nil {
			name := path.Base(where)
			if i.Name != nil {
				name = i.Name.Name
			}
			imports[name] = where
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					p.types[t.Name.Name] = declared{t.Type, imports}
				}
			}
		case *ast.FuncDecl:
			if d.Recv != nil {
				p.methods[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
			}
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
