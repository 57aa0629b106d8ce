package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// written returns the page of one structure, and what is wrong with it.
func written(t *testing.T, declarations string) (text string, problems string) {
	t.Helper()
	files := fstest.MapFS{
		"a/a.go": {Data: []byte("package a\n\nimport (\n\t\"time\"\n\n\t\"github.com/softhca/softhca/b\"\n)\n\n" + declarations)},
		"b/b.go": {Data: []byte("package b\n\ntype Count uint64\n\ntype Word uint8\n\nfunc (w Word) MarshalText() ([]byte, error) { return nil, nil }\n\ntype Part struct {\n\tN int `json:\"n\"` // how many\n}\n")},
	}
	p := &page{source: newSource(fs.FS(files)), known: map[string]bool{}}
	text = p.write([]output{{"softhca a", "One object, %s.", "", "a", "Root"}})
	return text, strings.TrimSpace(fmt.Sprintln(p.problems))
}

// TestFields reads structures as the JSON encoder would.
func TestFields(t *testing.T) {
	text, problems := written(t, `
type Root struct {
	*base
	Name   string            `+"`json:\"name\"`"+` // of it
	// Parts are what it consists of,
	// in their order.
	Parts  []b.Part          `+"`json:\"parts,omitempty\"`"+`
	Word   b.Word            `+"`json:\"word\"`"+` // in words
	Count  *b.Count          `+"`json:\"count\"`"+` // if it is known
	Took   time.Duration     `+"`json:\"took_ns\"`"+` // in all
	Marks  map[string]uint64 `+"`json:\"marks\"`"+` // by name
	Hidden int               `+"`json:\"-\"`"+`
	secret int
}

type base struct {
	PSN uint32 `+"`json:\"psn\"`"+` // the first | the last
}
`)
	if problems != "[]" {
		t.Fatal(problems)
	}
	for _, want := range []string{
		"| `psn` | integer | PSN | the first \\| the last |\n| `name` | string | text | of it |\n",
		"| `parts` | array of [b.Part](#bpart), or missing |  | Parts are what it consists of, in their order. |\n",
		"| `word` | string | text | in words |\n| `count` | integer, or null | count, or code | if it is known |\n| `took_ns` | integer | duration | in all |\n",
		"| `marks` | object by name of integer | count, or code | by name |\n\n### b.Part\n",
		"| `n` | integer | count, or code | how many |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "idden") || strings.Contains(text, "secret") {
		t.Errorf("what is not printed is on the page:\n%s", text)
	}
}

// TestProblems refuses fields that say nothing, or whose type is not that of others of
// their kind.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct{ field, want string }{
		"no comment":           {"N int `json:\"n\"`", "a.Root: n has no comment"},
		"a PSN as text":        {"P string `json:\"first_psn\"` // the first", "first_psn is string, which is not the type of its kind, PSN"},
		"a key as text":        {"K string `json:\"rkey\"` // of it", "rkey is string, which is not the type of its kind, key"},
		"an address as number": {"A uint32 `json:\"addr\"` // of it", "addr is integer, which is not the type of its kind, address"},
		"no name":              {"N int", "a.Root.N has no name in JSON"},
		"a channel":            {"N chan int `json:\"n\"` // of it", "a type that has no form in JSON"},
		"an unknown type":      {"N time.Month `json:\"n\"` // of it", "a type that has no form in JSON"},
	} {
		if _, problems := written(t, "type Root struct {\n\t"+c.field+"\n}\n"); !strings.Contains(problems, c.want) {
			t.Errorf("%s: %s, want %q", name, problems, c.want)
		}
	}
	if _, problems := written(t, "type Other int\n"); !strings.Contains(problems, "there is no structure Root") {
		t.Error(problems)
	}
}

// TestPageIsUpToDate compares the page with the source.
func TestPageIsUpToDate(t *testing.T) {
	p := &page{source: newSource(os.DirFS("../../..")), known: map[string]bool{}}
	want := p.write(outputs)
	if len(p.problems) > 0 {
		t.Fatal(p.problems)
	}
	if got, err := os.ReadFile("../../../docs/json.md"); err != nil || string(got) != want {
		t.Errorf("docs/json.md is not what the source says: run make generate; %v", err)
	}
}
