//go:build !portable

package campaign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// waitLimit is how long a test waits for what happens at once.
const waitLimit = 30 * time.Second

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitLimit); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// gaveUp reports whether a stream has ended because the other side was silent.
func gaveUp(err error) bool {
	return errors.Is(err, ib.WCRetryExcErr)
}

func addressOf(b *byte) uintptr { return uintptr(unsafe.Pointer(b)) }

// traces are what a process has of its adapters.
type traces struct {
	Goroutines int // only of the calling process
	Sockets    int
	Files      int // other descriptors: pipes, epoll, eventfd, pidfd, memory
	Memory     int // descriptors of memory of rings
	Mappings   int // of rings; each ring has two
	Shared     int // files in /dev/shm that are mapped or open, and those of softhca
}

// look returns the traces of a process.
func look(pid int) (r traces) {
	if pid == os.Getpid() {
		r.Goroutines = runtime.NumGoroutine()
	}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	all, _ := os.ReadDir(fds) // a process that has ended has none
	for _, e := range all {
		to, err := os.Readlink(filepath.Join(fds, e.Name()))
		switch {
		case err != nil: // ReadDir's own descriptor
		case strings.HasPrefix(to, "/dev/shm/"):
			r.Shared++
		case strings.HasPrefix(to, "/memfd:softhca-ring"):
			r.Memory++
		case strings.HasPrefix(to, "socket:"):
			r.Sockets++
		default:
			r.Files++
		}
	}
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)) // as above
	r.Mappings = strings.Count(string(maps), "/memfd:softhca-ring")
	r.Shared += strings.Count(string(maps), " /dev/shm/")
	named, _ := filepath.Glob("/dev/shm/*softhca*") // the pattern is well-formed
	r.Shared += len(named)
	return r
}

// minus returns what r has more than before.
func (r traces) minus(before traces) traces {
	return traces{r.Goroutines - before.Goroutines, r.Sockets - before.Sockets, r.Files - before.Files, r.Memory - before.Memory, r.Mappings - before.Mappings, r.Shared - before.Shared}
}

// awaitTraces waits until the calling process has no more traces than before. It returns what it
// has more after waitLimit.
func awaitTraces(before traces) (more traces) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitLimit); ; <-tick.C {
		more = look(os.Getpid()).minus(before)
		more.Goroutines, more.Sockets, more.Files = max(more.Goroutines, 0), max(more.Sockets, 0), max(more.Files, 0)
		more.Mappings, more.Memory = max(more.Mappings, 0), max(more.Memory, 0) // before, those of the round before may still have been there
		if more == (traces{}) || time.Now().After(end) {
			return more
		}
	}
}

// leavesNothing checks that the test's process has no more traces than before.
func leavesNothing(t *testing.T, before traces) {
	t.Helper()
	more := awaitTraces(before)
	if more == (traces{}) {
		return
	}
	stacks := make([]byte, 1<<16)
	t.Fatalf("%+v is left\n%s", more, stacks[:runtime.Stack(stacks, true)])
}

// starved returns how long the threads of a process have waited for a processor, in all.
func starved(pid int) (d time.Duration) {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is well-formed
	for _, name := range all {
		var runs, waits int64
		b, _ := os.ReadFile(name) // the thread may have ended
		if _, err := fmt.Sscan(string(b), &runs, &waits); err == nil {
			d += time.Duration(waits)
		}
	}
	return d
}

// mappingsOfPeer is the number of mappings that each meeting makes: the process's own memory
// and that of its peer, both twice.
const mappingsOfPeer = 4

// peersOf returns the number of peers that a process has.
func peersOf(pid int) int { return look(pid).Mappings / mappingsOfPeer }

// mapping is a mapping of the memory of a ring that a process has made.
type mapping struct {
	from, to int64
	first    bool // of its two mappings, which begins with the words
}

// ringsOf returns the mappings of the rings to which a process writes.
func ringsOf(pid int) (all []mapping) {
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)) // a process that has ended has none
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasPrefix(f[5], "/memfd:softhca-ring") || !strings.HasPrefix(f[1], "rw") {
			continue
		}
		r := mapping{first: f[2] == "00000000"}
		if _, err := fmt.Sscanf(f[0], "%x-%x", &r.from, &r.to); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// ownMemory returns the size of the memory that a process has made for rings.
func ownMemory(pid int) (bytes int) {
	for _, r := range ringsOf(pid) {
		if r.first {
			bytes += int(r.to - r.from)
		}
	}
	return bytes
}

// The words of the memory of a process, by their offsets.
const (
	headAt     = 0   // of the ring to which it writes
	waitingAt  = 128 // odd while it waits for room
	tailAt     = 256 // of the ring that it reads
	sleepingAt = 384 // odd while it sleeps
)

// word returns the sum of a word in all rings to which a process writes, and a text that lists them.
func word(pid int, at int64) (sum uint64, text string) {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, err.Error()
	}
	defer memory.Close()
	for _, r := range ringsOf(pid) {
		var b [8]byte
		if _, err := memory.ReadAt(b[:], r.from+at); err == nil && r.first {
			x := binary.NativeEndian.Uint64(b[:])
			sum += x
			text += fmt.Sprintf(" %d", x)
		}
	}
	return sum, text
}

// words describes the words of the rings to which a process writes.
func words(pid int) (text string) {
	for at, name := range map[int64]string{headAt: "head", waitingAt: "waiting", tailAt: "tail", sleepingAt: "sleeping"} {
		_, all := word(pid, at)
		text += " " + name + all
	}
	return text
}

func headOf(pid int) uint64 {
	sum, _ := word(pid, headAt)
	return sum
}

func tailOf(pid int) uint64 {
	sum, _ := word(pid, tailAt)
	return sum
}

// carried returns the number of bytes that a process has sent by the rings that it has now, with the
// room between them.
func carried(pid int) uint64 { return headOf(pid) &^ 1 }
