package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	idPattern    = regexp.MustCompile(`^[VQCE][1-9][0-9]*$`)
	coversHeader = regexp.MustCompile(`^#?\s*covers:(.*)$`)
)

// findProofs returns the tests and scripts that name each requirement, in the
// order of their files.
func findProofs(fsys fs.FS) (map[string][]string, error) {
	proofs := map[string][]string{}
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
			return testProofs(fsys, name, proofs)
		case path.Ext(base) == ".qp" && inTestdata(name):
			return scriptProofs(fsys, name, proofs)
		}
		return nil
	})
	return proofs, err
}

func inTestdata(name string) bool {
	return strings.Contains("/"+name, "/testdata/")
}

func testProofs(fsys fs.FS, name string, proofs map[string][]string) error {
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
		for _, id := range idsOfTest(fn.Name.Name) {
			proofs[id] = append(proofs[id], fmt.Sprintf("`%s` %s", path.Dir(name), fn.Name.Name))
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

// scriptProofs reads the "covers:" lines of a script; their words are
// requirements, parted by blanks or commas.
func scriptProofs(fsys fs.FS, name string, proofs map[string][]string) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(text), "\n") {
		m := coversHeader.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, id := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ' ' || r == ',' || r == '\r' || r == '\t' }) {
			if !idPattern.MatchString(id) {
				return fmt.Errorf("%s:%d: %q is not a requirement", name, i+1, id)
			}
			proofs[id] = append(proofs[id], "`"+name+"`")
		}
	}
	return nil
}
