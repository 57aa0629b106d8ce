//go:build linux

package check

import (
	"debug/elf"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestPrograms has programs of the system look at the adapter.
func TestPrograms(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ line, want string }{
		{"ls " + class, "softhca0\n"},
		{"ls " + dev + "/device/net/", "lo\n"},
		{"ls /dev/infiniband", "rdma_cm\nuverbs0\n"},
		{"stat -Lc '%F %t:%T' /dev/infiniband/rdma_cm", "character special file a:79\n"},
		{"cat /sys/class/misc/rdma_cm/abi_version /sys/class/misc/rdma_cm/dev", "4\n10:121\n"},
		{"cat /dev/infiniband/rdma_cm 2>&1 | grep -o 'No such device'", "No such device\n"}, // there is no libibverbs
		{"ls -lL /dev/infiniband/uverbs0 | cut -c-10", "crw-rw-rw-\n"},
		{"cat " + dev + "/node_guid", b.guid + "\n"},
		{"cat " + dev + "/ports/1/gids/0 " + dev + "/ports/1/gid_attrs/types/0", "0000:0000:0000:0000:0000:ffff:7f00:0001\nRoCE v2\n"},
		{"cat " + counts + "sent_pkts", "4711\n"},
		{"cd " + counts + " && cat sent_pkts && pwd -P", "4711\n" + strings.TrimSuffix(counts, "/") + "\n"},
		{"cd " + counts + " && sh -c 'cat sent_pkts'", "4711\n"},
		{"read x < " + counts + "sent_pkts; echo $x", "4711\n"},
		{"grep -r . " + counts + " | grep sent_pkts", counts + "sent_pkts:4711\n"},
		{"find " + class + " -name sent_pkts -exec cat {} +", "4711\n"},
		{"echo " + class + "/*/ports/*/gids/*", dev + "/ports/1/gids/0 " + dev + "/ports/1/gids/1\n"},
		{"stat -c %F /dev/infiniband/uverbs0", "character special file\n"},
		{"readlink -f " + dev + "/device/net/lo", "/sys/devices/virtual/net/lo\n"},
		{"realpath " + dev + "/ports/..", dev + "\n"},
		{"test -e " + class + "/mlx5_0 || echo none", "none\n"},
		{"test -d /sys/class/net/lo && echo there", "there\n"},
		{"(echo x > " + dev + "/node_desc) 2>&1 | grep -o 'Permission denied'", "Permission denied\n"},
		{"cat /dev/infiniband/uverbs0 2>&1 | grep -o 'No such device'", "No such device\n"},
		{"head -c 4 /etc/passwd | wc -c", "4\n"},
		{"env -u SOFTHCA_SYSFS test -e " + dev + " || echo none", "none\n"},
	} {
		if got := b.output(t, "sh", "-c", c.line); got != c.want {
			t.Errorf("%s\nprints %q, want %q", c.line, got, c.want)
		}
	}
}

// TestLive checks that each read of a counter gives its present value.
func TestLive(t *testing.T) {
	b := newBench(t)
	for n := range uint64(3) {
		b.board.Engine.RcvdPkts = n
		b.board.Down.Store(n % 2)
		state := []string{"4: ACTIVE", "1: DOWN"}[n%2]
		want := strconv.FormatUint(n, 10) + "\n" + state + "\n"
		if got := b.output(t, "cat", counts+"rcvd_pkts", dev+"/ports/1/state"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	b.board.Engine.RcvdPkts = 1<<64 - 1
	if got := b.output(t, "cat", counts+"rcvd_pkts"); got != "18446744073709551615\n" {
		t.Errorf("the highest number is %q", got)
	}
}

const python = `
import glob, os, pathlib, stat, subprocess
c = '/sys/class/infiniband'
assert os.listdir(c) == ['softhca0'] and [e.name for e in os.scandir(c)] == ['softhca0']
assert sorted(glob.glob(c + '/*/ports/*/gids/*')) == [c + '/softhca0/ports/1/gids/0', c + '/softhca0/ports/1/gids/1']
assert list(pathlib.Path(c).glob('*/node_type'))[0].read_text() == '1: CA\n'
assert stat.S_ISCHR(os.stat('/dev/infiniband/uverbs0').st_mode) and os.access('/dev/infiniband/uverbs0', os.R_OK | os.W_OK)
assert os.path.realpath(c + '/softhca0/device/net/lo') == '/sys/devices/virtual/net/lo'
assert subprocess.check_output(['ls', c + '/softhca0/device/net/']) == b'lo\n'
os.chdir(c + '/softhca0')
assert os.getcwd() == c + '/softhca0' and open('ports/1/hw_counters/sent_pkts').read() == '4711\n'
assert len([f for _, _, files in os.walk(c) for f in files]) > 60
print('fine')
`

func TestPython(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			if got := b.output(t, path, "-c", python); got != "fine\n" {
				t.Errorf("Python says %q", got)
			}
			return
		}
	}
	// The test is about the calls that Python makes.
	t.Skip("no Python here")
}

// TestSymbols checks that the library loads with glibc 2.34 or later, and replaces
// exactly the intended functions.
func TestSymbols(t *testing.T) {
	b := newBench(t)
	f, err := elf.Open(b.lib)
	must.Do(t, err)
	defer func() { _ = f.Close() }() // only read
	imported, err := f.ImportedSymbols()
	must.Do(t, err)
	for _, s := range imported {
		if v, ok := strings.CutPrefix(s.Version, "GLIBC_2."); ok {
			if minor, err := strconv.ParseFloat(v, 64); err != nil || minor > 34 {
				t.Errorf("%s needs %s", s.Name, s.Version)
			}
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || !slices.Equal(libs, []string{"libc.so.6"}) {
		t.Errorf("it needs %v, %v", libs, err)
	}
	symbols, err := f.DynamicSymbols()
	must.Do(t, err)
	var shown []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			shown = append(shown, s.Name)
		}
	}
	if len(shown) < 40 || slices.Contains(shown, "redirect") || slices.Contains(shown, "malloc") || slices.Contains(shown, "read") {
		t.Errorf("it shows %d functions: %q", len(shown), shown)
	}
}
