package rules

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the parsed source of a Go module.
type Module struct {
	Path     string // the module path
	Fset     *token.FileSet
	Packages []*Package // in the order of their paths
	C        []*CFile   // sources and headers, also below testdata
}

// Package is the source of one directory, for every operating system.
type Package struct {
	Path  string // below the module, "" for its root
	Files []*File
}

// File is one source file.
type File struct {
	Name      string // slash-separated path below the module
	AST       *ast.File
	Lines     int
	Test      bool // a _test.go file
	Generated bool // carries the usual mark of generated code
}

// Load reads every file in C and parses every Go file of the module at the root of
// fsys. Directories that the go command ignores are left out, except for files in C
// below testdata. It returns the first error of reading or parsing.
func Load(fsys fs.FS) (*Module, error) {
	m := &Module{Fset: token.NewFileSet()}
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if m.Path, err = modulePath(mod); err != nil {
		return nil, err
	}
	return m, m.read(fsys)
}

// read reads every file below the root of fsys.
func (m *Module) read(fsys fs.FS) error {
	pkgs := map[string]*Package{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && ignored(name) && path.Base(name) != "testdata":
			return fs.SkipDir
		case !d.IsDir() && (path.Ext(name) == ".c" || path.Ext(name) == ".h"):
			return m.readC(fsys, name)
		case d.IsDir() || path.Ext(name) != ".go" || slices.Contains(strings.Split(name, "/"), "testdata"):
			return nil
		}
		f, err := m.parse(fsys, name)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(path.Dir(name), ".")
		if pkgs[dir] == nil {
			pkgs[dir] = &Package{Path: dir}
			m.Packages = append(m.Packages, pkgs[dir])
		}
		pkgs[dir].Files = append(pkgs[dir].Files, f)
		return nil
	})
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	slices.SortFunc(m.Packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

func modulePath(mod []byte) (string, error) {
	for sc := bufio.NewScanner(bytes.NewReader(mod)); sc.Scan(); {
		if p, ok := strings.CutPrefix(sc.Text(), "module "); ok {
			return strings.TrimSpace(p), nil
		}
	}
	return "", fmt.Errorf("rules: go.mod has no module line")
}

// ignored reports whether the go command ignores the directory.
func ignored(dir string) bool {
	base := path.Base(dir)
	return dir != "." && (base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_')
}

func (m *Module) parse(fsys fs.FS, name string) (*File, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	tree, err := parser.ParseFile(m.Fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &File{
		Name:      name,
		AST:       tree,
		Lines:     bytes.Count(src, []byte("\n")),
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(tree),
	}, nil
}

// Sources returns the files that are not tests.
func (p *Package) Sources() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
}

// EnginePackages returns the import paths of the packages of m that must
// build for every system, the browser included.
func (m *Module) EnginePackages() []string {
	var paths []string
	for _, p := range m.Packages {
		if r, ok := Find(p.Path); ok && r.Kind.pure() && len(p.Sources()) > 0 {
			paths = append(paths, m.Path+"/"+p.Path)
		}
	}
	return paths
}
