//go:build linux && cgo

package test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/sysfs"
)

// over returns the environment of a program with an adapter on an address, as softhca run sets
// it.
func (s *stand) over(t *testing.T, addr string) []string {
	t.Helper()
	t.Setenv("TMPDIR", s.dir) // the parent of the sysfs image
	t.Setenv("XDG_RUNTIME_DIR", "")
	id, err := device.Identify(device.Config{Addr: addr, Env: device.ProcessEnvironment()})
	must.Do(t, err)
	p, err := sysfs.Show(sysfs.Description{Name: "softhca0", Identity: id})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Lock.Close() }) // releases the sysfs image
	return []string{
		"LD_PRELOAD=" + filepath.Join(s.dir, libraries.Preload), "SOFTHCA_SYSFS=" + p.Root, "SOFTHCA_ADDR=" + addr,
		"LD_LIBRARY_PATH=" + filepath.Join(s.dir, s.variant.name), "SOFTHCA_ENGINE=" + filepath.Join(s.dir, engineFile),
	}
}

// TestD2_CMPrograms runs Debian's programs over librdmacm.so.1, each with its server on another
// address and then on the same. It also runs scenarios of other uses of the descriptor.
func TestD2_CMPrograms(t *testing.T) {
	s := &stand{builds: newBuilds(t, "program", plain), variant: plain}
	for _, name := range []string{"rdma-cm", "rdma-cm-fork", "rdma-cm-closed", "no-descriptors"} {
		t.Run(name, func(t *testing.T) { s.pass(t, name, s.over(t, s.addresses(1))...) })
	}
	for _, name := range []string{"rdma-cm-exit", "rdma-cm-crash"} {
		t.Run(name, func(t *testing.T) {
			s.pass(t, name, append(s.over(t, s.addresses(1)), "LEAVING_ADDR="+s.addresses(1))...)
		})
	}
	for _, p := range []struct{ server, client string }{
		{"rping -s -C 10 -v -a ADDR", "rping -c -C 10 -v -a ADDR"},
		{"ucmatose -c 4 -C 10 -b ADDR", "ucmatose -c 4 -C 10 -s ADDR"},
		{"ucmatose -m -b ADDR", "ucmatose -m -s ADDR"},
		{"udaddy -c 2 -b ADDR", "udaddy -c 2 -s ADDR"},
		{"rdma_server", "rdma_client -s ADDR"},
		{"rstream -S 10000 -C 10 -b ADDR", "rstream -S 10000 -C 10 -s ADDR"},
		{"riostream -S 1000 -I 1 -C 5 -b ADDR", "riostream -S 1000 -I 1 -C 5 -s ADDR"},
	} {
		t.Run(p.server, func(t *testing.T) { s.meet(t, p.server, p.client, s.addresses(1)) })
		t.Run(p.server+" on one address", func(t *testing.T) { s.meet(t, p.server, p.client, "") })
	}
}

// bound reports whether an adapter is on an address.
func bound(t *testing.T, addr string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/net/udp")
	must.Do(t, err)
	a := netip.MustParseAddr(addr).As4()
	return bytes.Contains(text, fmt.Appendf(nil, "%08X:%04X", binary.NativeEndian.Uint32(a[:]), 4791))
}

// meet runs a server, and clients until one connects. The clients use the address from, or the
// server's if from is empty.
func (s *stand) meet(t *testing.T, server, client, from string) {
	ctx, cancel := context.WithTimeout(t.Context(), *scenarioTime)
	defer cancel()
	addr := s.addresses(1)
	program := func(line string, env []string, out *bytes.Buffer) *exec.Cmd {
		args := strings.Fields(strings.ReplaceAll(line, "ADDR", addr))
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Skip("no " + args[0] + ": install rdmacm-utils") // a Debian program that is not installed
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd
	}
	var served, said bytes.Buffer
	srv := program(server, s.over(t, addr), &served)
	env := s.over(t, cmp.Or(from, addr))
	must.Do(t, srv.Start())
	for !bound(t, addr) && ctx.Err() == nil { // before that, no client can connect
		runtime.Gosched()
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Wait() }()
	var err, serr error
	over := false
	for found := false; !found && !over && ctx.Err() == nil; found = err == nil {
		said.Reset()
		err = program(client, env, &said).Run()
		select {
		case serr = <-ended: // no client can connect any more
			over = true
		default:
		}
	}
	if err != nil {
		cancel()
	}
	if !over {
		serr = <-ended
	}
	if err != nil || serr != nil {
		t.Errorf("client: %v\n%s\nserver: %v\n%s", err, said.String(), serr, served.String())
	}
}
