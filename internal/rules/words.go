package rules

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// bannedNames are package names that say nothing.
var bannedNames = []string{
	"util", "utils", "common", "helper", "helpers", "type", "types", "misc", "shared", "base", "lib",
}

func checkPackageName(m *Module, report reporter) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			name := strings.TrimSuffix(f.AST.Name.Name, "_test")
			if slices.Contains(bannedNames, name) || slices.Contains(bannedNames, path.Base(p.Path)) {
				report(f.AST.Name.Pos(), "a package called %s says nothing", name)
			}
		}
	}
}

// checkDocFile requires a doc.go with the package comment in every package, and
// the comment nowhere else.
func checkDocFile(m *Module, report reporter) {
	for _, p := range m.Packages {
		sources := p.Sources()
		if len(sources) == 0 {
			continue
		}
		found := false
		for _, f := range sources {
			switch {
			case path.Base(f.Name) == "doc.go":
				found = hasPackageComment(f)
			case f.AST.Doc != nil && !f.Generated:
				report(f.AST.Package, "package comment outside doc.go")
			}
		}
		if !found {
			report(sources[0].AST.Package, "package %s has no doc.go that begins with Package or Command", p.Path)
		}
	}
}

func hasPackageComment(f *File) bool {
	if f.AST.Doc == nil {
		return false
	}
	text := f.AST.Doc.Text()
	return strings.HasPrefix(text, "Package "+f.AST.Name.Name+" ") ||
		f.AST.Name.Name == "main" && strings.HasPrefix(text, "Command ")
}

// checkDocumented requires a comment on every exported name of hand-written
// sources: functions, methods of exported types, types, methods of interfaces,
// constants and variables (a comment on their group will do). Comments of
// functions and types begin with the name.
func checkDocumented(m *Module, report reporter) {
	for _, p := range m.Packages {
		for _, f := range p.Sources() {
			if f.Generated {
				continue
			}
			for _, d := range f.AST.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					checkFuncDoc(d, report)
				case *ast.GenDecl:
					checkGenDoc(d, report)
				}
			}
		}
	}
}

func checkFuncDoc(fn *ast.FuncDecl, report reporter) {
	if fn.Name.IsExported() && (fn.Recv == nil || ast.IsExported(receiver(fn))) {
		checkDoc(fn.Name, fn.Doc, report)
	}
}

// receiver returns the name of the receiver's type.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// checkDoc requires that doc begins with the name, after an article if need be.
func checkDoc(name *ast.Ident, doc *ast.CommentGroup, report reporter) {
	if doc == nil {
		report(name.Pos(), "exported %s has no comment", name.Name)
		return
	}
	text := doc.Text()
	for _, article := range []string{"A ", "An ", "The "} {
		text = strings.TrimPrefix(text, article)
	}
	rest, ok := strings.CutPrefix(text, name.Name)
	if !ok || rest == "" || !strings.ContainsAny(rest[:1], " ,.:\n'") {
		report(name.Pos(), "the comment of %s does not begin with its name", name.Name)
	}
}

func checkGenDoc(d *ast.GenDecl, report reporter) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			doc := s.Doc
			if doc == nil && !d.Lparen.IsValid() {
				doc = d.Doc
			}
			checkDoc(s.Name, doc, report)
			checkMethodDocs(s, report)
		case *ast.ValueSpec:
			if d.Tok != token.IMPORT && d.Doc == nil && s.Doc == nil && s.Comment == nil && exportsAny(s.Names) {
				report(s.Pos(), "exported %s has no comment", s.Names[0].Name)
			}
		}
	}
}

func exportsAny(names []*ast.Ident) bool { return slices.ContainsFunc(names, (*ast.Ident).IsExported) }

func checkMethodDocs(t *ast.TypeSpec, report reporter) {
	iface, ok := t.Type.(*ast.InterfaceType)
	if !ok {
		return
	}
	for _, m := range iface.Methods.List {
		for _, name := range m.Names {
			if name.IsExported() {
				checkDoc(name, m.Doc, report)
			}
		}
	}
}
