package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// findsSomething is a program that writes records as the library does: an error, and advice.
const findsSomething = `stat -c %a "$SOFTHCA_CHECK_DIR"; echo "$SOFTHCA_CHECK"
cat > "$SOFTHCA_CHECK_DIR/$$.jsonl" <<'END'
{"process":{"pid":1,"program":"/bin/sh"}}
{"id":1,"finding":"memory-freed","time":1,"tid":1,"text":"Facts.","stacks":[{"title":"freed here","frames":[{"file":"/nowhere/liba.so","offset":16,"symbol":"release","symbol_offset":1}]}]}
{"id":2,"finding":"cq-too-small","time":2,"tid":1,"text":"More facts.","stacks":[]}
END
`

// TestRunCheck runs programs with --check: the command reports what they wrote, and exits with their exit
// codes.
func TestRunCheck(t *testing.T) {
	i := install(t)
	dir := t.TempDir()
	t.Chdir(dir)
	must.Do(t, os.WriteFile("known.txt", []byte("memory-freed rel*\n"), 0o600))
	const head = "700\n"
	for _, c := range []struct {
		args []string
		code int
		out  string
		errs []string // parts of what is printed; after "not ", what must not be there
	}{
		{[]string{"--check", "--", "sh", "-c", findsSomething}, 0, head + "error\n",
			[]string{"softhca: check: error: memory-freed\n", "Facts.", "#0  release (liba.so+0x10)", "rule: ", "docs/checks.md#memory-freed", "softhca: check: 1 error\n", "not cq-too-small", "not \x1b"}},
		{[]string{"--check=advice", "--", "sh", "-c", findsSomething + "exit 7"}, 7, head + "advice\n",
			[]string{"memory-freed", "cq-too-small", "softhca: check: 1 error, 1 advice\n", "sh ended with exit code 7"}},
		{[]string{"--check=error,fatal", "--", "sh", "-c", findsSomething + "exit 86"}, 86, head + "error,fatal\n", []string{"softhca: check: 1 error\n"}},
		{[]string{"--check", "--suppress", "known.txt", "--", "sh", "-c", findsSomething}, 0, head + "error\n",
			[]string{"softhca: check: no findings (1 suppressed)\n", "not memory-freed"}},
		{[]string{"--check", "--", "true"}, 0, "", []string{"nothing was checked"}},
		{[]string{"--check", "--", "sh", "-c", `rm -r "$SOFTHCA_CHECK_DIR"`}, 125, "", []string{"softhca: run: check: ", "no such file"}},
		{[]string{"--check", "--", "sh", "-c", `rm -r "$SOFTHCA_CHECK_DIR"; exit 7`}, 7, "", []string{"softhca: run: check: ", "ended with exit code 7"}},
		{[]string{"--check", "--", "sh", "-c", "kill -TERM $$"}, 143, "", []string{"nothing was checked"}},
		{[]string{"--check", "--", "/no/such/program"}, 127, "", []string{"no such file", "not softhca: check"}},
		{[]string{"--check", "--explain", "--", "sh", "-c", findsSomething + "exit 3"}, 3, head + "error\n",
			[]string{"no packet passed", "softhca: check: 1 error\n", "exit code 3"}},
		{[]string{"--check", "--explain", "--require-packets", "--", "sh", "-c", findsSomething}, 86, head + "error\n",
			[]string{"softhca: check: 1 error\n", "--require-packets: no RoCEv2 packet passed"}},
		{[]string{"--check", "--capture", "x.pcapng", "--fault", "drop nth=1", "--", "sh", "-c", findsSomething + "echo ${SOFTHCA_CAPTURE##*/} $SOFTHCA_FAULTS"}, 0,
			head + "error\nx.pcapng drop nth=1\n", []string{"softhca: check: 1 error\n"}},
	} {
		state, out, errs := i.run(t, c.args...)
		if state.ExitCode() != c.code || out != c.out {
			t.Errorf("run %q: exit code %d, want %d\n%q, want %q\n%s", c.args, state.ExitCode(), c.code, out, c.out, errs)
		}
		for _, want := range c.errs {
			if not, absent := strings.CutPrefix(want, "not "); strings.Contains(errs, not) == absent {
				t.Errorf("run %q: want %s in\n%s", c.args, want, errs)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "softhca-*-*")); len(left) > 0 || err != nil {
		t.Errorf("%v is left behind; %v", left, err)
	}
}

// TestRunCheckReports writes the report to files of each format.
func TestRunCheckReports(t *testing.T) {
	i := install(t)
	t.Chdir(t.TempDir())
	state, _, errs := i.run(t, "--check", "--report", "a.json", "--report", "b.xml", "--report", "c.sarif", "--", "sh", "-c", findsSomething)
	if state.ExitCode() != 0 {
		t.Fatalf("%v: %s", state, errs)
	}
	for name, want := range map[string]string{"a.json": `"name": "memory-freed"`, "b.xml": `<testcase classname="softhca.check" name="memory-freed">`, "c.sarif": `"ruleId": "memory-freed"`} {
		b, err := os.ReadFile(name)
		must.Do(t, err)
		if !strings.Contains(string(b), want) {
			t.Errorf("%s has not %s:\n%s", name, want, b)
		}
	}
	// The directory of the file is there before the program runs, and gone when it has ended.
	for code, end := range map[int]string{125: "", 9: "; exit 9"} {
		must.Do(t, os.MkdirAll("d", 0o700))
		state, _, errs = i.run(t, "--check", "--report", "d/x.json", "--", "sh", "-c", "rmdir d"+end)
		if state.ExitCode() != code || !strings.Contains(errs, "run: --report d/x.json: no such file") {
			t.Errorf("%v: %s", state, errs)
		}
	}
}

// TestRunCheckOptions checks what is said about wrong options.
func TestRunCheckOptions(t *testing.T) {
	i := install(t)
	t.Chdir(t.TempDir())
	must.Do(t, errors.Join(os.WriteFile("wrong.txt", []byte("memory-fred x\n"), 0o600), os.WriteFile("w.json", []byte("old"), 0o600)))
	many := slices.Repeat([]string{"--report", "x.json"}, maxCheckFiles+1)
	for _, c := range []struct {
		args []string
		errs string
	}{
		{[]string{"--report", "x.json"}, "--report and --suppress are about the report of --check: add --check"},
		{[]string{"--suppress", "wrong.txt"}, "--report and --suppress are about the report of --check: add --check"},
		{[]string{"--check=advise"}, `--check=advise: "advise": want error, advice or fatal; did you mean advice?`},
		{[]string{"--check=error,"}, `--check=error,: "": want error, advice or fatal`},
		{[]string{"--check="}, "--check is empty"},
		{[]string{"--check", "--report", "x.html"}, "--report x.html: want a name that ends in .json, .xml or .sarif"},
		{[]string{"--check", "--report", "no/such/x.xml"}, "--report no/such/x.xml: no such file or directory"},
		{[]string{"--check", "--suppress", "none.txt"}, "--suppress none.txt: no such file or directory"},
		{[]string{"--check", "--suppress", "wrong.txt"}, "--suppress wrong.txt: line 1: there is no finding \"memory-fred\""},
		{append([]string{"--check"}, many...), "can be repeated 64 times at most"},
	} {
		state, out, errs := i.run(t, append(slices.Clone(c.args), "--report", "w.json", "--", "echo", "ran")...)
		if state.ExitCode() != 125 || out != "" || !strings.Contains(errs, c.errs) {
			t.Errorf("run %q: exit code %d, %q\n%s", c.args, state.ExitCode(), out, errs)
		}
	}
	if state, out, errs := i.run(t, "--check", "fatal", "--", "echo", "ran"); state.ExitCode() != 125 || out != "" || !strings.Contains(errs, "write --check=fatal, with =") {
		t.Errorf("%v, %q, %s", state, out, errs)
	}
	if b, err := os.ReadFile("w.json"); err != nil || string(b) != "old" {
		t.Errorf("a run that fails before the program starts writes a report: %q, %v", b, err)
	}
}
