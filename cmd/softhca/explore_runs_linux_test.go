package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/explore"
	"github.com/softhca/softhca/internal/must"
)

// allocates is a program that counts a call of AllocPD, or COUNT calls, as an adapter does, and fails as its argument says if a fault is asked for. Its
// file has the layout of internal/fault/sites.
const allocates = `zeros() { head -c "$1" /dev/zero; }
acted='\000'
[ -z "$SOFTHCA_FAULTS" ] || acted='\001'
{ printf a-sites2; zeros 16; printf $acted; zeros 231; printf "${COUNT:-\\001}"; zeros 7935; } > "$SOFTHCA_SITES/prog.1.sites"
echo "run with $SOFTHCA_CHECK and <$SOFTHCA_FAULTS>"
[ -z "$SOFTHCA_FAULTS" ] || eval "$1"
`

// explore runs the installed command.
func (i *installation) explore(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), i.command, append([]string{"explore"}, args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its state has the exit code
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestExploreCommand explores programs: what is printed, and the exit code.
func TestExploreCommand(t *testing.T) {
	i := install(t)
	t.Chdir(t.TempDir())
	const rule = "fail errno=ENOMEM nth=1 op=AllocPD process=prog.1"
	prog := func(how string, flags ...string) []string {
		return append(flags, "--", "sh", "-c", allocates, "sh", how)
	}
	for _, c := range []struct {
		args []string
		code int
		out  []string // parts of the standard output; after "not ", what must not be there
		errs string   // a part of the standard error output
	}{
		{prog("exit 3"), 0, []string{"1 of 1 faults tried in ", ", in prog.1\n     1 reported   the program ended with an error\n", "not again:"}, ""},
		{prog(":"), 0, []string{"     1 absorbed   the program ended well\n"}, ""},
		{prog("kill -SEGV $$"), 1, []string{
			"crashed: prog.1: call of AllocPD 1 of 1 fails with ENOMEM\n  signal 11 (segmentation fault)\n",
			"  | run with error and <" + rule + ">\n", "  again: softhca explore --replay '" + rule + "' -- sh -c '", "     1 crashed    a signal"}, "explore: 1 finding\n"},
		{prog("sleep 1000", "--limit", "1s"), 1, []string{"hung: prog.1: call", "still running: sleep\n"}, "explore: 1 finding\n"},
		{prog(":", "--only", "wc"), 0, []string{"0 of 0 faults tried"}, ""},
		{prog(":", "--list"), 0, []string{rule + "\n"}, ""},
		{prog(":", "--list", "--only", "wc"), 0, []string{"not fail"}, ""},
		{prog("exit 3", "--replay", rule), 0, []string{"run with error and <" + rule + ">\n", "reported: exit code 3\n"}, ""},
		{prog("kill -ABRT $$", "--replay", rule), 1, []string{"crashed: signal 6 (aborted)\n"}, "explore: crashed: makes the 1st call of AllocPD in process prog.1 fail with ENOMEM\n"},
		{[]string{"--", "true"}, 1, nil, "explore: the program must end well without a fault; it did, but no process opened an adapter, so nothing can fail\n"},
		{[]string{"--", "sh", "-c", "echo why; exit 7"}, 1, nil, "\nwhy\n"},
		{[]string{"--", "/no/such/program"}, 1, nil, "it ended with exit code 127:\n"},
		{nil, 2, nil, "softhca explore needs a program to run"},
		{[]string{"--only", "call,cw", "--", "true"}, 2, nil, `--only: "cw": want call, wc, cm, packet, rnr, event or process; did you mean wc or cm?`},
		{[]string{"--limit", "-1s", "--", "true"}, 2, nil, "--limit -1s: a time is not negative"},
		{[]string{"--replay", "fial op=RegMR", "--", "true"}, 2, nil, "did you mean fail?"},
		{[]string{"--replay", "drop; drop", "--", "true"}, 2, nil, "--replay: want one fault"},
		{[]string{"--json", "-", "--replay", rule, "--", "true"}, 2, nil, "exclude each other"},
		{[]string{"--list", "--replay", rule, "--", "true"}, 2, nil, "exclude each other"},
		{[]string{"--list", "--html", "x.html", "--", "true"}, 2, nil, "exclude each other"},
		{[]string{"--junit", "-", "--", "true"}, 2, nil, "--junit and --html need the name of a file"},
		{[]string{"--resume", "no/such.json", "--", "true"}, 1, nil, "--resume: open no/such.json: no such file or directory"},
		{[]string{"--baseline", "/dev/null", "--", "true"}, 1, nil, "--baseline: /dev/null: not a report of softhca explore --json"},
		{prog(":", "--oracle", "true"), 0, []string{"     1 absorbed "}, ""},
		{prog("touch lost", "--oracle", "[ ! -f lost ] || { rm lost; echo one is lost; exit 5; }"), 1, []string{"lost: prog.1: call", "  the oracle said no: exit code 5: one is lost\n", "  again: softhca explore --oracle '[ ! -f lost ]"}, "explore: 1 finding\n"},
		{prog(":", "--oracle", "echo wrong; false"), 1, nil, "the program must end well without a fault, and so must the oracle say; it said no: exit code 1: wrong"},
	} {
		code, out, errs := i.explore(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
			t.Errorf("%q: exit code %d, want %d\n%s\n%s", c.args, code, c.code, out, errs)
		}
		for _, want := range c.out {
			if not, absent := strings.CutPrefix(want, "not "); strings.Contains(out, not) == absent {
				t.Errorf("%q: want %s in\n%s", c.args, want, out)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "softhca-*-*")); len(left) > 0 || err != nil {
		t.Errorf("%v is left behind; %v", left, err)
	}
}

// TestExploreJobs runs a program side by side, each time in a network that has only a loopback interface.
func TestExploreJobs(t *testing.T) {
	i := install(t)
	t.Chdir(t.TempDir())
	t.Setenv("COUNT", `\003`)
	probe := `ls /sys/class/net >/dev/null; grep : /proc/net/dev | cut -d: -f1 > net$SOFTHCA_JOB; i=0; : > busy$SOFTHCA_JOB; until [ -e met ] || [ $i = 300 ]; do [ $(ls busy* | wc -l) -lt 2 ] || : > met; sleep 0.1; i=$((i+1)); done; exit 3`
	code, out, errs := i.explore(t, "--jobs", "2", "--", "sh", "-c", allocates, "sh", probe)
	if strings.Contains(errs, "namespace") {
		t.Skip(errs) // containers and hardened kernels forbid namespaces
	}
	if code != 0 || !strings.Contains(out, "3 of 3 faults tried") || !strings.Contains(out, "     3 reported") {
		t.Fatalf("%d\n%s\n%s", code, out, errs)
	}
	for _, n := range []string{"net1", "net2"} {
		b, err := os.ReadFile(n)
		if must.Do(t, err); strings.TrimSpace(string(b)) != "lo" {
			t.Errorf("%s: %q", n, b)
		}
	}
	if _, err := os.Stat("met"); err != nil {
		t.Errorf("no two runs were side by side: %v", err)
	}
	if code, out, errs = i.explore(t, "--fail-fast", "--", "sh", "-c", allocates, "sh", "kill -SEGV $$"); code != 1 || !strings.Contains(out, "1 of 3 faults tried") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	code, _, errs = i.explore(t, "--jobs", "2", "--", "sh", "-c", "echo why; exit 7")
	if code != 1 || !strings.Contains(errs, "\nwhy\n") {
		t.Errorf("%d\n%s", code, errs)
	}
	for _, n := range []string{"0", "65"} {
		if code, _, errs := i.explore(t, "--jobs", n, "--", "true"); code != 2 || !strings.Contains(errs, "--jobs: want a number from 1 to 64") {
			t.Errorf("%d\n%s", code, errs)
		}
	}
}

// TestExploreIsKilled kills explore while programs run side by side: they end, too.
func TestExploreIsKilled(t *testing.T) {
	i := install(t)
	t.Chdir(t.TempDir())
	t.Setenv("COUNT", `\003`)
	cmd := exec.CommandContext(t.Context(), i.command, "explore", "--jobs", "2", "--", "sh", "-c", allocates, "sh", "mkfifo fifo$SOFTHCA_JOB; mv fifo$SOFTHCA_JOB ready$SOFTHCA_JOB; exec sleep 1000 3> ready$SOFTHCA_JOB")
	var errs strings.Builder
	cmd.Stderr = &errs
	must.Do(t, cmd.Start())
	for _, n := range []string{"ready1", "ready2"} {
		for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
			if _, err := os.Stat(n); err == nil {
				break
			} else if time.Now().After(end) {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if strings.Contains(errs.String(), "namespace") {
					t.Skip(errs.String()) // containers and hardened kernels forbid namespaces
				}
				t.Fatalf("%s is missing: %s", n, errs.String())
			}
		}
	}
	one, err := os.Open("ready1") // it opens when the program has opened the other end
	must.Do(t, err)
	defer one.Close()
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	must.Do(t, one.SetReadDeadline(time.Now().Add(30*time.Second)))
	if b, err := io.ReadAll(one); err != nil { // it ends when the program has ended
		t.Errorf("a program goes on: %q, %v", b, err)
	}
}

// TestExploreJSON writes the report and the list as JSON.
func TestExploreJSON(t *testing.T) {
	i := install(t)
	t.Chdir(t.TempDir())
	for _, to := range []string{"-", "x.json"} {
		code, out, errs := i.explore(t, "--json", to, "--", "sh", "-c", allocates, "sh", "exit 3")
		if code != 0 || (to == "-") == strings.Contains(out, "faults tried") {
			t.Errorf("%d\n%s\n%s", code, out, errs)
		}
		if to != "-" {
			b, err := os.ReadFile(to)
			must.Do(t, err)
			out = string(b)
		}
		var r explore.Report
		must.Do(t, json.Unmarshal([]byte(out), &r))
		if r.Tried != 1 || r.Results[0].Verdict != explore.Reported || r.Results[0].Code != 3 {
			t.Errorf("%+v", r)
		}
		code, out, errs = i.explore(t, "--list", "--json", "-", "--", "sh", "-c", allocates, "sh", ":")
		var faults []explore.Fault
		must.Do(t, json.Unmarshal([]byte(out), &faults))
		if code != 0 || len(faults) != 1 || faults[0].What != "AllocPD" || faults[0].Of != 1 {
			t.Errorf("%d\n%s\n%s", code, out, errs)
		}
	}
	code, _, errs := i.explore(t, "--json", "no/such/x.json", "--", "sh", "-c", allocates, "sh", ":")
	if code != 1 || !strings.Contains(errs, "no/such/x.json: no such file or directory") {
		t.Errorf("%d\n%s", code, errs)
	}
}

// TestExploreReports writes the report as JUnit does and as a page, takes it as a baseline, and continues it.
func TestExploreReports(t *testing.T) {
	i := install(t)
	t.Chdir(t.TempDir())
	run := func(want int, how string, flags ...string) (string, explore.Report) {
		t.Helper()
		code, out, errs := i.explore(t, append(append([]string{"--json", "x.json"}, flags...), "--", "sh", "-c", allocates, "sh", how)...)
		if code != want {
			t.Errorf("%q: exit code %d, want %d\n%s\n%s", flags, code, want, out, errs)
		}
		b, err := os.ReadFile("x.json")
		must.Do(t, err)
		var r explore.Report
		must.Do(t, json.Unmarshal(b, &r))
		return out, r
	}
	const twice = `[ -f seen ] || kill -SEGV $$; exit 3`
	out, r := run(1, twice, "--junit", "x.xml", "--html", "x.html")
	if r.Rate <= 0 || r.Sites != 1 || !strings.Contains(out, " runs a minute\n") {
		t.Errorf("%+v\n%s", r, out)
	}
	for name, want := range map[string]string{"x.xml": `<testsuite name="prog.1" tests="1" failures="1"`, "x.html": "<h1>1 finding in 1 fault of 1</h1>"} {
		if b, err := os.ReadFile(name); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s has not %s: %v", name, want, err)
		}
	}
	must.Do(t, os.Rename("x.json", "old.json"))
	out, r = run(0, twice, "--baseline", "old.json")
	if !strings.Contains(out, "findings compared with old.json: 0 new, 0 worse, 1 the same, 0 gone\n") || r.Baseline == nil || r.Baseline.Same != 1 {
		t.Errorf("%+v\n%s", r.Baseline, out)
	}
	// The program would crash no more, but its fault was tried before.
	must.Do(t, os.WriteFile("seen", nil, 0o600))
	out, r = run(1, twice, "--resume", "old.json")
	if r.Tried != 1 || r.Planned != 1 || r.Results[0].Verdict != explore.Crashed || r.Rate != 0 || strings.Contains(out, "runs a minute") {
		t.Errorf("%+v\n%s", r, out)
	}
	out, r = run(0, twice, "--baseline", "old.json")
	if !strings.Contains(out, "gone: prog.1: call of AllocPD 1 of 1 fails with ENOMEM: reported, was crashed\n") || len(r.Baseline.Gone) != 1 {
		t.Errorf("%+v\n%s", r.Baseline, out)
	}
	must.Do(t, os.Rename("x.json", "good.json"))
	must.Do(t, os.Remove("seen"))
	_, r = run(1, twice, "--baseline", "good.json")
	if len(r.Baseline.New) != 1 {
		t.Errorf("%+v", r.Baseline)
	}
	code, _, errs := i.explore(t, "--resume", "old.json", "--", "sh", "-c", "another program")
	if code != 1 || !strings.Contains(errs, "--resume: old.json: the report is of another program") {
		t.Errorf("%d\n%s", code, errs)
	}
}

// TestExploreInterrupted ends an exploration by Ctrl-C: the report has the faults that were tried, and the exploration can be continued.
func TestExploreInterrupted(t *testing.T) {
	i := install(t)
	t.Chdir(t.TempDir())
	// Three calls; the second fault finds a file and waits for the end of the world.
	t.Setenv("COUNT", `\003`)
	const how = `if [ -f once ] && [ ! -f go ]; then touch waits; exec sleep 1000; fi; touch once`
	args := []string{"explore", "--limit", "60s", "--json", "x.json", "--", "sh", "-c", allocates, "sh", how}
	cmd := exec.CommandContext(t.Context(), i.command, args...)
	must.Do(t, cmd.Start())
	for end := time.Now().Add(30 * time.Second); ; {
		if _, err := os.Stat("waits"); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the second fault was not tried within 30 s")
		}
		<-time.After(5 * time.Millisecond)
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // its state has the exit code
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("after Ctrl-C the exit code is %d", code)
	}
	load := func() (r explore.Report) {
		t.Helper()
		b, err := os.ReadFile("x.json")
		must.Do(t, err)
		must.Do(t, json.Unmarshal(b, &r))
		return r
	}
	if r := load(); r.Tried != 1 || len(r.Results) != 1 || r.Planned != 3 || r.Results[0].Verdict != explore.Absorbed {
		t.Fatalf("after Ctrl-C: %+v", r)
	}
	must.Do(t, os.WriteFile("go", nil, 0o600))
	code, out, errs := i.explore(t, append([]string{"--resume", "x.json"}, args[1:]...)...)
	if r := load(); code != 0 || r.Tried != 3 || r.Planned != 3 || r.Counts[explore.Absorbed] != 3 || r.Results[0].Rule == r.Results[1].Rule {
		t.Errorf("continued: %d, %+v\n%s\n%s", code, r, out, errs)
	}
}
