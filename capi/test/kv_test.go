//go:build linux && cgo

package test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/explore"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

var kvFully = flag.Bool("kv-fully", false, "explore the example examples/kv with each of its seeded bugs under all failing calls and requests, in some minutes, and print the time")

// kvSources has the example that is a key-value server and its client.
const kvSources = "../../examples/kv"

// kvBug is a bug in an error path of the example: a text of a file that occurs there once, what replaces it, and the rule that shows the bug.
type kvBug struct {
	name, file, old, now string
	rule                 string
	want                 explore.Verdict
	why                  string // part of what explore says about the verdict
}

// kvBugs returns the bugs.
func kvBugs() []kvBug {
	return []kvBug{
		{"unchecked-registration", "server.c",
			"\t\tif (v->mr == NULL) {\n\t\t\tfailed(\"ibv_reg_mr\");\n\t\t\tfree(v);\n\t\t\treturn NULL;\n\t\t}\n", "",
			"fail errno=ENOMEM nth=12 op=RegMR process=server.1", explore.Crashed, "signal 11"},
		{"region-left", "server.c",
			"\tif (c->cq == NULL)\n\t\treturn failed(\"ibv_create_cq\");\n",
			"\tif (c->cq == NULL) {\n\t\tc->mr = NULL;\n\t\treturn failed(\"ibv_create_cq\");\n\t}\n",
			"fail errno=ENOMEM nth=1 op=CreateCQ process=server.1", explore.Broke, "destroy-refused: protection domain"},
		{"freed-before-flush", "client.c",
			"\tif (!check(ibv_post_send(id->qp, &send, &bad_send), \"ibv_post_send\"))\n\t\treturn false;\n",
			"\tif (!check(ibv_post_send(id->qp, &send, &bad_send), \"ibv_post_send\")) {\n\t\tfree(messages);\n\t\tmessages = NULL;\n\t\treturn false;\n\t}\n",
			"fail errno=ENOMEM nth=17 op=PostSend process=client.1", explore.Broke, "memory-freed: the program frees memory of a receive"},
		{"error-ignored", "server.c",
			"\t\t\tfailures = true;\n\t\t}\n\t\treturn false;\n\t}\n", "\t\t\tfailures = true;\n\t\t}\n\t}\n",
			"wc RETRY_EXC_ERR nth=32 op=SEND process=server.1", explore.Hung, "still running: server"},
		{"waits-forever", "server.c",
			"\twhile (c->posted > 0 && now() < deadline);\n", "\twhile (c->posted > 0);\n\t(void)deadline;\n",
			"fail errno=EINVAL nth=10 op=ModifyQP process=server.1", explore.Hung, "still running: server"},
		{"double-free", "client.c",
			"\treturn value_mr != NULL || failed(\"ibv_reg_mr\");\n",
			"\tif (value_mr == NULL) {\n\t\tfree(value);\n\t\treturn failed(\"ibv_reg_mr\");\n\t}\n\treturn true;\n",
			"fail errno=ENOMEM nth=2 op=RegMR process=client.1", explore.Crashed, "signal"},
		{"event-not-acknowledged", "server.c",
			"\tibv_ack_cq_events(cq, 1);\n\tstruct connection *c = context;\n\tif (c->closing)\n\t\treturn true; // the queue could not be destroyed\n\tif (!check(ibv_req_notify_cq(cq, 0), \"ibv_req_notify_cq\") || !poll_all(c)) {\n",
			"\tstruct connection *c = context;\n\tbool armed = check(ibv_req_notify_cq(cq, 0), \"ibv_req_notify_cq\");\n" +
				"\tif (armed)\n\t\tibv_ack_cq_events(cq, 1);\n\tif (!armed || !poll_all(c)) {\n",
			"fail errno=EINVAL nth=20 op=ReqNotify process=server.1", explore.Hung, "still running: server"},
		{"wrong-order", "server.c",
			"\tif (c->id->qp != NULL)\n\t\trdma_destroy_qp(c->id);\n",
			"\tif (!c->accepted)\n\t\tok = destroy_cq(&c->cq) && ok;\n\tif (c->id->qp != NULL)\n\t\trdma_destroy_qp(c->id);\n",
			"fail errno=ENOMEM nth=2 op=PostRecv process=server.1", explore.Broke, "destroy-refused: completion queue"},
		{"used-after-destroy", "server.c",
			"!poll_all(c)) {\n\t\tfailures = true;\n\t\tclose_connection(c);\n", "!poll_all(c)) {\n\t\tfailures = true;\n\t\tclose_connection(c);\n\t\tpoll_all(c);\n",
			"fail errno=EINVAL nth=20 op=ReqNotify process=server.1", explore.Crashed, "signal"},
		{"exit-code-0", "client.c",
			"\tfor (unsigned spins = 1; posted > 0; spins++) {\n",
			"\twhile (*(volatile uint32_t *)&messages->response.sequence == 0)\n\t\tif (now() >= deadline)\n\t\t\texit(0);\n" +
				"\tfor (unsigned spins = 1; posted > 0; spins++) {\n",
			"wc LOC_LEN_ERR nth=17 op=SEND process=client.1", explore.Lost, "never polled"},
	}
}

// buildKV builds the example into a new directory, and returns it.
func buildKV(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"common.h", "common.c", "server.c", "client.c", "test.sh"} {
		text, err := os.ReadFile(filepath.Join(kvSources, name))
		must.Do(t, err)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	compileKV(t, dir, "server.c", flags...)
	compileKV(t, dir, "client.c", flags...)
	return dir
}

// compileKV compiles one of the two programs.
func compileKV(t *testing.T, dir, file string, flags ...string) {
	t.Helper()
	args := []string{libraries.Dialect, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", filepath.Join(dir, strings.TrimSuffix(file, ".c"))}
	run(t, "gcc", append(append(args, filepath.Join(dir, file), filepath.Join(dir, "common.c"), "-lrdmacm"), flags...)...)
}

// seed copies the example in a directory to a new one, builds it with the bug, and returns its directory.
func (b *kvBug) seed(t *testing.T, from string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(from)))
	path := filepath.Join(dir, b.file)
	text, err := os.ReadFile(path)
	must.Do(t, err)
	if n := strings.Count(string(text), b.old); n != 1 {
		t.Fatalf("%s: the text to replace occurs %d times in %s, want once:\n%s", b.name, n, b.file, b.old)
	}
	must.Do(t, os.WriteFile(path, []byte(strings.Replace(string(text), b.old, b.now, 1)), 0o600))
	compileKV(t, dir, b.file, flags...)
	return dir
}

// needsCM skips the test on a machine where programs for librdmacm cannot be built.
func needsCM(t *testing.T) {
	t.Helper()
	if !compiles("#include <rdma/rdma_cma.h>\n", "-E") {
		t.Skip("no headers of librdmacm: install librdmacm-dev (Debian, Ubuntu) or rdma-core-devel (Fedora)") // it is not ours
	}
}

// TestExploreKV runs the example with each bug under the rule that shows it, and without a bug under the same rule.
func TestExploreKV(t *testing.T) {
	b := newBuilds(t, "program", plain)
	needsCM(t)
	plainDir := filepath.Join(b.dir, plain.name)
	must.Do(t, libraries.BuildOne(t.Context(), "../..", plainDir, libraries.Memory))
	launcher := filepath.Join(t.TempDir(), "softhca")
	text := "#!/bin/sh\nshift 2\nLD_PRELOAD=\"" + filepath.Join(plainDir, libraries.Memory) + " $LD_PRELOAD\" exec \"$@\"\n"
	must.Do(t, os.WriteFile(launcher, []byte(text), 0o700))
	s := &stand{builds: b, variant: plain}
	env := append(os.Environ(), s.over(t, s.addresses(1))...)
	link := []string{"-L" + plainDir, "-l:libibverbs.so.1"}
	dir := buildKV(t, link...)
	program := func(dir string) *explore.Program {
		return &explore.Program{Softhca: launcher, Args: []string{"sh", filepath.Join(dir, "test.sh")}, Env: env}
	}
	right := program(dir)
	first, err := right.Record(t.Context())
	must.Do(t, err)
	tried := map[string]bool{} // the rules under which the example without a bug was run
	for _, bug := range kvBugs() {
		t.Run(bug.name, func(t *testing.T) {
			rules, err := fault.Parse(bug.rule)
			must.Do(t, err)
			o := explore.Options{Limit: time.Minute}
			if !tried[bug.rule] {
				r, err := right.Again(t.Context(), first, explore.FaultOf(&rules[0]), o, nil)
				must.Do(t, err)
				if r.Verdict.Finding() || r.Verdict == explore.Unreached {
					t.Errorf("without the bug: %s, %s\n%s", r.Verdict, r.Why, r.Output)
				}
				tried[bug.rule] = true
			}
			if bug.want == explore.Hung {
				o.Limit = max(2*time.Second, 4*first.Duration) // the fault happens earlier
			}
			r, err := program(bug.seed(t, dir, link...)).Again(t.Context(), first, explore.FaultOf(&rules[0]), o, nil)
			must.Do(t, err)
			if r.Verdict != bug.want || !strings.Contains(r.Why, bug.why) {
				t.Errorf("with the bug: %s, %s; want %s, %s\n%s", r.Verdict, r.Why, bug.want, bug.why, r.Output)
			}
		})
	}
}

// mostTime bounds the time in which explore finds all bugs, on two processors.
const mostTime = 5 * time.Minute

// TestExploreKVFully explores the example with each bug, until it is found, and then without one, under all faults of the kinds that its bugs need,
// as users do.
func TestExploreKVFully(t *testing.T) {
	if !*kvFully {
		t.Skip("without -kv-fully") // it takes minutes
	}
	needsCM(t)
	root := t.TempDir()
	command := filepath.Join(root, "bin", "softhca")
	run(t, "go", "build", libraries.NoVCS, "-o", command, "../../cmd/softhca")
	must.Do(t, libraries.Build(t.Context(), "../..", filepath.Join(root, "lib", "softhca"), os.Stderr))
	dir := buildKV(t, "-libverbs")
	begin := time.Now()
	t.Run("bugs", func(t *testing.T) {
		for _, bug := range kvBugs() {
			t.Run(bug.name, func(t *testing.T) {
				if r := exploreKV(t, command, bug.seed(t, dir, "-libverbs"), "--fail-fast", "--limit", "3s"); r.Findings() == 0 { // many runs with a bug hang
					t.Errorf("no finding: %v", r.Counts)
				}
			})
		}
	})
	t.Logf("all bugs are found in %v", time.Since(begin).Round(time.Second))
	if took := time.Since(begin); took > mostTime {
		t.Errorf("the bugs are found in %v", took)
	}
	if r := exploreKV(t, command, dir); r.Findings() > 0 || r.Tried != r.Planned || r.Tried < 100 {
		t.Errorf("%d findings without a bug, and %d of %d tried: %v", r.Findings(), r.Tried, r.Planned, r.Counts)
	}
}

// exploreKV explores the example in a directory with the command.
func exploreKV(t *testing.T, command, dir string, flags ...string) *explore.Report {
	t.Helper()
	report, begin := filepath.Join(t.TempDir(), "report.json"), time.Now()
	args := append([]string{"explore", "--only", "call,wc", "--jobs", "2", "--json", report}, flags...)
	out, err := exec.CommandContext(t.Context(), command, append(args, "--", "sh", filepath.Join(dir, "test.sh"))...).CombinedOutput()
	t.Logf("%v after %v\n%s", err, time.Since(begin).Round(time.Second), out)
	text, err := os.ReadFile(report)
	must.Do(t, err)
	r := new(explore.Report)
	must.Do(t, json.Unmarshal(text, r))
	return r
}
