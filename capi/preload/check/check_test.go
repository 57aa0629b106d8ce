//go:build linux

package check

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/sysfs"
)

const (
	nodeGUID = 0x0212_3456_789a_bcde
	class    = "/sys/class/infiniband"
	dev      = class + "/softhca0"
	counts   = dev + "/ports/1/hw_counters/"
)

// bench is a preload library and a picture.
type bench struct {
	lib, root string
	board     *sysfs.Attached
}

// newBench builds the library, with more flags for the compiler, and makes a picture
// with some counts.
func newBench(t *testing.T, flags ...string) *bench {
	t.Helper()
	if _, err := libraries.Compiler(); err != nil {
		// The library is in C. What needs no compiler is tested elsewhere.
		t.Skip(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	if err := libraries.BuildPreload(t.Context(), "../../..", dir, flags...); err != nil {
		t.Fatal(err)
	}
	p, err := sysfs.Show(sysfs.Description{Name: "softhca0", Identity: device.Identity{
		NodeGUID: nodeGUID, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Interfaces: []string{"lo"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{lib: filepath.Join(dir, libraries.Preload), root: p.Root}
	if b.board, err = sysfs.Attach(p.Root, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.board.Close(), p.Lock.Close()); err != nil {
			t.Error(err)
		}
	})
	b.board.Engine.SentPkts = 4711
	b.board.Port.Sent(4711, 4096)
	return b
}

// patience bounds a program.
const patience = 5 * time.Minute

// command returns a program that runs over the library.
func (b *bench) command(t *testing.T, preload string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "SOFTHCA_SYSFS="+b.root, "LD_PRELOAD="+preload+b.lib, "LC_ALL=C")
	return cmd
}

// output runs a program and returns what it prints to both outputs.
func (b *bench) output(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := b.command(t, "", args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String()
}

// compile compiles a program of testdata.
func compile(t *testing.T, name string, flags ...string) string {
	t.Helper()
	cc, err := libraries.Compiler()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), name)
	args := append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wno-nonnull", "-pthread", "-o", out, filepath.Join("testdata", name+".c")}, flags...)
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}
