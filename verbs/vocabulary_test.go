package verbs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestVocabulary compares this package with package ib: the comment on the
// alias of a structure shows the structure, which go doc does not (that it shows
// the methods is a rule of package rules), and every constant of a type that has
// an alias has its name, its type and its comment here too.
func TestVocabulary(t *testing.T) {
	fset := token.NewFileSet()
	theirs, ours := declarations(t, fset, "../ib"), declarations(t, fset, ".")
	shows := 0
	for name, d := range ours {
		original := theirs[name]
		if d.Tok != token.TYPE || original == nil || original.Tok != token.TYPE {
			continue
		}
		alias, of := d.Specs[0].(*ast.TypeSpec), original.Specs[0].(*ast.TypeSpec)
		if st, ok := of.Type.(*ast.StructType); !ok || !alias.Assign.IsValid() || !ast.IsExported(st.Fields.List[0].Names[0].Name) {
			continue
		}
		shows++
		shown := ""
		for line := range strings.SplitSeq(alias.Doc.Text(), "\n") {
			if strings.HasPrefix(line, "\tfunc ") {
				break // the methods follow the structure
			}
			if strings.HasPrefix(line, "\t") || shown != "" && line == "" {
				shown += strings.TrimPrefix(line, "\t") + "\n"
			}
		}
		want := "type " + source(t, fset, of)
		if got := strings.TrimSpace(shown); got != want {
			t.Errorf("the comment on %s shows\n%s\nwhere package ib has\n%s", name, got, want)
		}
	}
	if shows != 8 {
		t.Errorf("%d structures are shown, want 8", shows)
	}
	for name, d := range theirs {
		if typ := constant(d); typ != "" {
			aliased := ours[typ] != nil && ours[typ].Tok == token.TYPE
			switch here := ours[name]; {
			case !aliased || !ast.IsExported(name) || notForPrograms[name]:
			case here == nil:
				t.Errorf("package verbs has no %s", name)
			case constant(here) != typ:
				t.Errorf("%s has the type %q, want %s: go doc %s would not show it", name, constant(here), typ, typ)
			case note(here) != note(d):
				t.Errorf("the comment on %s is %q where package ib has %q", name, note(here), note(d))
			}
		}
	}
}

// notForPrograms lists constants that programs do not need.
var notForPrograms = map[string]bool{
	"AttrAll": true, "EECNMask": true, "SRQNMask": true, "QPNMask": true, "QPNGSI": true, "QKeyGSI": true, "QKeyControlled": true, "SMI": true, "GSI": true, "EEC": true,
	"PortNop": true, "PortInit": true, "PortArmed": true, "PortActiveDefer": true,
}

// constant returns the type of a constant, "" for anything else.
func constant(d *ast.GenDecl) string {
	if d.Tok == token.CONST {
		if id, ok := d.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); ok {
			return id.Name
		}
	}
	return ""
}

// note returns the comment on the line of a constant.
func note(d *ast.GenDecl) string { return d.Specs[0].(*ast.ValueSpec).Comment.Text() }

// TestExportedNamesAreOfThisPackage checks that the fields, parameters and results of
// exported names have types that go doc of this package shows: only aliases refer to
// package ib.
func TestExportedNamesAreOfThisPackage(t *testing.T) {
	fset := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	must.Do(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		must.Do(t, err)
		ast.FileExports(f)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				fn.Body = nil
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					return !n.Assign.IsValid()
				case *ast.ValueSpec:
					return n.Type == nil
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "ib" {
						t.Errorf("%v: exported, and of type ib.%s", fset.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// declarations returns the exported types and constants of the package in dir,
// each type in a declaration of its own.
func declarations(t *testing.T, fset *token.FileSet, dir string) map[string]*ast.GenDecl {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must.Do(t, err)
	all := map[string]*ast.GenDecl{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		must.Do(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			var last ast.Expr
			for _, s := range g.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					all[s.Name.Name] = &ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{s}}
				case *ast.ValueSpec:
					typ := s.Type
					if typ == nil && len(s.Values) == 0 && g.Tok == token.CONST {
						typ = last // of an enumeration by iota
					}
					last = typ
					for _, n := range s.Names {
						one := &ast.ValueSpec{Names: []*ast.Ident{n}, Type: typ, Comment: s.Comment}
						all[n.Name] = &ast.GenDecl{Tok: g.Tok, Specs: []ast.Spec{one}}
					}
				}
			}
		}
	}
	return all
}

// source returns the text of a declaration.
func source(t *testing.T, fset *token.FileSet, s *ast.TypeSpec) string {
	t.Helper()
	p := fset.Position(s.Pos())
	b, err := os.ReadFile(p.Filename)
	must.Do(t, err)
	return string(b[p.Offset:fset.Position(s.End()).Offset])
}
