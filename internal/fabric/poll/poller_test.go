//go:build linux

package poll_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/poll"
	"github.com/softhca/softhca/internal/must"
)

// pair returns a poller of two sockets and the far ends of both.
func pair(t *testing.T) (*poll.Poller, [2]int) {
	t.Helper()
	var near, far [2]int
	for i := range near {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		must.Do(t, err)
		near[i], far[i] = p[0], p[1]
		t.Cleanup(func() { _ = unix.Close(p[1]) })
	}
	p, err := poll.New(near[:]...)
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p, far
}

// elapsed waits and returns how long that took.
func elapsed(t *testing.T, p *poll.Poller, timeout time.Duration, read bool, write int) time.Duration {
	t.Helper()
	begin := time.Now()
	must.Do(t, p.Wait(timeout, read, write))
	return time.Since(begin)
}

const (
	nap    = 20 * time.Millisecond
	almost = 15 * time.Millisecond
	long   = 5 * time.Second
)

func TestWhatEndsAWait(t *testing.T) {
	p, far := pair(t)
	if d := elapsed(t, p, nap, true, poll.NoSocket); d < almost {
		t.Errorf("a wait for nothing ended after %v", d)
	}
	if d := elapsed(t, p, long, false, 1); d > long/2 {
		t.Errorf("a wait for room that is there took %v", d)
	}
	if _, err := unix.Write(far[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	if d := elapsed(t, p, long, true, poll.NoSocket); d > long/2 {
		t.Errorf("a wait took %v though there is something to read", d)
	}
	if d := elapsed(t, p, nap, false, poll.NoSocket); d < almost {
		t.Errorf("an arrival of no interest ended a wait after %v", d)
	}
	p.Wake()
	if d := elapsed(t, p, long, false, poll.NoSocket); d > long/2 {
		t.Errorf("a wait took %v though it was woken", d)
	}
	if d := elapsed(t, p, nap, false, poll.NoSocket); d < almost {
		t.Errorf("a wake that is over ended a wait after %v", d)
	}
}

// TestWakeOn shows that a descriptor of the caller ends every wait until the caller
// removes it.
func TestWakeOn(t *testing.T) {
	p, _ := pair(t)
	ends := make([]int, 2)
	must.Do(t, unix.Pipe2(ends, unix.O_CLOEXEC))
	for _, fd := range ends {
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	p.WakeOn([2]int{ends[0], -1})
	if d := elapsed(t, p, nap, true, poll.NoSocket); d < almost {
		t.Errorf("a descriptor with nothing to read ended a wait after %v", d)
	}
	if _, err := unix.Write(ends[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, fds := range [][2]int{{ends[0], -1}, {-1, ends[0]}} {
		p.WakeOn(fds)
		for _, read := range []bool{true, false} {
			if d := elapsed(t, p, long, read, poll.NoSocket); d > long/2 {
				t.Errorf("a wait took %v though one of the descriptors %d can be read", d, fds)
			}
		}
	}
	p.WakeOn([2]int{-1, -1})
	if d := elapsed(t, p, nap, true, poll.NoSocket); d < almost {
		t.Errorf("a descriptor that was taken back ended a wait after %v", d)
	}
}

// However the two meet, a wait that begins after a wake, or is going on during
// one, ends.
func TestNoWakeIsLost(t *testing.T) {
	p, _ := pair(t)
	var waker sync.WaitGroup
	for i := range 4000 {
		read := i%2 == 0 // waits for sockets and waits for none are different
		waker.Go(p.Wake)
		if d := elapsed(t, p, long, read, poll.NoSocket); d > long/2 {
			t.Fatalf("wake %d was lost", i)
		}
		waker.Wait()
		for _, read := range []bool{true, false} { // the trace of a late one
			must.Do(t, p.Wait(0, read, poll.NoSocket))
		}
	}
}

func TestCloseWaitsForCallsUnderWay(t *testing.T) {
	p, far := pair(t)
	if !p.Enter() {
		t.Fatal("the poller is closed")
	}
	done := make(chan error, 1)
	go func() { done <- p.Close() }()
	for p.Enter() { // until Close has begun
		p.Leave()
	}
	select {
	case err := <-done:
		t.Fatalf("Close returned %v while a call was under way", err)
	default:
	}
	if _, err := unix.Write(far[0], []byte("x")); err != nil {
		t.Errorf("the socket was closed under a call: %v", err)
	}
	p.Leave()
	must.Do(t, <-done)
	if _, err := unix.Write(far[0], []byte("x")); err == nil {
		t.Error("the socket is still open after Close")
	}
	must.Fail(t, p.Close(), fabric.ErrClosed, "second close")
	must.Fail(t, p.Wait(-1, true, poll.NoSocket), fabric.ErrClosed, "wait after close")
	p.Wake()
}

func TestCloseEndsWaits(t *testing.T) {
	for i := range 200 {
		p, _ := pair(t)
		read := i%2 == 0
		done := make(chan error, 1)
		go func() {
			for {
				if err := p.Wait(-1, read, poll.NoSocket); err != nil {
					done <- err
					return
				}
			}
		}()
		var users sync.WaitGroup
		for range 3 {
			users.Go(func() {
				for p.Enter() {
					p.Wake()
					p.Leave()
				}
			})
		}
		must.Do(t, p.Close())
		users.Wait()
		if err := <-done; !errors.Is(err, fabric.ErrClosed) {
			t.Fatalf("the wait ended with %v", err)
		}
	}
}
