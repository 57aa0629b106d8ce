//go:build linux && cgo

package test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/testagent"
)

// TestTestAgentIgnoresSilentConnections connects to the test agent in addition to its
// controller. As long as the other connections are silent, the controller keeps its objects;
// a connection that sends a request takes over.
func TestTestAgentIgnoresSilentConnections(t *testing.T) {
	s := &stand{builds: newBuilds(t, "program", plain), variant: plain}
	dir, lib := t.TempDir(), filepath.Join(s.dir, s.variant.name)
	source, program := filepath.Join(dir, "agent.c"), filepath.Join(dir, "agent")
	must.Do(t, os.WriteFile(source, []byte(testagent.Source()), 0o600))
	run(t, "gcc", "-O2", "-o", program, source, "-L"+lib, "-l:libibverbs.so.1")
	addr := s.addresses(1)
	cmd := exec.CommandContext(t.Context(), program, "-b", addr)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "SOFTHCA_ENGINE="+filepath.Join(s.dir, engineFile), "SOFTHCA_ADDR="+addr)
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }() // it serves forever
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "serves port") {
		t.Fatalf("the agent says %q, %v", line, err)
	}
	first, err := testagent.Dial(t.Context(), addr, nil)
	must.Do(t, err)
	defer first.Close()
	const strangers = 20 // more than the agent keeps
	for range strangers {
		silent, err := net.Dial("tcp", net.JoinHostPort(addr, "18516"))
		must.Do(t, err)
		defer silent.Close()
		if _, err := first.Hello(t.Context()); err != nil {
			t.Fatalf("a silent connection has ended the controller's: %v", err)
		}
	}
	second, err := testagent.Dial(t.Context(), addr, nil)
	must.Do(t, err)
	defer second.Close()
	if _, err := first.Hello(t.Context()); err == nil {
		t.Error("two controllers have the agent")
	}
	if _, err := second.Hello(t.Context()); err != nil {
		t.Errorf("the second controller: %v", err)
	}
}
