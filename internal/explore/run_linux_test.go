package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/fault/sites"
	"github.com/softhca/softhca/internal/must"
)

// actEnv makes this test program do what a program with an adapter does, in small: it registers memory once, and its value says what it
// does if that fails.
const actEnv = "EXPLORE_TEST_ACT"

func TestMain(m *testing.M) {
	if how := os.Getenv(actEnv); how != "" {
		os.Exit(act(how))
	}
	os.Exit(m.Run())
}

// act plays the program.
func act(how string) int {
	l, err := sites.Open(os.Getenv(sitesEnv))
	if err != nil {
		fmt.Println(err)
		return 9
	}
	l.Call("RegMR")
	rules, err := fault.Parse(os.Getenv(faultsEnv))
	if err != nil || len(rules) > 1 {
		return 9
	}
	if len(rules) == 0 || rules[0].Process() != l.Name() {
		return 0
	}
	l.Acted()
	switch how {
	case "crashes":
		_ = unix.Exec("/bin/sh", []string{"sh", "-c", "kill -SEGV $$"}, nil)
	case "hangs":
		_ = unix.Exec("/bin/sh", []string{"sh", "-c", "sleep 1000"}, nil)
	case "hangs in Go":
		select {}
	case "fails":
		fmt.Println("out of memory")
		return 3
	}
	return 0
}

// launcher returns the path of a command that starts programs as softhca run does, without libraries.
func launcher(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "softhca")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n[ \"$1 $2\" = 'run --' ] || exit 9\nshift 2\nexec \"$@\"\n"), 0o700))
	return path
}

// acting returns this test program as one to explore.
func acting(t *testing.T, how string) *Program {
	return &Program{Softhca: launcher(t), Args: []string{os.Args[0]}, Env: append(os.Environ(), actEnv+"="+how, faultsEnv+"=drop p=1")}
}

// TestExplore explores four programs: under the fault one ends well, one reports it, one crashes and one hangs.
func TestExplore(t *testing.T) {
	for how, want := range map[string]Verdict{"bears": Absorbed, "fails": Reported, "crashes": Crashed, "hangs": Hung} {
		p := acting(t, how)
		first, err := p.Record(t.Context())
		must.Do(t, err)
		var seen []string
		limit := time.Minute
		if want == Hung {
			limit = 3 * time.Second
		}
		r, err := p.Explore(t.Context(), first, Options{Limit: limit, Progress: func(r *Report, next *Fault) { seen = append(seen, next.Rule) }})
		must.Do(t, err)
		if r.Tried != 1 || r.Planned != 1 || len(r.Results) != 1 || r.Results[0].Verdict != want || r.Counts[want] != 1 {
			t.Errorf("a program that %s: %+v", how, r)
		}
		if !slices.Equal(seen, []string{r.Results[0].Rule}) {
			t.Errorf("progress named %q", seen)
		}
		if want == Hung && !strings.Contains(r.Results[0].Why, "still running: sleep") {
			t.Errorf("it hung, %s", r.Results[0].Why)
		}
		if s := r.Results[0].Stacks; (want == Hung) != (len(s) > 0 && s[0].Name == "sleep" && len(s[0].Threads) == 1) {
			t.Errorf("a program that %s has the stacks %+v", how, s)
		}
		var out bytes.Buffer
		again, err := p.Again(t.Context(), first, r.Results[0].Fault, Options{Limit: limit}, &out)
		must.Do(t, err)
		if again.Verdict != want || (how == "fails") != strings.Contains(out.String(), "out of memory") {
			t.Errorf("again: %+v, with the output %q", again, out.String())
		}
	}
}

// TestGoroutines lets a program in Go that hangs write its goroutines.
func TestGoroutines(t *testing.T) {
	p := acting(t, "hangs in Go")
	first, err := p.Record(t.Context())
	must.Do(t, err)
	var out bytes.Buffer
	f := Fault{Process: first.Processes[0].Name, Rule: "fail errno=ENOMEM nth=1 op=RegMR process=" + first.Processes[0].Name}
	r, err := p.Again(t.Context(), first, f, Options{Limit: time.Second}, &out)
	must.Do(t, err)
	if r.Verdict != Hung || len(r.Stacks) != 1 || len(r.Stacks[0].Threads) == 0 || r.Stacks[0].Problem != "" {
		t.Fatalf("%+v", r)
	}
	g := r.Stacks[0].Goroutines
	if !strings.HasPrefix(g, "SIGQUIT: quit\n") || !strings.Contains(g, "/explore.act(") || strings.Contains(g, "\nrip ") || len(g) > maxGoroutines {
		t.Errorf("the goroutines are\n%s", g)
	}
	if !strings.Contains(out.String(), "SIGQUIT: quit") || strings.Contains(r.Output, "SIGQUIT") {
		t.Errorf("the output is\n%s\nand its end\n%s", out.String(), r.Output)
	}
	var text bytes.Buffer
	report := &Report{Results: []Result{*r}}
	must.Do(t, report.Text(&text))
	if !strings.Contains(text.String(), "\n  process ") || !strings.Contains(text.String(), "\n    goroutines:\n") {
		t.Errorf("the report is\n%s", text.String())
	}
}

// TestGoroutinesAreBounded keeps a part of what a program writes about very many goroutines.
func TestGoroutinesAreBounded(t *testing.T) {
	o := new(output)
	fmt.Fprint(o, "before")
	o.dump()
	fmt.Fprint(o, "late\nSIGQUIT: quit\n")
	for i := range maxDump {
		fmt.Fprintf(o, "goroutine %d\n", i)
	}
	if g := goroutines(o.dumped()); len(g) != maxGoroutines || !strings.HasPrefix(g, "SIGQUIT: quit\ngoroutine 0\n") || o.size() != maxDump || string(o.tail.kept) != "before" {
		t.Errorf("%d of %d bytes: %s", len(g), o.size(), g[:100])
	}
	for text, want := range map[string]string{"": "", "quit": "", "SIGQUIT: quit\nx\n\nrax    0x1": "SIGQUIT: quit\nx", "SIGQUIT: quit\nr0      0x1": "SIGQUIT: quit"} {
		if got := goroutines(text); got != want {
			t.Errorf("%q has the goroutines %q", text, got)
		}
	}
}

// TestBudget stops when the time is up, and when the context ends.
func TestBudget(t *testing.T) {
	p := acting(t, "bears")
	first, err := p.Record(t.Context())
	must.Do(t, err)
	first.Processes[0].Calls[0].N = 1000
	all := Selection{All: true}
	r, err := p.Explore(t.Context(), first, Options{Selection: all, Budget: time.Nanosecond})
	must.Do(t, err)
	if r.Tried != 0 || r.Planned != 1000 {
		t.Errorf("without time %d of %d faults were tried", r.Tried, r.Planned)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err = p.Explore(ctx, first, Options{Selection: all, Progress: func(r *Report, _ *Fault) {
		if r.Tried == 2 {
			cancel()
		}
	}})
	must.Do(t, err)
	if r.Tried != 2 {
		t.Errorf("%d faults were tried before the end", r.Tried)
	}
}

// TestFirstRun refuses programs that cannot be explored.
func TestFirstRun(t *testing.T) {
	for _, c := range []struct {
		script, want string
	}{
		{"echo broken; exit 7", "it ended with exit code 7:\nbroken"},
		{"kill -KILL $$", "exit code 137"},
		{"true", "no process opened an adapter"},
	} {
		p := &Program{Softhca: launcher(t), Args: []string{"sh", "-c", c.script}, Env: os.Environ()}
		if _, err := p.Record(t.Context()); !errors.Is(err, ErrFirst) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.script, err)
		}
	}
	p := &Program{Softhca: filepath.Join(t.TempDir(), "missing"), Args: []string{"true"}}
	if _, err := p.Record(t.Context()); err == nil || errors.Is(err, ErrFirst) {
		t.Errorf("without the command: %v", err)
	}
}

// TestNothingIsLeft runs programs that leave processes behind, in other sessions and with the output open, and leaves
// no process and no directory.
func TestNothingIsLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, script := range []string{
		"sleep 1000 & exit 3",
		"setsid sleep 1000 & exit 3",
		"(setsid sh -c 'sleep 1000 & sleep 1000; true' &) ; exit 3",
	} {
		p := &Program{Softhca: launcher(t), Args: []string{"sh", "-c", script}, Env: os.Environ()}
		r, err := p.Run(t.Context(), nil, time.Minute, nil)
		must.Do(t, err)
		if r.Code != 3 || r.TimedOut {
			t.Errorf("%s: %+v", script, r)
		}
		if left, err := children(); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v, %v", script, left, err)
		}
	}
	var adopts int32
	must.Do(t, unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&adopts)), 0, 0, 0))
	if adopts != 0 {
		t.Error("orphans still become children of this process")
	}
	entries, err := filepath.Glob(filepath.Join(tmp, "softhca-explore-*"))
	must.Do(t, err)
	if len(entries) > 0 {
		t.Errorf("the runs leave %v", entries)
	}
}
