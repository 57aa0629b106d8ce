//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// soon is far less than the run time of the programs that are killed here.
const soon = time.Minute

// TestProgramIsKilled runs programs that do not exit, or that leave children which do not end
// and hold the output open. Waiting for each takes bounded time, no process is left, and the
// error says what was killed.
func TestProgramIsKilled(t *testing.T) {
	for _, c := range []struct {
		what, script string
		time         time.Duration
		says         string
	}{
		{"it does not end", "sleep 1000 & echo $!; wait", time.Second, "did not end, and was killed"},
		{"it does not end, and takes no notice", "trap '' TERM INT HUP; sleep 1000 & echo $!; wait", time.Second, "did not end, and was killed"},
		{"its child does not", "sleep 1000 & echo $!", soon, "was killed"},
		{"it does not end, nor does its child in a session of its own", "setsid sleep 1000 & echo $!; wait", time.Second, "did not end, and was killed"},
		{"its child in a session of its own does not", "setsid sleep 1000 & echo $!", soon, "was killed"},
		{"it fails, and its child does not", "sleep 1000 & echo $!; exit 3", soon, "exit status 3"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), c.time)
			defer cancel()
			var said bytes.Buffer
			began := time.Now()
			err := newProgram(ctx, &said, "sh", "-c", c.script).Run()
			if took := time.Since(began); took > soon/2 {
				t.Errorf("that took %v", took)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error %v does not say %q", err, c.says)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(said.String()))
			must.Do(t, err)
			await := time.NewTicker(time.Millisecond)
			defer await.Stop()
			for !dead(t, pid) {
				if <-await.C; time.Since(began) > soon {
					t.Fatalf("process %d, which it started, goes on", pid)
				}
			}
		})
	}
}

// TestLastLines: the report of a failure has the last twelve lines of an output. Blank lines
// at its end do not count, and equal lines in a row count as one.
func TestLastLines(t *testing.T) {
	var out, want []string
	for i := range 20 {
		out = append(out, strconv.Itoa(i))
	}
	want = out[8:]
	for _, c := range []struct{ out, want string }{
		{"", ""}, {"one\n", "one"}, {"one\ntwo\n\n", "one | two"},
		{"why\n" + strings.Repeat("flushed\n", 16), "why | flushed (16 times)"}, {"one\none\ntwo\none\n", "one (2 times) | two | one"},
		{strings.Join(out, "\n") + "\n\n", strings.Join(want, " | ")},
	} {
		if got := last(c.out); got != c.want {
			t.Errorf("%q: %q, want %q", c.out, got, c.want)
		}
	}
}

// dead reports whether a process has ended.
func dead(t *testing.T, pid int) bool {
	t.Helper()
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return len(state) == 0 || strings.HasPrefix(string(state), "Z")
}

// TestProgramEnds runs programs that end by themselves.
func TestProgramEnds(t *testing.T) {
	var said bytes.Buffer
	if err := newProgram(t.Context(), &said, "sh", "-c", "echo well").Run(); err != nil || said.String() != "well\n" {
		t.Errorf("%q and %v", said.String(), err)
	}
	var status *exec.ExitError
	if err := newProgram(t.Context(), &said, "sh", "-c", "exit 3").Run(); !errors.As(err, &status) || status.ExitCode() != 3 {
		t.Errorf("a program that fails: %v", err)
	}
	if err := newProgram(t.Context(), &said, "sh", "-c", "kill -SEGV $$").Run(); !errors.As(err, &status) || status.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSEGV {
		t.Errorf("a program that crashes: %v", err)
	}
}

// TestServerEnds ends servers after their clients. A server that crashes or fails
// fails its case, even if its client succeeded.
func TestServerEnds(t *testing.T) {
	failed := errors.New("the client's")
	for _, c := range []struct {
		what, script string
		stays        bool
		client       error
		says         string // nothing: it ended as it should
	}{
		{"it ends well", "exit 0", false, nil, ""},
		{"it fails", "exit 3", false, nil, "exit status 3"},
		{"it crashes", "kill -SEGV $$", false, nil, "segmentation fault"},
		{"it stays", "sleep 1000", true, nil, ""},
		{"it is to stay, and ends", "exit 0", true, nil, "was to serve other clients: exit status 0"},
		{"it is to stay, and crashes", "kill -SEGV $$", true, nil, "was to serve other clients: signal: segmentation fault"},
		{"it is to stay, and is killed", "kill -KILL $$", true, nil, "was to serve other clients: signal: killed"},
		{"its client failed", "sleep 1000", false, failed, "killed"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			var said bytes.Buffer
			server := newProgram(ctx, &said, "sh", "-c", c.script)
			must.Do(t, server.Start())
			for c.stays && c.says != "" && !server.ended() { // end would not see a later end
				if ctx.Err() != nil {
					t.Fatal("it has not ended")
				}
			}
			switch err := server.end(c.stays, c.client); {
			case c.says == "" && err != nil:
				t.Errorf("its end is an error: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("the error %v does not say %q", err, c.says)
			}
		})
	}
}

// TestServerEndsBeforeItListens checks that waiting for a server stops when the server ends, with
// an error that says so.
func TestServerEndsBeforeItListens(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for _, wait := range []func(*program) error{
		func(p *program) error { return p.listens(1) },
		func(p *program) error { return p.opens("127.255.255.254") },
	} {
		var said bytes.Buffer
		server := newProgram(ctx, &said, "sh", "-c", "exit 3")
		must.Do(t, server.Start())
		if err := wait(server); err == nil || !strings.Contains(err.Error(), "sh ended before") {
			t.Errorf("the error %v does not say that it ended", err)
		}
		var status *exec.ExitError
		if err := server.Wait(); !errors.As(err, &status) || status.ExitCode() != 3 {
			t.Errorf("its own error is lost: %v", err)
		}
	}
}

// TestTerminal gives a program a terminal as its input, and only that program.
func TestTerminal(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var said bytes.Buffer
		p := newProgram(t.Context(), &said, "sh", "-c", "if [ -t 0 ]; then echo terminal; else echo none; fi")
		if terminal {
			hangUp, err := p.withTerminal()
			if errors.Is(err, os.ErrNotExist) {
				t.Skip(err) // no pseudo-terminals are mounted here
			}
			must.Do(t, err)
			defer hangUp()
		}
		must.Do(t, p.Run())
		if want := map[bool]string{true: "terminal\n", false: "none\n"}[terminal]; said.String() != want {
			t.Errorf("with a terminal %v, the program finds %q", terminal, said.String())
		}
	}
}
