package check

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
)

// records writes files of records into a directory and returns it.
func records(t *testing.T, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, Suffix)), []byte(text), 0o600))
	}
	return dir
}

// read reads a directory of records.
func read(t *testing.T, dir string, o Options) *Report {
	t.Helper()
	r, err := Read(dir, o)
	must.Do(t, err)
	return r
}

// TestForms compares the report of two processes, in all its forms, with files. The second process
// was killed while it wrote.
func TestForms(t *testing.T) {
	r := read(t, "testdata/records", Options{Advice: true})
	for name, write := range map[string]func(b *bytes.Buffer) error{
		"report.txt":   func(b *bytes.Buffer) error { return r.Text(b, false) },
		"report.color": func(b *bytes.Buffer) error { return r.Text(b, true) },
		"report.json":  func(b *bytes.Buffer) error { return r.JSON(b) },
		"report.xml":   func(b *bytes.Buffer) error { return r.JUnit(b) },
		"report.sarif": func(b *bytes.Buffer) error { return r.SARIF(b, "/nowhere", "v1.2.3") },
	} {
		var b bytes.Buffer
		must.Do(t, write(&b))
		golden.Check(t, filepath.Join("testdata", name), b.String())
		if name != "report.color" && strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s has a control character of the program", name)
		}
	}
}

// TestClean has no findings: of one process, and of no process at all.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"softhca: check: no findings\n": "{\"process\":{\"pid\":1,\"program\":\"/a\"}}\n",
		"softhca: check: nothing was checked: no process of the program used the verbs\n": "",
	} {
		dir := t.TempDir()
		if want != "" {
			dir = records(t, want)
		}
		r := read(t, dir, Options{})
		var b, x, s bytes.Buffer
		must.Do(t, r.Text(&b, false))
		if b.String() != text {
			t.Errorf("got %q, want %q", b.String(), text)
		}
		must.Do(t, r.JUnit(&x))
		must.Do(t, r.SARIF(&s, "", "v1.2.3"))
		if !strings.Contains(s.String(), `"results": []`) || xml.Unmarshal(x.Bytes(), new(junitSuites)) != nil {
			t.Errorf("%s\n%s", s.String(), x.String())
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "missing"), Options{}); err == nil {
		t.Error("a directory that is not there is read")
	}
}

// TestAdvice leaves advice out unless it is asked for.
func TestAdvice(t *testing.T) {
	if r := read(t, "testdata/records", Options{}); r.Advice != 0 || r.Errors != 3 || len(r.Findings) != 3 {
		t.Errorf("%d errors, %d advice", r.Errors, r.Advice)
	}
	if r := read(t, "testdata/records", Options{Advice: true}); r.Advice != 1 || r.Errors != 3 || r.Findings[3].Name != "cq-too-small" {
		t.Errorf("%d errors, %d advice", r.Errors, r.Advice)
	}
}

// TestHostileFiles reads files as no library writes them.
func TestHostileFiles(t *testing.T) {
	const good = `{"id":1,"finding":"memory-freed","text":"x"}` + "\n"
	for name, c := range map[string]struct {
		text    string
		errors  int
		problem string // a part of one of the problems; "" for none
	}{
		"empty":         {"", 0, ""},
		"no end":        {strings.TrimSuffix(good, "\n"), 1, ""},
		"cut":           {good + `{"id":2,"find`, 1, "lines that are no records: 1"},
		"binary":        {"\x00\xff\xfe\n" + good, 1, "no records: 1"},
		"other types":   {`[]` + "\n" + `{"id":"x"}` + "\n" + `{"id":-1,"finding":"a"}` + "\n" + `{"process":7}` + "\n" + good, 1, "no records: 4"},
		"no finding":    {`{}` + "\n" + `null` + "\n" + good, 1, "no records: 2"},
		"deep":          {strings.Repeat("[", 100_000) + "\n" + good, 1, "no records: 1"},
		"twice":         {good + good, 1, "no records: 1"},
		"unknown count": {`{"id":7,"count":2}` + "\n" + good, 1, ""},
		"no process":    {good, 1, ""},
		"unknown name":  {`{"id":1,"finding":"new-thing"}` + "\n", 1, "the finding new-thing is not one that this version"},
		"long name":     {`{"id":1,"finding":"` + strings.Repeat("n", 9000) + `"}` + "\n", 1, "is not one that"},
		"null stacks":   {`{"id":1,"finding":"memory-freed","stacks":[{},{"frames":null},{"frames":[{}]}]}` + "\n", 1, ""},
		"huge numbers":  {`{"id":18446744073709551615,"finding":"memory-freed","time":-9223372036854775808,"stacks":[{"frames":[{"offset":18446744073709551615,"file":"/dev/zero"}]}]}` + "\n", 1, ""},
	} {
		r := read(t, records(t, c.text), Options{Advice: true})
		if r.Errors != c.errors || (c.problem == "") != (len(r.Problems) == 0) || c.problem != "" && !strings.Contains(strings.Join(r.Problems, "\n"), c.problem) {
			t.Errorf("%s: %d errors, %q; want %d, %q", name, r.Errors, r.Problems, c.errors, c.problem)
		}
		for _, write := range []func(b *bytes.Buffer) error{
			func(b *bytes.Buffer) error { return r.Text(b, false) }, func(b *bytes.Buffer) error { return r.JSON(b) },
			func(b *bytes.Buffer) error { return r.JUnit(b) }, func(b *bytes.Buffer) error { return r.SARIF(b, "/", "v1.2.3") },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil || b.Len() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestForeignFiles reads a directory in which other things are called like records.
func TestForeignFiles(t *testing.T) {
	dir := records(t, `{"id":1,"finding":"memory-freed"}`)
	must.Do(t, os.Mkdir(filepath.Join(dir, "d"+Suffix), 0o700))
	must.Do(t, os.Symlink("/dev/zero", filepath.Join(dir, "z"+Suffix)))
	must.Do(t, os.Symlink("/nowhere", filepath.Join(dir, "n"+Suffix)))
	must.Do(t, os.WriteFile(filepath.Join(dir, "other.txt"), []byte("x"), 0o600))
	if r := read(t, dir, Options{}); r.Errors != 1 || len(r.Processes) != 1 || len(r.Problems) != 3 {
		t.Errorf("%d errors, %d processes, %q", r.Errors, len(r.Processes), r.Problems)
	}
}

// TestRecordsAreBounded reads more lines, records, stacks and frames than the bounds allow.
func TestRecordsAreBounded(t *testing.T) {
	frames := `{"frames":[` + strings.Repeat(`{"offset":1},`, maxFrames+5) + `{"offset":1}]}`
	var many strings.Builder
	many.WriteString(`{"id":0,"finding":"memory-freed","stacks":[` + strings.Repeat(frames+",", maxStacks+5) + frames + "]}\n")
	many.WriteString(strings.Repeat(" ", 3*maxLine) + "\n")
	for i := range maxRecords + 5 {
		fmt.Fprintf(&many, "{\"id\":%d,\"finding\":\"memory-freed\",\"stacks\":[{\"title\":\"%d\"}]}\n", i+1, i)
	}
	r := read(t, records(t, many.String()), Options{})
	said := strings.Join(r.Problems, "\n")
	if len(r.Findings) != maxFindings || !strings.Contains(said, "more records than a report holds") || !strings.Contains(said, "no records: 1") || !strings.Contains(said, "findings beyond the first") {
		t.Errorf("%d findings, %q", len(r.Findings), r.Problems)
	}
	f := &recordFile{}
	must.Do(t, f.read(strings.NewReader(many.String())))
	if len(f.findings) != maxRecords || len(f.findings[0].Stacks) != maxStacks || len(f.findings[0].Stacks[0].Frames) != maxFrames {
		t.Errorf("%d records", len(f.findings))
	}
	f = &recordFile{}
	must.Do(t, f.read(bytes.NewReader(make([]byte, maxBytes+1))))
	if !f.more {
		t.Error("a file that is too long is read to its end")
	}
}

// TestTextsAreBounded reads long texts, of many processes with many problems.
func TestTextsAreBounded(t *testing.T) {
	long := strings.Repeat("x", maxPath+10)
	b, err := json.Marshal(findingRecord{ID: 1, Finding: "memory-freed", Text: long, Stacks: []stackRecord{{long, []frameRecord{{File: long, Symbol: long}, {File: "/" + long[:maxPath-1]}}}}})
	must.Do(t, err)
	texts := []string{string(b) + "\n{}"}
	for i := range maxProcesses + 3 {
		texts = append(texts, fmt.Sprintf("{\"process\":{\"pid\":%d,\"program\":%q}}\nx", i+1, long))
	}
	r := read(t, records(t, texts...), Options{})
	if len(r.Processes) != maxProcesses || len(r.Problems) != maxProblems {
		t.Errorf("%d processes, %d problems", len(r.Processes), len(r.Problems))
	}
	f := r.Findings[0]
	if len([]rune(f.Text)) != maxText || len([]rune(f.Stacks[0].Title)) != maxWord || len([]rune(r.Processes[5].Program)) != maxPath {
		t.Errorf("texts of %d, %d and %d", len(f.Text), len(f.Stacks[0].Title), len(r.Processes[5].Program))
	}
	var text bytes.Buffer
	f.PIDs = slices.Repeat([]int{1}, 50)
	must.Do(t, r.Text(&text, false))
	if want := fmt.Sprintf("and %d more", 50-maxListed); !strings.Contains(text.String(), want) {
		t.Errorf("the text has not %q", want)
	}
}

// TestCounts adds the counts of processes, up to the greatest number.
func TestCounts(t *testing.T) {
	const one = `{"id":1,"finding":"memory-freed"}` + "\n"
	r := read(t, records(t, one, one+`{"id":1,"count":5}`, one+`{"id":1,"count":5}`+"\n"+`{"id":1,"count":2}`), Options{})
	if len(r.Findings) != 1 || r.Findings[0].Count != 8 {
		t.Errorf("%+v", r.Findings)
	}
	r = read(t, records(t, one, one+`{"id":1,"count":18446744073709551615}`), Options{})
	if len(r.Findings) != 1 || r.Findings[0].Count != math.MaxUint64 {
		t.Errorf("%+v", r.Findings)
	}
}

// TestSourceLines reads a record with an address of a program, whose source lines are in all forms
// of the report.
func TestSourceLines(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err) // no compiler is installed
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "p q.c"), []byte("int sender(void)\n{\n\treturn 7;\n}\nint main(void)\n{\n\treturn sender();\n}\n"), 0o644))
	cmd := exec.CommandContext(t.Context(), "gcc", "-g", "-o", "prog", "p q.c")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	prog := filepath.Join(dir, "prog")
	f, err := elf.Open(prog)
	must.Do(t, err)
	defer f.Close()
	all, err := f.Symbols()
	must.Do(t, err)
	at := slices.IndexFunc(all, func(s elf.Symbol) bool { return s.Name == "sender" })
	line := fmt.Sprintf(`{"id":1,"finding":"memory-freed","stacks":[{"title":"posted here","frames":[{"file":"/nowhere","offset":9},{"file":%q,"offset":%d}]}]}`, prog, all[at].Value+4)
	r := read(t, records(t, line), Options{})
	var text, sarif, junit bytes.Buffer
	must.Do(t, r.Text(&text, false))
	must.Do(t, r.JUnit(&junit))
	must.Do(t, r.SARIF(&sarif, dir, "(devel)"))
	for _, s := range []string{text.String(), junit.String()} {
		if !strings.Contains(s, "#1  sender "+filepath.Join(dir, "p q.c")+":3\n") && !strings.Contains(s, "p q.c:3&#xA;") {
			t.Errorf("there is no source line in\n%s", s)
		}
	}
	if s := sarif.String(); !strings.Contains(s, `"uri": "p%20q.c"`) || !strings.Contains(s, `"startLine": 3`) || strings.Index(s, `"startLine": 3`) > strings.Index(s, `"stacks"`) {
		t.Errorf("there is no source line in\n%s", s)
	}
	for pattern, hidden := range map[string]int{"sender": 1, "send*": 1, "prog": 1, prog: 1, "end": 0, "*/prog": 0} {
		all, err := ReadSuppressions(strings.NewReader("memory-freed " + pattern))
		must.Do(t, err)
		if r := read(t, records(t, line), Options{Suppress: all}); r.Suppressed != hidden || r.Errors != 1-hidden {
			t.Errorf("%s hides %d", pattern, r.Suppressed)
		}
	}
}
