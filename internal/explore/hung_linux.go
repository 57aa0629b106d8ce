package explore

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/explore/stacks"
)

// pollInterval is the time between two checks whether the context has ended.
const pollInterval = 50 * time.Millisecond

// waitEnd waits until a child has ended, the time end, or the end of the context. It reports whether the child has ended. It leaves the
// child's state to os.Process.Wait, which must not run meanwhile: it would take a thread that is stopped to be traced for an ended one.
func waitEnd(ctx context.Context, p *os.Process, end time.Time) (ended bool) {
	err := p.WithHandle(func(handle uintptr) {
		for ctx.Err() == nil && !ended {
			left := time.Until(end)
			if left <= 0 {
				return
			}
			ready := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
			n, err := unix.Poll(ready, int(min(left, pollInterval)/time.Millisecond)+1)
			ended = n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		}
	})
	if err == nil {
		return ended
	}
	// The kernel is older than handles of processes, or they are forbidden.
	for ctx.Err() == nil && time.Now().Before(end) {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, p.Pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); info.Signo != 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return true
		}
		time.Sleep(pause)
	}
	return false
}

// look finds out what the processes of a run that hangs wait for. Programs in Go write their goroutines and end.
func (r *Run) look(out *output) {
	pids, names, parents := running()
	r.Running = names
	r.Stacks = slices.DeleteFunc(stacks.Collect(pids), func(p stacks.Process) bool {
		return parents[p.PID] && p.Engine == 0 // a script, which waits for its programs
	})
	end := time.Now().Add(dumpTime)
	for i := range r.Stacks {
		p := &r.Stacks[i]
		if !p.GoProgram() {
			continue
		}
		out.dump()
		if unix.Kill(p.PID, unix.SIGQUIT) == nil {
			awaitDump(p.PID, out, end)
		}
		p.Goroutines = goroutines(out.dumped())
	}
}

// dumpTime is how long all programs in Go may take to write their goroutines.
const dumpTime = time.Second

// awaitDump waits until a process has ended and what it wrote has been read, or until the time end.
func awaitDump(pid int, out *output, end time.Time) {
	for size := -1; time.Now().Before(end); time.Sleep(10 * pause) {
		before := size
		size = out.size()
		if ended(pid) && size == before {
			return
		}
	}
}

// ended reports whether a process has ended, also if its parent has not noticed it yet.
func ended(pid int) bool {
	all, err := processes()
	for _, p := range all {
		if p.pid == pid {
			return p.ended
		}
	}
	return err == nil
}

const (
	maxDump       = 256 << 10 // bytes of goroutines that are read
	maxGoroutines = 16 << 10  // bytes of goroutines that are kept
)

// output keeps the end of what the processes of a run write, and separately what they write about their goroutines.
type output struct {
	mu      sync.Mutex // guards the fields below
	tail    tail
	dumps   bool // the goroutines of a process are expected
	written []byte
}

// Write keeps what fits.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dumps {
		return o.tail.Write(p)
	}
	o.written = append(o.written, p[:min(len(p), maxDump-len(o.written))]...)
	return len(p), nil
}

// dump begins to keep the goroutines of a process.
func (o *output) dump() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dumps, o.written = true, nil
}

// size returns how many bytes of goroutines were kept.
func (o *output) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.written)
}

// dumped returns what was written since dump.
func (o *output) dumped() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.written)
}

// goroutines returns the part of an output that is about goroutines, without the registers at its end.
func goroutines(text string) string {
	at := strings.Index(text, "SIGQUIT: quit")
	if at < 0 {
		return ""
	}
	text = text[at:]
	for _, register := range []string{"\nrax ", "\nr0 ", "\nx0 "} {
		text, _, _ = strings.Cut(text, register)
	}
	return strings.ToValidUTF8(strings.TrimSpace(text[:min(len(text), maxGoroutines)]), "?")
}

// maxRunning bounds the processes that a run that hangs names.
const maxRunning = 8

// running returns this process's descendants that run, those without children that run first, and the names of these; and which have children.
func running() (pids []int, names []string, parents map[int]bool) {
	all := descendants()
	parents = map[int]bool{}
	for _, p := range all {
		parents[p.parent] = true
	}
	var others []int
	for _, p := range all {
		if parents[p.pid] {
			others = append(others, p.pid)
			continue
		}
		pids = append(pids, p.pid)
		if len(names) < maxRunning {
			names = append(names, p.name)
		}
	}
	return append(pids, others...), names, parents
}
