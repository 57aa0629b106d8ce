package device

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// mapFile maps a file of two pages in a directory.
func mapFile(t *testing.T, dir string, flags int) (mem []byte, path string) {
	t.Helper()
	f, err := os.CreateTemp(dir, "durable")
	must.Do(t, err)
	defer f.Close()
	t.Cleanup(func() { os.Remove(f.Name()) })
	size := 2 * os.Getpagesize()
	must.Do(t, f.Truncate(int64(size)))
	mem, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	must.Do(t, err)
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return mem, f.Name()
}

// onStorage returns a directory on a file system with storage.
func onStorage(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{t.TempDir(), "/var/tmp", "."} {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Type != unix.TMPFS_MAGIC && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	t.Skip("no directory is on storage") // nothing here survives a loss of power
	return ""
}

// TestM6_Durable shows which memory can be written back to storage.
func TestM6_Durable(t *testing.T) {
	dir := onStorage(t)
	shared, path := mapFile(t, dir, unix.MAP_SHARED)
	if !durable(shared) || !durable(shared[10:20]) || !durable(shared[len(shared)-1:]) {
		t.Error("a shared mapping of a file on storage is not durable")
	}
	for _, c := range []struct {
		what string
		mem  []byte
	}{{"Go's heap", make([]byte, 100)}, {"no memory", nil}, {"beyond the mapping", unsafe.Slice(&shared[0], len(shared)+1)}} {
		if durable(c.mem) {
			t.Errorf("%s is durable", c.what)
		}
	}
	if private, _ := mapFile(t, dir, unix.MAP_PRIVATE); durable(private) {
		t.Error("a private mapping is durable")
	}
	must.Do(t, writeBack(shared[10:20]))
	must.Do(t, writeBack(shared[1:]))
	must.Do(t, os.Rename(path, filepath.Join(dir, "durable.other")))
	other := filepath.Join(dir, "durable.other")
	t.Cleanup(func() { os.Remove(other) })
	if !durable(shared) {
		t.Error("a renamed file is not durable")
	}
	must.Do(t, os.Remove(other))
	if durable(shared) {
		t.Error("a deleted file is durable")
	}
}

// TestM6_TmpfsIsLost shows that a file in memory is not durable.
func TestM6_TmpfsIsLost(t *testing.T) {
	const dir = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("there is no tmpfs at " + dir) // a small container
	}
	if mem, _ := mapFile(t, dir, unix.MAP_SHARED); durable(mem) {
		t.Error("a file in tmpfs is durable")
	}
}

// TestM6_WriteBackFails shows that memory that is gone is not written back.
func TestM6_WriteBackFails(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	must.Do(t, err)
	gone := unsafe.Slice(unsafe.SliceData(mem), len(mem))
	must.Do(t, unix.Munmap(mem))
	if err := writeBack(gone); err == nil {
		t.Error("memory that is not mapped was written back")
	}
}

// TestM6_Maps shows how the lines of /proc/self/maps are read.
func TestM6_Maps(t *testing.T) {
	word := make([]byte, 1<<20)[:8] // too large for a stack, which moves
	at := uint64(uintptr(unsafe.Pointer(&word[0])))
	line := func(from, to uint64, rest string) string { return fmt.Sprintf("%x-%x %s", from, to, rest) }
	const file = "rw-s 00001000 fd:01 4711                       /data/a file"
	all := func(m *mapping) bool { return m.shared }
	for _, c := range []struct {
		what  string
		lines []string
		want  bool
	}{
		{"one mapping", []string{line(at-4096, at+8, file)}, true},
		{"two that adjoin", []string{line(0, at-100, file), line(at-100, at+4, file), line(at+4, at+8, file)}, true},
		{"a gap", []string{line(at-8, at+4, file), line(at+5, at+8, file)}, false},
		{"the second is private", []string{line(at-8, at+4, file), line(at+4, at+8, "rw-p 00001000 fd:01 4711 /data/a file")}, false},
		{"it ends early", []string{line(at-8, at+7, file)}, false},
		{"it begins late", []string{line(at+1, at+8, file)}, false},
		{"none", nil, false},
		{"a line that makes no sense", []string{"rubbish", line(at, at+8, file)}, false},
		{"a line that is cut", []string{line(at, at+8, "rw-s 0 fd:01")}, false},
	} {
		if got := durableIn(strings.NewReader(strings.Join(c.lines, "\n")), word, all); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
	m, ok := parseMapping(line(0x1000, 0x2000, `rw-s 00001000 fd:01 4711                       /data/a\012file 4711 `))
	if want := (mapping{0x1000, 0x2000, true, unix.Mkdev(0xfd, 1), 4711, "/data/a\nfile 4711 "}); !ok || m != want {
		t.Errorf("parsed %+v, want %+v", m, want)
	}
	if m, ok := parseMapping(line(0x1000, 0x2000, "rw-p 00000000 00:00 0 ")); !ok || m.path != "" || m.inode != 0 || m.shared {
		t.Errorf("anonymous memory is %+v, %t", m, ok)
	}
}

func FuzzMapping(f *testing.F) {
	f.Add("7f00-7f01 rw-s 00001000 fd:01 4711   /data/file")
	f.Add("7f00-7f01 rw-p 00000000 00:00 0 ")
	f.Add(`0-ffffffffffffffff ---s ffffffff ffffffff:ffffffff 18446744073709551615 \012`)
	f.Fuzz(func(t *testing.T, line string) {
		if m, ok := parseMapping(line); !ok && m.stays() && m.path == "" {
			t.Errorf("%q stays without a path", line)
		}
	})
}
