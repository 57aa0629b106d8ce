//go:build linux

package poll_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/poll"
	"github.com/softhca/softhca/internal/must"
)

// forbid lowers the limit of descriptors to 0 until the test ends: ppoll fails.
func forbid(t *testing.T) {
	t.Helper()
	var had unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &had))
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: had.Max}))
	t.Cleanup(func() {
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &had))
	})
	if _, err := unix.Poll([]unix.PollFd{{Fd: -1}}, 0); !errors.Is(err, unix.EINVAL) {
		t.Fatalf("the limit has no effect on poll: %v", err)
	}
}

// places are a low descriptor number, and one that is too high for select(2) in C libraries.
var places = []int{3, 1500}

// pipeAt returns a pipe with descriptors of at least least.
func pipeAt(t *testing.T, least int) (ends [2]int) {
	t.Helper()
	var p [2]int
	must.Do(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	for i, fd := range p {
		high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, least)
		if err != nil {
			t.Skip("no descriptor of that number: ", err) // the limit of this machine is lower
		}
		_ = unix.Close(fd)
		ends[i] = high
		t.Cleanup(func() { _ = unix.Close(high) })
	}
	return ends
}

// ways are the two system calls of Wait.
var ways = map[string]func(*testing.T){"ppoll": func(*testing.T) {}, "pselect6": forbid}

func TestReadable(t *testing.T) {
	for name, way := range ways {
		for _, least := range places {
			t.Run(name, func(t *testing.T) {
				p, q := pipeAt(t, least), pipeAt(t, least)
				way(t)
				if poll.Readable(p[0]) || poll.Readable(p[1]) {
					t.Error("an empty pipe is readable")
				}
				if _, err := unix.Write(p[1], []byte("x")); err != nil {
					t.Fatal(err)
				}
				if !poll.Readable(p[0]) || poll.Readable(p[1]) {
					t.Error("of a pipe with data, not the reading end alone is readable")
				}
				_ = unix.Close(p[0])
				if !poll.Readable(p[1]) {
					t.Error("the writing end does not tell that the other one is closed")
				}
				_ = unix.Close(q[1])
				if !poll.Readable(q[0]) {
					t.Error("the end of a pipe is not readable")
				}
			})
		}
	}
}

func TestWait(t *testing.T) {
	for name, way := range ways {
		for _, least := range places {
			t.Run(name, func(t *testing.T) {
				p, q := pipeAt(t, least), pipeAt(t, least)
				way(t)
				fds := []unix.PollFd{{Fd: -1, Events: unix.POLLIN}, {Fd: int32(p[0]), Events: unix.POLLIN, Revents: 9}, {Fd: int32(q[1]), Events: unix.POLLOUT}}
				must.Do(t, poll.Wait(fds, nil))
				if fds[0].Revents != 0 || fds[1].Revents != 0 || fds[2].Revents != unix.POLLOUT {
					t.Errorf("only the second pipe has room: %+v", fds)
				}
				left := unix.NsecToTimespec(int64(nap))
				begin := time.Now()
				must.Do(t, poll.Wait(fds[:2], &left))
				if d := time.Since(begin); d < almost || fds[1].Revents != 0 {
					t.Errorf("a wait for nothing ended after %v: %+v", d, fds)
				}
				if _, err := unix.Write(p[1], []byte("x")); err != nil {
					t.Fatal(err)
				}
				if err := poll.Wait(fds[:2], nil); err != nil || fds[1].Revents != unix.POLLIN {
					t.Errorf("a pipe with data ends a wait with %v: %+v", err, fds)
				}
			})
		}
	}
}

// TestPollerWithoutDescriptors has a port's waits work after the process has forbidden itself
// further descriptors.
func TestPollerWithoutDescriptors(t *testing.T) {
	p, far := pair(t)
	forbid(t)
	if d := elapsed(t, p, nap, true, poll.NoSocket); d < almost {
		t.Errorf("a wait for nothing ended after %v", d)
	}
	if _, err := unix.Write(far[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	if d := elapsed(t, p, long, true, poll.NoSocket); d > long/2 {
		t.Errorf("a wait took %v though there is something to read", d)
	}
	p.Wake()
	if d := elapsed(t, p, long, false, poll.NoSocket); d > long/2 {
		t.Errorf("a wait took %v though it was woken", d)
	}
	if d := elapsed(t, p, nap, false, poll.NoSocket); d < almost {
		t.Errorf("a wake that is over ended a wait after %v", d)
	}
}
