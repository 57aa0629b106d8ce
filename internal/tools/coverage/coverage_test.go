package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func module(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{requirementsFile: {Data: []byte("E8\tgap\nE9\tduplicate\nQ14\tsqe\n")}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestIDsOfTest(t *testing.T) {
	for name, want := range map[string][]string{
		"TestE8_OneNAK":        {"E8"},
		"TestE8_E9_Duplicates": {"E8", "E9"},
		"TestQ14":              {"Q14"},
		"FuzzV8_Modify":        {"V8"},
		"TestE8NoBreak":        nil,
		"TestVectors_E9":       nil,
		"TestE08_x":            nil,
		"BenchmarkE8_x":        nil,
		"exampleE8":            nil,
	} {
		if got := idsOfTest(name); !slices.Equal(got, want) {
			t.Errorf("%s proves %v, want %v", name, got, want)
		}
	}
}

func TestRender(t *testing.T) {
	got, err := render(module(map[string]string{
		"a/a_test.go":            "package a\nfunc TestE8_E9_Once() {}\nfunc (x) TestQ14() {}\n",
		"a/a.go":                 "package a\nfunc TestQ14_() {}\n",
		"a/testdata/one.qp":      "# covers: E9, E8\nrest\n",
		"a/testdata/two_test.go": "not parsed",
		"a/three.qp":             "covers: Q99\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 of 3 requirements",
		"| E8 | gap | `a` TestE8_E9_Once<br>`a/testdata/one.qp` |\n",
		"| E9 | duplicate | `a` TestE8_E9_Once<br>`a/testdata/one.qp` |\n",
		"| Q14 | sqe |  |\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
}

func TestRenderRejects(t *testing.T) {
	for why, files := range map[string]map[string]string{
		"an unknown requirement in a test":   {"a_test.go": "package a\nfunc TestE77_x() {}"},
		"an unknown requirement in a script": {"testdata/a.qp": "covers: E77"},
		"a word that is no requirement":      {"testdata/a.qp": "covers: E8 and E9"},
		"a requirement twice":                {requirementsFile: "E8\ta\nE8\tb\n"},
		"a line without a title":             {requirementsFile: "E8\n"},
		"a test that does not parse":         {"a_test.go": "pack age"},
	} {
		if _, err := render(module(files)); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
}

// TestCheck writes the table, and shows that -check accepts it and rejects it
// once a test is added.
func TestCheck(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, module(map[string]string{"a_test.go": "package a\nfunc TestE8_x() {}"})); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil {
		t.Error("-check accepts a missing table")
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Errorf("-check rejects a fresh table: %v", err)
	}
	more := filepath.Join(root, "b_test.go")
	if err := os.WriteFile(more, []byte("package a\nfunc TestE9_x() {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil {
		t.Error("-check accepts a table that lacks a new test")
	}
}
