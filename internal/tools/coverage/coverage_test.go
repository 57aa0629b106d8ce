package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/softhca/softhca/internal/must"
)

// module returns the files of a small module: three done requirements, of which
// V1 is proved, one that is done with gcc, an open one, and a reason for every
// status and event.
func module(files map[string]string) fstest.MapFS {
	var why strings.Builder
	for _, x := range allExceptions() {
		if x.name != "RETRY_EXC_ERR" && x.name != "QP_FATAL" {
			fmt.Fprintf(&why, "%s\t%s\tbecause of %s\n", x.kind, x.name, x.name)
		}
	}
	all := map[string]string{
		requirementsFile:    "V1\topen\tdone\nE8\tgap\tdone\nQ25\tvisible\tdone\nV15\tmigration\topen\nD1\tprograms in C\tdone with gcc\n",
		unprovableFile:      why.String(),
		"v/v_test.go":       "package v\nfunc TestV1_Q25_Open() {}\n",
		"c/c_test.go":       "package c\nfunc TestD1_Program() {}\n",
		"s/testdata/gap.qp": gapScript,
	}
	maps.Copy(all, files)
	fsys := fstest.MapFS{}
	for name, text := range all {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

const gapScript = `# title: a gap
# covers: E8
# status: RETRY_EXC_ERR
# event: QP_FATAL
# provoked: the peer | falls silent
# requester: waits
# responder: is gone

# Prose with a colon: not a key.
< RC_SEND_ONLY
# covers: E99 is no header here
`

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
	c, err := load(module(map[string]string{
		"a/a_test.go":            "package a\nfunc TestE8_Q25_Once() {}\nfunc (x) TestV15() {}\n",
		"a/a.go":                 "package a\nfunc TestV15_() {}\n",
		"a/testdata/two_test.go": "not parsed",
		"a/three.qp":             "covers: Q99\n",
	}))
	if err != nil || len(c.problems) > 0 {
		t.Fatal(err, c.problems)
	}
	got := string(c.render(nil))
	for _, want := range []string{
		"4 of 5 requirements are done, by 3 tests and 1 scripts.",
		"| D1 | programs in C | done with gcc | `c` TestD1_Program |  |\n",
		"| E8 | gap | done | `a` TestE8_Q25_Once | [`gap.qp`](../s/testdata/gap.qp) |\n",
		"| Q25 | visible | done | `a` TestE8_Q25_Once<br>`v` TestV1_Q25_Open |  |\n",
		"| V15 | migration | open |  |  |\n",
		"| RETRY_EXC_ERR | the peer \\| falls silent | waits | is gone | [`gap.qp`](../s/testdata/gap.qp) |\n",
		"| QP_FATAL | the peer \\| falls silent | waits | is gone | [`gap.qp`](../s/testdata/gap.qp) |\n",
		"| TM_RNDV_INCOMPLETE | because of TM_RNDV_INCOMPLETE | | | none |\n",
		"| WQ_FATAL | because of WQ_FATAL | | | none |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

// TestLoadRejects loads modules from which no page can be made.
func TestLoadRejects(t *testing.T) {
	for why, files := range map[string]map[string]string{
		"a word that is no requirement": {"testdata/a.qp": "# covers: E8 and V1\n"},
		"a script without requirements": {"testdata/a.qp": "# title: a\n"},
		"a requirement twice":           {requirementsFile: "E8\ta\tdone\nE8\tb\tdone\n"},
		"a line without a state":        {requirementsFile: "E8\ta\n"},
		"a state that does not exist":   {requirementsFile: "E8\ta\tsoon\n"},
		"a state without what it needs": {requirementsFile: "E8\ta\tdone with\n"},
		"a line without a title":        {requirementsFile: "E8\t\tdone\n"},
		"a reason twice":                {unprovableFile: "status\tTM_ERR\ta\nstatus\tTM_ERR\tb\n"},
		"no reason":                     {unprovableFile: "status\tTM_ERR\t\n"},
		"a test that does not parse":    {"a_test.go": "pack age"},
	} {
		if _, err := load(module(files)); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
}

// TestProblems breaks each rule of the page once.
func TestProblems(t *testing.T) {
	reasons := string(module(nil)[unprovableFile].Data)
	for want, files := range map[string]map[string]string{
		"V1 is done, and nothing proves it":                                {"v/v_test.go": "package v\nfunc TestQ25() {}\n"},
		"E8 has no script":                                                 {"s/testdata/gap.qp": strings.Replace(gapScript, "E8", "V1", 1), "a/a_test.go": "package a\nfunc TestE8_a() {}\n"},
		"V15 is open, and `a` TestV15_a says that it proves it":            {"a/a_test.go": "package a\nfunc TestV15_a() {}\n"},
		"`a` TestE77_a: there is no requirement E77":                       {"a/a_test.go": "package a\nfunc TestE77_a() {}\n"},
		"[`b.qp`](../a/testdata/b.qp): there is no requirement E77":        {"a/testdata/b.qp": "# covers: E77\n"},
		"no script provokes status TM_ERR, and docs/unprovable.tsv does n": {unprovableFile: strings.Replace(reasons, "status\tTM_ERR\tbecause of TM_ERR\n", "", 1)},
		"no script provokes event CQ_ERR, and docs/unprovable.tsv does no": {unprovableFile: strings.Replace(reasons, "event\tCQ_ERR\tbecause of CQ_ERR\n", "", 1)},
		"s/testdata/gap.qp provokes event QP_FATAL, and docs/unprovable.t": {unprovableFile: reasons + "event\tQP_FATAL\tnever\n"},
		"docs/unprovable.tsv: there is no status NO_ERR":                   {unprovableFile: reasons + "status\tNO_ERR\tnever\n"},
		"a/testdata/b.qp: there is no status CQ_ERR":                       {"a/testdata/b.qp": "# covers: E8\n# status: CQ_ERR\n# provoked: so\n"},
		"a/testdata/b.qp: the header does not say how it is provoked":      {"a/testdata/b.qp": "# covers: E8\n# event: QP_FATAL\n"},
	} {
		c, err := load(module(files))
		if err != nil || len(c.problems) != 1 || !strings.HasPrefix(c.problems[0], want) {
			t.Errorf("want %q, got %q, %v", want, c.problems, err)
		}
	}
	if c, err := load(module(nil)); err != nil || len(c.problems) > 0 {
		t.Errorf("a good module has problems: %q, %v", c.problems, err)
	}
}

// ran is the output of go test -json for the proofs of module.
const ran = `{"Action":"start","Package":"github.com/softhca/softhca/v"}
{"Action":"pass","Package":"github.com/softhca/softhca/v","Test":"TestV1_Q25_Open"}
{"Action":"output","Package":"github.com/softhca/softhca/s","Test":"TestScripts/gap","Output":"fail"}
{"Action":"pass","Package":"github.com/softhca/softhca/s","Test":"TestScripts/gap"}
{"Action":"pass","Package":"github.com/softhca/softhca/s"}
{"Action":"pass","Package":"github.com/softhca/softhca/c","Test":"TestD1_Program"}
`

// TestVerify shows that the page says pass when every proof did, and that one
// that failed, was skipped, failed once of several times or did not run is
// refused.
func TestVerify(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.CopyFS(root, module(nil)))
	file := filepath.Join(root, "results")
	script, opened := `softhca/s","Test":"TestScripts/gap"}`, `softhca/v","Test":"TestV1_Q25_Open"}`
	for _, c := range []struct{ why, old, new, state string }{
		{why: "", state: "| E8 | gap | pass |"},
		{"failed", `"pass","Package":"github.com/softhca/` + script, `"fail","Package":"github.com/softhca/` + script, "| E8 | gap | TestScripts/gap: fail |"},
		{"was skipped", `"pass","Package":"github.com/softhca/` + opened, `"skip","Package":"github.com/softhca/` + opened, "| V1 | open | TestV1_Q25_Open: skip |"},
		{"did not run", "TestV1_Q25_Open", "TestV1_Q25_Other", "| V1 | open | TestV1_Q25_Open: not run |"},
		{"ran elsewhere", opened, strings.Replace(opened, "/v", "/w", 1), "| V1 | open | TestV1_Q25_Open: not run |"},
		{"failed, then passed", `{"Action":"start"`, `{"Action":"fail","Package":"github.com/softhca/` + script + "\n" + `{"Action":"start"`, "| E8 | gap | TestScripts/gap: fail |"},
	} {
		must.Do(t, os.WriteFile(file, []byte(strings.Replace(ran, c.old, c.new, 1)), 0o600))
		var page strings.Builder
		if err := verify(&page, root, file); (err == nil) != (c.why == "") {
			t.Errorf("a proof that %s: %v", c.why, err)
		}
		if !strings.Contains(page.String(), c.state) {
			t.Errorf("a proof that %s: the page lacks %q:\n%s", c.why, c.state, page.String())
		}
	}
	// A proof that needs a feature may be skipped, which is no pass, but may not
	// fail.
	for outcome, accepted := range map[string]bool{"skip": true, "fail": false} {
		text := strings.Replace(ran, `"pass","Package":"github.com/softhca/softhca/c"`, `"`+outcome+`","Package":"github.com/softhca/softhca/c"`, 1)
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		var page strings.Builder
		err := verify(&page, root, file)
		if (err == nil) != accepted || !strings.Contains(page.String(), "| D1 | programs in C | needs gcc:<br>TestD1_Program: "+outcome+" |") {
			t.Errorf("a proof that needs something, and its outcome is %s: %v\n%s", outcome, err, page.String())
		}
	}
	if err := verify(&strings.Builder{}, root, file+"2"); err == nil {
		t.Error("results that do not exist are accepted")
	}
}

// TestRun writes the table, anew once a test is added, and also if there is a problem.
func TestRun(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "docs"), 0o700))
	must.Do(t, os.CopyFS(root, module(nil)))
	must.Do(t, run(root))
	page := func() []byte {
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(coverageFile)))
		must.Do(t, err)
		return b
	}
	first := page()
	more := filepath.Join(root, "b_test.go")
	must.Do(t, os.WriteFile(more, []byte("package a\nfunc TestQ25_x() {}"), 0o600))
	must.Do(t, run(root))
	second := page()
	if bytes.Equal(first, second) {
		t.Error("the table lacks a new test")
	}
	must.Do(t, os.WriteFile(more, []byte("package a\nfunc TestV15_x() {}"), 0o600))
	if err := run(root); err == nil {
		t.Error("a proof of something open is written without an error")
	}
	if third := page(); bytes.Equal(second, third) {
		t.Error("a table with a problem in it is not written")
	}
}

// TestNothingIsForgotten checks that the list of requirements is complete and
// that no done requirement is open again, because a removed line would go
// unnoticed.
func TestNothingIsForgotten(t *testing.T) {
	reqs, err := readRequirements(os.DirFS("../../.."))
	must.Do(t, err)
	done := map[string]bool{}
	for _, r := range reqs {
		done[r.id] = r.done
	}
	for kind, n := range map[string]int{"E": 30, "Q": 25} {
		for i := 1; i <= n; i++ {
			if id := fmt.Sprint(kind, i); !done[id] {
				t.Errorf("%s is not in %s as done", id, requirementsFile)
			}
		}
	}
}
