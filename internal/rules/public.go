package rules

import (
	"go/ast"
	"go/printer"
	"go/token"
	"regexp"
	"strings"
)

// checkPublicTypes rejects internal types in the exports of a public package:
// parameters and results, fields, methods of interfaces, aliases, underlying
// types, variables and constants. The value of a variable or a constant names
// no internal package either. An unexported type that an exported struct embeds
// must not have exported methods or fields.
func checkPublicTypes(m *Module, report reporter) {
	for _, p := range m.publicPackages() {
		x := exports{m: m, report: report, aliases: map[string]ast.Expr{}}
		for _, f := range p.Sources() {
			x.names = importNames(f.AST)
			x.collect(f)
		}
		for _, f := range p.Sources() {
			x.names = importNames(f.AST)
			for _, d := range f.AST.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
						x.check(d.Type, d.Name.Name)
					}
				case *ast.GenDecl:
					x.checkSpecs(d)
				}
			}
		}
	}
}

// publicPackages returns the packages that other modules may import.
func (m *Module) publicPackages() (all []*Package) {
	for _, p := range m.Packages {
		if row, ok := Find(p.Path); ok && row.Public {
			all = append(all, p)
		}
	}
	return all
}

// exports examines the exports of a package.
type exports struct {
	m       *Module
	report  reporter
	names   map[string]string   // imports of the current file
	aliases map[string]ast.Expr // unexported names of internal types
}

// collect notes the unexported aliases of internal types.
func (x *exports) collect(f *File) {
	for _, d := range f.AST.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range gen.Specs {
			t, ok := s.(*ast.TypeSpec)
			if ok && t.Assign.IsValid() && !t.Name.IsExported() && x.internal(t.Type) != "" {
				x.aliases[t.Name.Name] = t.Type
			}
		}
	}
}

// internal returns the name of an internal type in an expression, "" for none.
func (x *exports) internal(e ast.Node) (found string) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := packageOf(n, x.names); ok && strings.HasPrefix(pkg, x.m.Path+"/internal/") {
				found = n.X.(*ast.Ident).Name + "." + n.Sel.Name
			}
			return false
		case *ast.Ident:
			if x.aliases[n.Name] != nil {
				found = n.Name
			}
		}
		return found == ""
	})
	return found
}

func (x *exports) check(e ast.Node, of string) {
	if name := x.internal(e); name != "" {
		x.report(e.Pos(), "exported %s has the internal type %s", of, name)
	}
}

func (x *exports) checkSpecs(d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				x.checkType(s)
			}
		case *ast.ValueSpec:
			if exportsAny(s.Names) {
				x.checkValue(s)
			}
		}
	}
}

func (x *exports) checkType(s *ast.TypeSpec) {
	st, ok := s.Type.(*ast.StructType)
	if !ok {
		x.check(s.Type, s.Name.Name)
		return
	}
	for _, f := range st.Fields.List {
		switch id, ok := f.Type.(*ast.Ident); {
		case exportsAny(f.Names):
			x.check(f.Type, s.Name.Name+"."+f.Names[0].Name)
		case len(f.Names) > 0:
		case ok && x.aliases[id.Name] != nil:
			if what := x.brings(x.aliases[id.Name]); what != "" {
				x.report(f.Pos(), "exported %s gets %s from the internal type that it embeds", s.Name.Name, what)
			}
		default:
			x.check(f.Type, s.Name.Name)
		}
	}
}

// brings returns an exported method or field of an internal type, "" if it has
// none.
func (x *exports) brings(t ast.Expr) (what string) {
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	path, _ := packageOf(sel, x.names)
	for _, f := range x.m.sources(path) {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && receiver(n) == sel.Sel.Name && n.Name.IsExported() {
					what = n.Name.Name
				}
			case *ast.TypeSpec:
				if st, ok := n.Type.(*ast.StructType); ok && n.Name.Name == sel.Sel.Name {
					for _, f := range st.Fields.List {
						if exportsAny(f.Names) {
							what = f.Names[0].Name
						}
					}
				}
			}
			return true
		})
	}
	return what
}

// sources returns the sources of a package of the module by its import path.
func (m *Module) sources(path string) []*File {
	for _, p := range m.Packages {
		if m.Path+"/"+p.Path == path {
			return p.Sources()
		}
	}
	return nil
}

// checkPublicAliases requires that the comment on an alias shows the methods of
// its type, indented: go doc shows nothing else of an alias.
func checkPublicAliases(m *Module, report reporter) {
	for _, p := range m.publicPackages() {
		for _, f := range p.Sources() {
			names := importNames(f.AST)
			for _, d := range f.AST.Decls {
				gen, ok := d.(*ast.GenDecl)
				for i := 0; ok && i < len(gen.Specs); i++ {
					t, _ := gen.Specs[i].(*ast.TypeSpec)
					if t == nil || !t.Assign.IsValid() || !t.Name.IsExported() {
						continue
					}
					doc := gen.Doc.Text() + t.Doc.Text()
					for _, head := range m.methods(t.Type, names) {
						if !strings.Contains(doc, "\t"+head+"\n") {
							report(t.Pos(), "the comment on %s does not show %s", t.Name.Name, head)
						}
					}
				}
			}
		}
	}
}

// methods returns the exported methods of a type of another package of the
// module, in a file with these imports, as they are declared.
func (m *Module) methods(t ast.Expr, names map[string]string) (heads []string) {
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	path, _ := packageOf(sel, names)
	for _, f := range m.sources(path) {
		for _, d := range f.AST.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil && receiver(d) == sel.Sel.Name && d.Name.IsExported() {
				var b strings.Builder
				if printer.Fprint(&b, m.Fset, &ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}) == nil {
					heads = append(heads, b.String())
				}
			}
		}
	}
	return heads
}

// checkValue examines the value too, whatever its type is: go doc shows it as it
// is written.
func (x *exports) checkValue(s *ast.ValueSpec) {
	if s.Type != nil {
		x.check(s.Type, s.Names[0].Name)
	}
	for _, v := range s.Values {
		if name := x.internal(v); name != "" {
			x.report(v.Pos(), "exported %s shows the internal name %s in its value", s.Names[0].Name, name)
		}
	}
}

// workshop matches text that means nothing to users of a public package:
// numbers of the project's requirements, but not of compliance statements of
// the InfiniBand architecture (C9-105), and reading orders.
var workshop = regexp.MustCompile(`\b[EQVC][0-9]{1,2}\b(?:[^-]|$)|[Rr]eading order`)

// checkPublicDocs requires that the comments on a public package's exports make
// sense without the repository.
func checkPublicDocs(m *Module, report reporter) {
	for _, p := range m.publicPackages() {
		for _, f := range p.Sources() {
			checkComments(report, f.AST.Doc)
			for _, d := range f.AST.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
						checkComments(report, d.Doc)
					}
				case *ast.GenDecl:
					if d.Tok != token.IMPORT {
						checkSpecComments(d, report)
					}
				}
			}
		}
	}
}

func checkSpecComments(d *ast.GenDecl, report reporter) {
	exported := false
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			exported = true
			checkComments(report, s.Doc, s.Comment)
			ast.Inspect(s.Type, func(n ast.Node) bool {
				if f, ok := n.(*ast.Field); ok {
					checkComments(report, f.Doc, f.Comment)
				}
				return true
			})
		case *ast.ValueSpec:
			if exportsAny(s.Names) {
				exported = true
				checkComments(report, s.Doc, s.Comment)
			}
		}
	}
	if exported {
		checkComments(report, d.Doc)
	}
}

func checkComments(report reporter, groups ...*ast.CommentGroup) {
	for _, g := range groups {
		if g == nil {
			continue
		}
		if found := workshop.FindString(g.Text()); found != "" {
			report(g.Pos(), "a comment that users read has %q", found)
		}
	}
}
