package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

var idPattern = regexp.MustCompile(`^[VQCEKLMDW][1-9][0-9]*$`)

// proof is a test or a script that names requirements.
type proof struct {
	dir    string // of the package that runs it
	test   string // its name for the go command
	script string // the file, if it is one
	ids    []string
}

// String returns the proof as the table shows it.
func (p *proof) String() string {
	if p.script != "" {
		return fmt.Sprintf("[`%s`](../%s)", path.Base(p.script), p.script)
	}
	return fmt.Sprintf("`%s` %s", p.dir, p.test)
}

// evidence is the tests and scripts of the module.
type evidence struct {
	proofs  []*proof
	scripts []*scriptFile
}

// of returns the proofs of a requirement.
func (e *evidence) of(id string) (tests, scripts []*proof) {
	for _, p := range e.proofs {
		switch {
		case !slices.Contains(p.ids, id):
		case p.script != "":
			scripts = append(scripts, p)
		default:
			tests = append(tests, p)
		}
	}
	return tests, scripts
}

// findEvidence reads the tests and the scripts of a module, in the order of
// their files.
func findEvidence(fsys fs.FS) (*evidence, error) {
	e := &evidence{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base[0] == '.' || base[0] == '_'):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case strings.HasSuffix(base, "_test.go") && !inTestdata(name):
			return e.readTests(fsys, name)
		case path.Ext(base) == ".qp" && inTestdata(name):
			return e.readScript(fsys, name)
		}
		return nil
	})
	return e, err
}

func inTestdata(name string) bool {
	return strings.Contains("/"+name, "/testdata/")
}

func (e *evidence) readTests(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil {
			continue
		}
		if ids := idsOfTest(fn.Name.Name); len(ids) > 0 {
			e.proofs = append(e.proofs, &proof{dir: path.Dir(name), test: fn.Name.Name, ids: ids})
		}
	}
	return nil
}

// idsOfTest returns the requirements with which the name of a test or a fuzz
// target begins: E8 and E9 of TestE8_E9_OneNAKPerGap.
func idsOfTest(name string) []string {
	rest, ok := strings.CutPrefix(name, "Test")
	if !ok {
		rest, ok = strings.CutPrefix(name, "Fuzz")
	}
	if !ok {
		return nil
	}
	var ids []string
	for _, part := range strings.Split(rest, "_") {
		if !idPattern.MatchString(part) {
			break
		}
		ids = append(ids, part)
	}
	return ids
}
