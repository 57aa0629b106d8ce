package guest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/image"
)

// emulator puts a script in the place of QEMU.
func emulator(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, QEMU), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// screen is a terminal's output that tests wait for.
type screen struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
	seen chan struct{} // closed when text has what is waited for
	want string
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := strings.Contains(s.text.String(), s.want)
	s.text.Write(b)
	if !had && strings.Contains(s.text.String(), s.want) {
		close(s.seen)
	}
	return len(b), nil
}

func TestBootWaitsForTheAgent(t *testing.T) {
	emulator(t, `echo "Booting $*"; printf 'interop: ready\r\n'; while read line; do echo "shell says $line"; done`)
	m, err := Boot(t.Context(), &image.Image{Kernel: "/k", Initrd: "/i"}, "tap7")
	must.Do(t, err)
	if log := m.Log(); !m.Alive() || !strings.Contains(log, "ifname=tap7") || !strings.Contains(log, "interop: ready") {
		t.Errorf("alive %v, console:\n%s", m.Alive(), log)
	}
	out := &screen{want: "shell says uname", seen: make(chan struct{})}
	in, keys := io.Pipe()
	left := make(chan error)
	go func() { left <- m.Console(in, out, 0x1D) }()
	if _, err := io.WriteString(keys, "uname\n"); err != nil {
		t.Fatal(err)
	}
	<-out.seen
	if _, err := io.WriteString(keys, "\x1D"); err != nil {
		t.Fatal(err)
	}
	if err := <-left; err != nil {
		t.Errorf("leaving the console: %v", err)
	}
	m.Stop()
	if m.Alive() {
		t.Error("a stopped machine is alive")
	}
}

func TestBootFails(t *testing.T) {
	emulator(t, `echo "interop: boot failed: no interface"; exit 1`)
	if _, err := Boot(t.Context(), &image.Image{}, "tap7"); err == nil || !strings.Contains(err.Error(), "no interface") {
		t.Errorf("the error does not show the console: %v", err)
	}
	emulator(t, `exec sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Boot(ctx, &image.Image{}, "tap7"); err == nil {
		t.Error("booting does not end with its context")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Boot(t.Context(), &image.Image{}, "tap7"); err == nil {
		t.Error("without QEMU a machine boots")
	}
}
