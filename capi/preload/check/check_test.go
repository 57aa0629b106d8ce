//go:build linux

package check

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/sysfs"
)

const (
	firstGUID = 0x0212_3456_789a_bc00
	class     = "/sys/class/infiniband"
	dev       = class + "/softhca0"
	counts    = dev + "/ports/1/hw_counters/"
)

// TestMain gives the tests, which run side by side, a place for images and for the
// library that most of them use.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "softhca-preload-")
	if err == nil {
		err = errors.Join(os.Setenv("TMPDIR", dir), os.Unsetenv("XDG_RUNTIME_DIR"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // what is left is in a directory for what is left
	os.Exit(code)
}

var library = flag.String("library", "", "test this library instead of building it: internal/mutation has some with seeded bugs")

// plain is the library as users have it, built once.
var plain = sync.OnceValues(func() (string, error) {
	if *library != "" {
		return *library, nil
	}
	return build(os.TempDir())
})

// build builds the library, with additional flags of the compiler.
func build(dir string, flags ...string) (string, error) {
	return filepath.Join(dir, libraries.Preload), libraries.BuildOne(context.Background(), "../../..", dir, libraries.Preload, flags...)
}

// bench is a preload library and an image.
type bench struct {
	lib, root string
	guid      string // as files have it
	addr      netip.Addr
	board     *sysfs.Attached
}

// benches counts them: each has an image of its own.
var benches atomic.Uint64

// newBench returns the library, compiled with more flags if there are any, and a
// image with some counts. Other tests may run at the same time as the test that has it.
func newBench(t *testing.T, flags ...string) *bench {
	t.Helper()
	return newBenchAt(t, netip.MustParseAddr("127.0.0.1"), flags...)
}

// newBenchAt is newBench for an adapter with another address.
func newBenchAt(t *testing.T, addr netip.Addr, flags ...string) *bench {
	t.Helper()
	t.Parallel()
	if _, err := libraries.Compiler(); err != nil {
		// The library is in C. Other tests cover the parts that need no
		// compiler.
		t.Skip(err)
	}
	lib, err := plain()
	if len(flags) > 0 {
		lib, err = build(t.TempDir(), flags...)
	}
	must.Do(t, err)
	guid := ib.GUID(firstGUID + benches.Add(1))
	p, err := sysfs.Show(sysfs.Description{Name: "softhca0", Identity: device.Identity{
		NodeGUID: uint64(guid), Addrs: []netip.Addr{addr}, Interfaces: []string{"lo"},
	}})
	must.Do(t, err)
	b := &bench{lib: lib, root: p.Root, guid: guid.String(), addr: addr}
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

// scenarioTime bounds a program.
const scenarioTime = 5 * time.Minute

// command returns a program that runs over the library.
func (b *bench) command(t *testing.T, preload string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioTime)
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
	must.Do(t, err)
	out := filepath.Join(t.TempDir(), name)
	args := append([]string{libraries.Dialect, "-O1", "-g", "-Wall", "-Wno-nonnull", "-pthread", "-o", out, filepath.Join("testdata", name+".c")}, flags...)
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}
