package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

// checkGlobals requires that package variables are constants in all but name: sentinel errors,
// tables, and files that the compiler embeds. Such a variable has an initial value that is not
// shared state (a lock, a channel, a pool, a pointer, an atomic), and no function writes to it: by
// assignment, through a local pointer to it, or by a method that writes to its receiver. Its
// address must not be taken in any other way; that of a table's element may be, for look-ups that
// return it, but the rule does not see what their callers do with it.
func checkGlobals(m *Module, report reporter) {
	for _, p := range m.Packages {
		if p.Path == "internal/lock" || p.Path == "internal/check/writes" {
			continue // what goroutines hold, but only in debug builds; the writes of all checked adapters of a process
		}
		for _, f := range p.Sources() {
			checkVarDecls(f, report)
		}
		checkVarUses(m, p, report)
	}
}

func checkVarDecls(f *File, report reporter) {
	names := importNames(f.AST)
	for _, d := range f.AST.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, s := range gen.Specs {
			spec := s.(*ast.ValueSpec)
			if len(spec.Names) == 1 && spec.Names[0].Name == "_" {
				continue
			}
			if len(spec.Values) == 0 && !embeds(gen.Doc) && !embeds(spec.Doc) {
				report(spec.Pos(), "package variable %s has no initial value", spec.Names[0].Name)
			}
			for _, v := range spec.Values {
				if what := sharedState(v, names); what != "" {
					report(spec.Pos(), "package variable %s is %s", spec.Names[0].Name, what)
				}
			}
		}
	}
}

// embeds reports whether a comment makes the compiler give a variable the
// content of a file.
func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// sharedState names what makes an initial value mutable by its nature, or
// returns "".
func sharedState(v ast.Expr, names map[string]string) string {
	switch v := v.(type) {
	case *ast.UnaryExpr:
		if v.Op == token.AND {
			return "a pointer"
		}
	case *ast.CallExpr:
		if id, ok := v.Fun.(*ast.Ident); ok && (id.Name == "new" || id.Name == "make") {
			return "made for writing"
		}
	case *ast.CompositeLit:
		if sel, ok := v.Type.(*ast.SelectorExpr); ok {
			if pkg, ok := packageOf(sel, names); ok && inTree(pkg, "sync") {
				return "a " + pkg + "." + sel.Sel.Name
			}
		}
	}
	return ""
}

func checkVarUses(m *Module, p *Package, report reporter) {
	info, files := m.resolve(p)
	w := writes{info: info, report: report, aliases: map[types.Object]bool{}, local: map[ast.Expr]bool{}}
	w.methods = writingMethods(info, files)
	for _, f := range files {
		ast.Inspect(f, w.visit)
	}
}

// resolve resolves the names of a package with go/types but without the imports: names of
// the package itself resolve anyway, and type errors do not matter to the rules.
func (m *Module) resolve(p *Package) (*types.Info, []*ast.File) {
	var files []*ast.File
	for _, f := range p.Sources() {
		files = append(files, f.AST)
	}
	info := &types.Info{
		Defs:       map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	conf := types.Config{Importer: emptyImporter{}, Error: func(error) {}, FakeImportC: true}
	// The error is one of those given to conf.Error: an unresolved import.
	_, _ = conf.Check(m.Path+"/"+p.Path, m.Fset, files, info)
	return info, files
}

// emptyImporter gives packages that declare nothing.
type emptyImporter struct{}

// Import returns an empty package.
func (emptyImporter) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
