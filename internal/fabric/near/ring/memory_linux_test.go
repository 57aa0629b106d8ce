//go:build !portable && !ringmodel

package ring

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

func TestSizes(t *testing.T) {
	for _, size := range []int{-1, 0, 1, minSize / 2, minSize + 1, 3 * minSize, 2 * maxSize, 1 << 30} {
		if m, err := Create(size); !errors.Is(err, unix.EINVAL) {
			t.Errorf("a ring of %d bytes: %v, %v", size, m, err)
		}
	}
	for _, size := range []int{max(minSize, os.Getpagesize()), 1 << 20, maxSize} {
		a, b := pair(t, size)
		a.write(t, a.p.MaxRecord(), 1, 1)
		a.p.Publish()
		b.read(t, size-headerLen, 1, 1)
	}
}

// With the descriptor that the peer gets, it cannot resize the memory, write to it, or free its
// pages.
func TestPeerCannotChangeTheMemory(t *testing.T) {
	m, err := Create(minSize)
	must.Do(t, err)
	fd := m.FD()
	size := int64(os.Getpagesize() + minSize)
	again, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDWR, 0)
	must.Do(t, err)
	defer again.Close()
	for _, fd := range []int{fd, int(again.Fd())} {
		must.Fail(t, unix.Ftruncate(fd, 0), unix.EPERM, "shrink")
		must.Fail(t, unix.Ftruncate(fd, 2*size), unix.EPERM, "grow")
		must.Fail(t, unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, 0, size), unix.EPERM, "free pages")
		_, err = unix.Pwrite(fd, []byte{1}, 0)
		must.Fail(t, err, unix.EPERM, "write")
		_, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must.Fail(t, err, unix.EPERM, "map for writing")
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
		must.Fail(t, err, unix.EPERM, "seal more")
		b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
		must.Do(t, err)
		must.Fail(t, unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE), unix.EACCES, "make a mapping writable")
		must.Do(t, unix.Munmap(b))
	}
	all := unsafe.Slice((*byte)(m.base), size)
	must.Fail(t, unix.Madvise(all, unix.MADV_REMOVE), unix.EPERM, "the owner frees pages")
	must.Do(t, m.Close())
}

// TestAttachRefuses offers descriptors that are no Memory.
func TestAttachRefuses(t *testing.T) {
	page := int64(os.Getpagesize())
	size := page + minSize
	memfd := func(flags int, size, allocated int64, seals int) int {
		fd, err := unix.MemfdCreate("test", flags|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		must.Do(t, err)
		must.Do(t, unix.Ftruncate(fd, size))
		if allocated > 0 {
			must.Do(t, unix.Fallocate(fd, 0, 0, allocated))
		}
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		must.Do(t, err)
		return fd
	}
	file := func() int {
		f, err := os.Create(filepath.Join(t.TempDir(), "file"))
		must.Do(t, err)
		defer f.Close()
		must.Do(t, f.Truncate(size))
		return copyOf(t, int(f.Fd()))
	}
	for _, c := range []struct {
		why  string
		fd   int
		want error
	}{
		{"not sealed", memfd(0, size, size, 0), unix.EPERM},
		{"may shrink", memfd(0, size, size, seals&^unix.F_SEAL_SHRINK), unix.EPERM},
		{"may grow", memfd(0, size, size, seals&^unix.F_SEAL_GROW), unix.EPERM},
		{"may free pages", memfd(0, size, size, seals&^unix.F_SEAL_FUTURE_WRITE), unix.EPERM},
		{"may get more seals", memfd(0, size, size, seals&^unix.F_SEAL_SEAL), unix.EPERM},
		{"a page is missing", memfd(0, size, size-page, seals), unix.EINVAL},
		{"no page is allocated", memfd(0, size, 0, seals), unix.EINVAL},
		{"empty", memfd(0, 0, 0, seals), unix.EINVAL},
		{"no records", memfd(0, page, page, seals), unix.EINVAL},
		{"not a power of two", memfd(0, size+2*page, size+2*page, seals), unix.EINVAL},
		{"not whole pages", memfd(0, size+1, size+1, seals), unix.EINVAL},
		{"too large", memfd(0, page+2*maxSize, 0, seals), unix.EINVAL},
		{"huge", memfd(0, 1<<62, 0, seals), unix.EINVAL},
		{"a file", file(), unix.EINVAL},
		{"no descriptor", -1, unix.EBADF},
	} {
		v, err := Attach(c.fd)
		must.Fail(t, err, c.want, c.why)
		if v != nil {
			must.Do(t, v.Close())
		}
		if _, err := unix.FcntlInt(uintptr(c.fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			t.Errorf("%s: the descriptor is still open", c.why)
		}
	}
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB)
	if err != nil {
		return // this kernel has no huge pages
	}
	if unix.Ftruncate(fd, 2<<20) == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		must.Do(t, err)
	}
	_, err = Attach(fd)
	must.Fail(t, err, unix.EINVAL, "huge pages")
}

// An attached memory is read-only, a child does not inherit it, and Close leaves nothing.
func TestMappings(t *testing.T) {
	before := mappings(t)
	a, err := Create(1 << 16)
	must.Do(t, err)
	v, err := Attach(copyOf(t, a.FD()))
	must.Do(t, err)
	must.Do(t, a.CloseFD())
	if a.FD() != -1 {
		t.Error("the descriptor is not closed")
	}
	all := mappings(t)
	var shared, readOnly int
	for _, m := range all {
		if !strings.Contains(m, " dc ") {
			t.Errorf("a child of a fork inherits the mapping %s", m)
		}
		switch {
		case strings.HasPrefix(m, "rw-s"):
			shared++
		case strings.HasPrefix(m, "r--s"):
			readOnly++
		}
	}
	if len(before) != 0 || shared != 2 || readOnly != 2 {
		t.Errorf("%d mappings before, then %d writable and %d read-only, want 0, 2 and 2: %q", len(before), shared, readOnly, all)
	}
	must.Do(t, errors.Join(a.Close(), v.Close()))
	if left := mappings(t); len(left) != 0 {
		t.Errorf("after Close there are the mappings %q", left)
	}
}

// mappings returns the permissions and flags of the mappings of rings in this process.
func mappings(t *testing.T) (all []string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps")
	must.Do(t, err)
	ours := ""
	for l := range strings.Lines(string(b)) {
		switch f := strings.Fields(l); {
		case strings.Contains(l, "/memfd:softhca-ring"):
			ours = f[1]
		case f[0] == "VmFlags:" && ours != "":
			all = append(all, ours+" "+strings.Join(f, " ")+" ")
			ours = ""
		}
	}
	return all
}

// With a small limit of the size of files, Create fails. Without the check the kernel would
// send the signal SIGXFSZ, which ends a program in C.
func TestLimitOfFileSize(t *testing.T) {
	const child = "SOFTHCA_TEST_FILE_LIMIT"
	if os.Getenv(child) != "" {
		must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 16, Max: 1 << 16}))
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, unix.SIGXFSZ, unix.SIGIO) // which Go delivers in this order
		_, err := Create(1 << 16)
		must.Fail(t, err, unix.EFBIG, "create")
		m, err := Create(1 << 15)
		must.Do(t, err)
		must.Do(t, m.Close())
		must.Do(t, unix.Kill(unix.Getpid(), unix.SIGIO))
		if s := <-signals; s != unix.SIGIO {
			t.Errorf("the kernel sends the signal %v", s)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLimitOfFileSize$")
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the process with a limit: %v\n%s", err, out)
	}
}

// TestCloseOnce closes memories twice. In between, the kernel gives their addresses to another
// mapping, as it may, and that one stays.
func TestCloseOnce(t *testing.T) {
	m, err := Create(minSize)
	must.Do(t, err)
	fd, err := unix.Dup(m.FD())
	must.Do(t, err)
	v, err := Attach(fd)
	must.Do(t, err)
	for _, c := range []struct {
		what  string
		base  unsafe.Pointer
		close func() error
	}{{"own memory", m.base, m.Close}, {"memory of the peer", v.base, v.Close}} {
		must.Do(t, c.close())
		page := uintptr(os.Getpagesize())
		other, err := unix.MmapPtr(-1, 0, c.base, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			t.Logf("%s: the runtime has the addresses already", c.what)
			continue
		}
		must.Do(t, err)
		must.Do(t, c.close())
		if err := unix.Msync(unsafe.Slice((*byte)(other), page), unix.MS_ASYNC); err != nil {
			t.Errorf("%s: another mapping is gone: %v", c.what, err)
		}
		_ = unix.MunmapPtr(other, page)
	}
}
