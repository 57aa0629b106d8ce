//go:build linux && cgo

package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/explore"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/must"
)

// exploredProgram is the program with bugs in its error paths.
const exploredProgram = "explored"

// explored returns the program to explore, with the bug of a name.
func explored(t *testing.T, bug string) *explore.Program {
	t.Helper()
	b := newBuilds(t, "program", plain)
	dir := filepath.Join(b.dir, plain.name)
	program := filepath.Join(dir, exploredProgram)
	if !b.built(plain.name, exploredProgram) {
		run(t, "gcc", append(append(plain.compiler(), "-o", program), append(sources(t, exploredProgram), "-L"+dir, "-l:libibverbs.so.1")...)...)
	}
	launcher := filepath.Join(t.TempDir(), "softhca")
	text := "#!/bin/sh\nshift 2\nLD_LIBRARY_PATH='" + dir + "' exec \"$@\"\n"
	must.Do(t, os.WriteFile(launcher, []byte(text), 0o700))
	return &explore.Program{Softhca: launcher, Args: []string{program, bug}, Env: append(os.Environ(), "SOFTHCA_ADDR=127.0.0.9", "SOFTHCA_ENGINE="+filepath.Join(b.dir, engineFile))}
}

// TestExploreFindsBugs runs programs with a bug in their error path under the fault that shows it.
func TestExploreFindsBugs(t *testing.T) {
	for _, c := range []struct {
		bug, rule string
		want      explore.Verdict
		why       string
	}{
		{"none", "fail op=RegMR nth=1", explore.Reported, "exit code 1"},
		{"none", "wc RETRY_EXC_ERR op=SEND nth=3", explore.Reported, "exit code 1"},
		{"none", "wc RETRY_EXC_ERR op=SEND nth=5", explore.Unreached, ""},
		{"none", "fail op=RegMR nth=1 process=other.1", explore.Unreached, ""},
		{"retries", "fail op=RegMR nth=1", explore.Absorbed, ""},
		{"reopens", "fail op=AllocPD nth=1 process=explored.1", explore.Absorbed, ""},
		{"reopens", "fail op=AllocPD nth=2 process=explored.1", explore.Reported, "exit code 1"},
		{"unchecked", "fail op=RegMR nth=1", explore.Crashed, "signal 11"},
		{"waits", "wc LOC_PROT_ERR op=SEND nth=2", explore.Hung, "still running: explored"},
		{"forgets", "wc LOC_QP_OP_ERR op=SEND nth=5", explore.Lost, "never polled"},
		{"leaks", "fail op=CreateQP nth=2", explore.Broke, "objects-left-at-close"},
	} {
		p := explored(t, c.bug)
		first, err := p.Record(t.Context())
		must.Do(t, err)
		if first.Processes[0].Name != exploredProgram+".1" {
			t.Fatalf("the process is %s", first.Processes[0].Name)
		}
		rules, err := fault.Parse(c.rule)
		must.Do(t, err)
		o := explore.Options{Limit: time.Minute}
		if c.want == explore.Hung {
			o.Limit = 8 * time.Second
		}
		r, err := p.Again(t.Context(), first, explore.FaultOf(&rules[0]), o, nil)
		must.Do(t, err)
		if r.Verdict != c.want || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s under %s: %s, %s\n%s", c.bug, c.rule, r.Verdict, r.Why, r.Output)
		}
	}
}

// TestExploreShowsStacks runs programs that hang in several ways, and finds where each of their threads waits.
func TestExploreShowsStacks(t *testing.T) {
	for bug, want := range map[string][][]string{
		"waits":  {{"send_one", "main"}},
		"sleeps": {{"ibv_get_cq_event", "wait_for_event", "send_one", "main"}},
		"joins":  {{"wait_in_threads", "send_one", "main"}, {"read_nothing"}},
	} {
		p := explored(t, bug)
		first, err := p.Record(t.Context())
		must.Do(t, err)
		rules, err := fault.Parse("wc LOC_PROT_ERR op=SEND nth=2")
		must.Do(t, err)
		var r *explore.Result
		for limit := 4 * time.Second; ; limit *= 3 { // on a busy machine, the fault may not happen in the first limit
			r, err = p.Again(t.Context(), first, explore.FaultOf(&rules[0]), explore.Options{Limit: limit}, nil)
			must.Do(t, err)
			if r.Verdict != explore.Unreached || limit > 30*time.Second {
				break
			}
		}
		if r.Verdict != explore.Hung || len(r.Stacks) != 1 {
			t.Fatalf("%s: %s, with stacks of %d processes", bug, r.Verdict, len(r.Stacks))
		}
		s := &r.Stacks[0]
		var text strings.Builder
		s.Text(&text, "")
		if s.Name != exploredProgram || s.Problem != "" || s.Engine == 0 || len(s.Threads) != len(want) || len(s.QueuePairs) != 2 {
			t.Errorf("%s: the stacks are\n%s", bug, text.String())
			continue
		}
		for i, names := range want {
			var all []string
			for _, f := range s.Threads[i].Frames {
				all = append(all, f.Function)
			}
			if !slices.Equal(all[max(0, len(all)-len(names)):], names) {
				t.Errorf("%s: thread %d has the functions %q, want %q at the end", bug, i, all, names)
			}
		}
		if !strings.Contains(s.QueuePairs[0]+s.QueuePairs[1], "1 completed with an error, the last with LOC_PROT_ERR") {
			t.Errorf("%s: the queue pairs are %q", bug, s.QueuePairs)
		}
	}
}

// TestExploreCleanProgram explores a program without a bug until nothing is left: every fault happens, and none shows one.
func TestExploreCleanProgram(t *testing.T) {
	p := explored(t, "none")
	first, err := p.Record(t.Context())
	must.Do(t, err)
	r, err := p.Explore(t.Context(), first, explore.Options{Limit: time.Minute})
	must.Do(t, err)
	if r.Tried != r.Planned || r.Tried < 30 || r.Counts[explore.Reported] != r.Tried {
		t.Errorf("%d of %d tried: %v", r.Tried, r.Planned, r.Counts)
	}
	for i := range r.Results {
		if f := &r.Results[i]; f.Verdict != explore.Reported {
			t.Errorf("%s: %s %s\n%s", f.Rule, f.Verdict, f.Why, f.Output)
		}
	}
}
