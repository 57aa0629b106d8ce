package verbs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVocabulary compares this package with package ib: the comment on the
// alias of a structure shows the structure, which go doc does not (that it shows
// the methods is a rule of package rules), and every constant that a program
// needs has its name here too.
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
		if _, ok := of.Type.(*ast.StructType); !ok || !alias.Assign.IsValid() {
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
	if shows != 7 {
		t.Errorf("%d structures are shown, want 7", shows)
	}
	for name, d := range theirs {
		if d.Tok != token.CONST || ours[name] != nil {
			continue
		}
		for _, prefix := range []string{"WR", "WC", "Send", "Access", "Attr", "Event", "MTU", "Sig"} {
			if strings.HasPrefix(name, prefix) && name != "AttrAll" {
				t.Errorf("package verbs has no %s", name)
			}
		}
	}
}

// declarations returns the exported types and constants of the package in dir,
// each type in a declaration of its own.
func declarations(t *testing.T, fset *token.FileSet, dir string) map[string]*ast.GenDecl {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	all := map[string]*ast.GenDecl{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		must(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					all[s.Name.Name] = &ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{s}}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						all[n.Name] = &ast.GenDecl{Tok: g.Tok}
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
	must(t, err)
	return string(b[p.Offset:fset.Position(s.End()).Offset])
}
