package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/guest"
	"github.com/softhca/softhca/interop/remote"
)

// agentAt runs the agent on a loopback address of its own.
func agentAt(t *testing.T, addr string) *guest.Guest {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, "5555"))
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = command(c) }() // its errors are those of who went away
		}
	}()
	return &guest.Guest{Addr: netip.MustParseAddr(addr)}
}

func TestCommandsEndAsTheyEnd(t *testing.T) {
	g := agentAt(t, "127.0.55.1")
	for _, c := range []struct {
		script, stdout, stderr string
		exit                   int
	}{
		{"echo out; echo err >&2; exit 7", "out\n", "err\n", 7},
		{"true", "", "", 0},
		{"kill -9 $$", "", "", 137},
	} {
		r, err := g.Run(t.Context(), c.script)
		if err != nil || r.Stdout != c.stdout || r.Stderr != c.stderr || r.Exit != c.exit {
			t.Errorf("%q: %+v, %v", c.script, r, err)
		}
	}
}

func TestSignalsReachTheProgram(t *testing.T) {
	g := agentAt(t, "127.0.55.2")
	p, err := g.Start(t.Context(), `trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.01; done`)
	must.Do(t, err)
	must.Do(t, p.Await(t.Context(), regexp.MustCompile("ready")))
	must.Do(t, p.Signal(syscall.SIGINT))
	if r, err := p.Wait(); err != nil || r.Exit != 3 || !strings.Contains(r.Stdout, "caught") {
		t.Errorf("%+v, %v", r, err)
	}
}

// When the connection of a command closes, the program and its children are
// killed.
func TestNothingOutlivesItsContext(t *testing.T) {
	g := agentAt(t, "127.0.55.3")
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	// The end of the last process that has it open is the end of the file.
	p, err := g.Start(ctx, "exec 3>"+fifo+"; sleep 1000 & echo started; wait")
	must.Do(t, err)
	f, err := os.Open(fifo)
	must.Do(t, err)
	defer func() { _ = f.Close() }()
	must.Do(t, p.Await(t.Context(), regexp.MustCompile("started")))
	cancel()
	if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("the command is said to have ended: %v", err)
	}
	if n, _ := f.Read(make([]byte, 1)); n != 0 {
		t.Error("something was written")
	}
}

func TestPut(t *testing.T) {
	g := agentAt(t, "127.0.55.4")
	path := filepath.Join(t.TempDir(), "file")
	data := strings.Repeat("0123456789abcdef", 200_000) // several frames
	must.Do(t, g.Put(t.Context(), path, []byte(data), 0o755))
	got, err := os.ReadFile(path)
	if err != nil || string(got) != data {
		t.Errorf("%d bytes of %d came: %v", len(got), len(data), err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if err := g.Put(t.Context(), "/tmp/a b", nil, 0o644); err == nil {
		t.Error("a path that the shell would split is taken")
	}
	if err := g.Put(t.Context(), "/nonexistent/file", nil, 0o644); err == nil {
		t.Error("a file that cannot be made is no error")
	}
}

// An invalid command ends the connection.
func TestGarbage(t *testing.T) {
	a, b := net.Pipe()
	go func() {
		_ = remote.Write(a, remote.Input, []byte("x")) // the agent may hang up first
		_ = a.Close()
	}()
	if err := command(b); err != nil {
		t.Logf("the agent says %v", err)
	}
	if _, _, err := remote.Read(a); err == nil {
		t.Error("the agent answers what is no command")
	}
}
