//go:build linux

// Package bugs runs programs in C, each with one bug, and checks what run --explain says about them. The
// programs are a client and a server, two processes, in program/bugs.c.
package bugs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/environ/setid"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// bugs are the bugs, by the argument of the program, with the verdict on each.
var bugs = []struct {
	name     string
	cause    string
	exactly  string // matches the reason, or where it happened if there is none; empty: there is none
	programs string // matches what the programs saw
}{
	{"wrong-rkey", "write-refused", `request refused: rkey: no region or window has the key 0x`, `^\S+ QP \S+: REM_ACCESS_ERR \(\d+\), wr_id 5$`},
	{"no-right", "write-refused", `region 0x\w+ \(registered by open_end\) has the rights LOCAL_WRITE\|REMOTE_READ, and the access needs REMOTE_WRITE`, `^\S+ QP \S+: REM_ACCESS_ERR \(\d+\), wr_id 5$`},
	{"beyond", "write-refused", `1024 bytes at 0x\w+ end 924 bytes beyond region 0x\w+ \(registered by open_end\), which has 100 bytes at 0x`, `^\S+ QP \S+: REM_ACCESS_ERR \(\d+\), wr_id 5$`},
	{"receive-too-small", "invalid-request", `SEND longer than the receive work request: at least 64 bytes, and the receive has 8`, `: REM_INV_REQ_ERR \(\d+\), wr_id 5; .*: LOC_LEN_ERR \(\d+\), wr_id 77$`},
	{"mtu-mismatch", "invalid-request", `4096 bytes of payload, and the path MTU of this side is 1024`, `: REM_INV_REQ_ERR \(\d+\), wr_id 5; .*: LOC_LEN_ERR \(\d+\), wr_id 77$`},
	{"not-in-rtr", "no-answer", `packet dropped: the queue pair is in INIT`, `: RETRY_EXC_ERR \(\d+\), wr_id 5$`},
	{"wrong-qpn", "no-answer", `packet dropped: the adapter has no such queue pair`, `: RETRY_EXC_ERR \(\d+\), wr_id 5$`},
	{"wrong-psn", "psn-ahead", `the first PSN that was sent is 0x001005`, `: RETRY_EXC_ERR \(\d+\), wr_id 5$`},
	{"lost-peer", "went-silent", `process \d+ ended, or closed the adapter, at .*, before the last packet`, `: RETRY_EXC_ERR \(\d+\), wr_id 6$`},
	{"rnr", "rnr-unresolved", `[23] RNR NAKs with a timer of 640µs`, `: RNR_RETRY_EXC_ERR \(\d+\), wr_id 5$`},
	{"late-receive", "rnr-wait", `came again .* after an RNR NAK with a timer of 640µs`, `^$`},
	{"bad-lkey", "completion-error", `completion with error LOC_PROT_ERR: wr_id 5; payload: no region or window has the key 0x`, `^$`},
	{"post-before-rts", "call-failed", `ibv_post_send: the queue pair is in RTR, and takes send requests from RTS on: invalid argument`, `^$`},
	{"cq-overrun", "cq-overrun", `asynchronous event: CQ_ERR, CQ \d`, `^$`},
}

// header is the header that compiling the program needs.
const header = "infiniband/verbs.h"

// TestMain removes what the tests have built.
func TestMain(m *testing.M) {
	code := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir) // it is in a directory for what is left
	}
	os.Exit(code)
}

// dir has what is built, once; empty before.
var dir string

// build builds the command, the libraries and the program, and returns the first and the last.
func build(t *testing.T) (command, program string) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	cc, err := libraries.Compiler()
	if err != nil {
		t.Skip(err) // the program is in C
	}
	has := exec.Command(cc, "-E", "-x", "c", "-")
	has.Stdin = strings.NewReader("#include <" + header + ">\n")
	if has.Run() != nil {
		t.Skipf("%s is missing: apt install libibverbs-dev", header) // as above
	}
	if dir != "" {
		return filepath.Join(dir, "softhca"), filepath.Join(dir, "bugs")
	}
	tree, ok := libraries.Tree()
	if !ok {
		t.Fatal(libraries.ErrNotFound)
	}
	dir, err = os.MkdirTemp("", "softhca-bugs-")
	must.Do(t, err)
	must.Do(t, libraries.Build(t.Context(), tree, dir, io.Discard))
	command, program = filepath.Join(dir, "softhca"), filepath.Join(dir, "bugs")
	for _, args := range [][]string{
		{"go", "build", libraries.NoVCS, "-o", command, "github.com/softhca/softhca/cmd/softhca"},
		{cc, libraries.Dialect, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", program, "program/bugs.c", "-libverbs"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	return command, program
}

// TestK3_BugsAreExplained runs each program with run --explain, which writes one capture of both sides. The
// verdict names the bug, and no two bugs have the same.
func TestK3_BugsAreExplained(t *testing.T) {
	command, program := build(t)
	for i, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			v, text := explainedRun(t, command, program, bug.name, i)
			// On a busy machine the adapter may repeat a packet before the peer's process has run.
			for n := 0; v.Cause == "timeout-repeat" && n < 3; n++ {
				v, text = explainedRun(t, command, program, bug.name, i)
			}
			exactly := v.Reason
			if exactly == "" {
				exactly = v.Where
			}
			if v.Cause != bug.cause || !regexp.MustCompile(bug.exactly).MatchString(exactly) || !regexp.MustCompile(bug.programs).MatchString(strings.Join(v.Programs, "; ")) {
				t.Errorf("the cause is %s, exactly %q, the programs saw %q; run printed\n%s", v.Cause, exactly, v.Programs, text)
			}
			if told := "VERDICT " + v.Outcome + ": " + v.Headline; !strings.Contains(unwrapped(string(text)), told) {
				t.Errorf("run printed\n%s\nwant %q", text, told)
			}
			for k, other := range bugs {
				if k != i && other.cause == v.Cause && regexp.MustCompile(other.exactly).MatchString(exactly) {
					t.Errorf("%q is also the verdict on %s", exactly, other.name)
				}
			}
		})
	}
}

// explainedRun runs a program with a bug, and returns the verdict and what was printed.
func explainedRun(t *testing.T, command, program, bug string, number int) (*explain.Verdict, []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "both.pcapng")
	run := exec.Command(command, "run", "--explain", "--capture", file, "--addr", fmt.Sprintf("127.0.78.%d", number+1), "--", program, bug)
	text, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return explained(t, command, file), text
}

// explained returns the verdict on a capture.
func explained(t *testing.T, command, file string) *explain.Verdict {
	t.Helper()
	out, err := exec.Command(command, "explain", "--json", file).Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatal(err)
	}
	var r struct{ Verdict explain.Verdict }
	must.Do(t, json.Unmarshal(out, &r))
	return &r.Verdict
}

// unwrapped returns a text with its lines joined.
func unwrapped(s string) string { return regexp.MustCompile(`\s+`).ReplaceAllString(s, " ") }

// TestExpectations runs programs with what the report must say.
func TestExpectations(t *testing.T) {
	command, program := build(t)
	for _, c := range []struct {
		bug  string
		args []string
		code int
		want string
	}{
		{"beyond", []string{"--expect", "REM_ACCESS_ERR", "--require-packets"}, 0, ""},
		{"beyond", []string{"--expect", "clean"}, 86, "--expect clean: failed: a WRITE was refused"},
		{"beyond", []string{"--expect", "RETRY_EXC_ERR"}, 86, "--expect RETRY_EXC_ERR: the programs got REM_ACCESS_ERR"},
		{"late-receive", []string{"--expect", "repaired"}, 0, ""},
		{"late-receive", []string{"--expect", "clean"}, 86, "--expect clean: repaired: "}, // a busy machine may cause another repeat, which comes first
		{"bad-lkey", []string{"--expect", "LOC_PROT_ERR"}, 0, ""},
		{"bad-lkey", []string{"--require-packets"}, 86, "no RoCEv2 packet passed"},
	} {
		args := append(append([]string{"run", "--explain", "--addr", "127.0.79.1"}, c.args...), "--", program, c.bug)
		out, err := exec.Command(command, args...).CombinedOutput()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: exit code %d, want %d\n%s", args[1:], code, c.code, out)
		}
	}
}

// TestK1_Check runs programs with run --check. Their bugs are not those of the checker's own programs, so a
// finding is one that the error completion or the refused call tells.
func TestK1_Check(t *testing.T) {
	command, program := build(t)
	for _, c := range []struct {
		bug, finding string
		flags        []string
		code         int
	}{
		{"bad-lkey", "key-unknown", nil, 0},
		{"beyond", "remote-access-error", nil, 0},
		{"beyond", "peer-access-refused", nil, 0},
		{"left", "error-never-polled", nil, 0},
		{"post-before-rts", "call-refused", nil, 0},
		{"receive-too-small", "remote-request-invalid", nil, 0},
		{"receive-too-small", "error-never-polled", nil, 0},
		{"bad-lkey", "key-unknown", []string{"--check=fatal"}, 86},
		{"bad-lkey", "key-unknown", []string{"--explain"}, 0},
		{"late-receive", "", nil, 0},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		args := append([]string{"run", "--check", "--report", file, "--addr", "127.0.80.1"}, c.flags...)
		out, err := exec.Command(command, append(args, "--", program, c.bug)...).CombinedOutput()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else {
			must.Do(t, err)
		}
		text, err := os.ReadFile(file)
		must.Do(t, err)
		r := new(check.Report)
		must.Do(t, json.Unmarshal(text, r))
		has := slices.ContainsFunc(r.Findings, func(f *check.Finding) bool {
			return f.Name == c.finding && slices.ContainsFunc(f.Stacks[0].Frames, func(f check.Frame) bool { return filepath.Base(f.File) == "bugs.c" && f.Line > 0 })
		})
		if code != c.code || has != (c.finding != "") || (c.finding == "" && len(r.Findings) > 0) || len(r.Processes) == 0 {
			t.Errorf("%q: exit code %d, want %d; want the finding %q\n%s", args[1:], code, c.code, c.finding, out)
		}
	}
}

// TestAnotherUser has root run programs that become another user, who has no access to root's secret:
// they open the adapter, and both sides exchange packets.
func TestAnotherUser(t *testing.T) {
	temp := setid.Dir(t)
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("no setpriv: install util-linux") // the program that becomes another user
	}
	command, program := build(t)
	must.Do(t, errors.Join(os.Chmod(filepath.Dir(command), 0o755), os.Chmod(temp, 0o777|os.ModeSticky)))
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", temp)
	user := fmt.Sprint(setid.Stranger)
	for bug, want := range map[string]string{"late-receive": "status success\n", "beyond": "status remote access error\n"} {
		cmd := exec.Command(command, "run", "--addr", "127.0.81.1", "--", "setpriv", "--reuid="+user, "--regid="+user, "--clear-groups", program, bug)
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%s: %v, want %q\n%s", bug, err, want, out)
		}
	}
}
