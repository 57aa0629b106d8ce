//go:build linux

package poll

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
)

// NoSocket is the write argument of Wait when the caller does not wait for
// room.
const NoSocket = -1

// The states of a Poller's wait. Wake writes to the eventfd only in state
// waiting, so that it costs one atomic exchange while no thread sleeps.
const (
	idle uint32 = iota
	waiting
	woken
)

// none stands for no descriptors of WakeOn.
var none = [2]int{-1, -1}

// closedBit marks the use count of a Poller that was closed.
const closedBit = 1 << 32

// Poller owns the sockets of one port. Enter, Leave, Wake and Close are safe
// for concurrent use; Wait is for one goroutine at a time.
type Poller struct {
	state atomic.Uint32
	users atomic.Int64 // calls in progress, and closedBit
	freed chan struct{}

	socks   []int
	event   int
	watched atomic.Int32  // descriptor set by Watch, or -1
	also    [2]int        // descriptors set by WakeOn, or -1
	fds     []unix.PollFd // the sockets, the eventfd, watched, and also; used by Wait only
	left    unix.Timespec // used by Wait only
}

// New returns a poller that owns socks from now on, even if it fails.
func New(socks ...int) (*Poller, error) {
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		for _, s := range socks {
			err = errors.Join(err, unix.Close(s))
		}
		return nil, fmt.Errorf("poll: eventfd: %w", err)
	}
	event = fdmark.Take(event)
	p := &Poller{
		freed: make(chan struct{}),
		socks: socks,
		event: event,
		also:  none,
		fds:   make([]unix.PollFd, len(socks)+4),
	}
	p.watched.Store(-1)
	return p, nil
}

// Enter keeps the sockets open until Leave. It returns false after Close.
func (p *Poller) Enter() bool {
	if p.users.Add(1)&closedBit == 0 {
		return true
	}
	p.Leave()
	return false
}

// Leave undoes Enter.
func (p *Poller) Leave() {
	if p.users.Add(-1) == closedBit {
		p.release()
	}
}

// Wait blocks until a socket has something to read (if read is set), or socket
// number write has room to send (unless NoSocket), or Wake is called, or the
// timeout has passed (never, if negative). It may return early. With a timeout
// of 0 it yields the processor to other threads of the host, such as the
// peer's. It returns fabric.ErrClosed once the poller is closed.
func (p *Poller) Wait(timeout time.Duration, read bool, write int) error {
	if !p.Enter() {
		return fabric.ErrClosed
	}
	defer p.Leave()
	p.fds[len(p.socks)+1].Revents = 0
	if timeout == 0 {
		_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // never fails
		return p.closed()
	}
	if !p.state.CompareAndSwap(idle, waiting) {
		p.state.Store(idle) // Wake came before the sleep
		return p.closed()
	}
	p.arm(read, write)
	err := p.sleep(timeout)
	p.state.Store(idle)
	if p.fds[len(p.socks)].Revents != 0 {
		p.drain()
	}
	if err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	return p.closed()
}

// WaitRoom is Wait that, with write, also ends when socket number blocked, the
// last one without room, has room; at once if it is NoSocket.
func (p *Poller) WaitRoom(timeout time.Duration, read, write bool, blocked int) error {
	switch {
	case !write:
		blocked = NoSocket
	case blocked == NoSocket:
		timeout = 0
	}
	return p.Wait(timeout, read, blocked)
}

// arm selects the events that end the next sleep. Sockets to ignore get a
// negative descriptor, because poll would report their errors otherwise.
func (p *Poller) arm(read bool, write int) {
	for i, s := range p.socks {
		var events int16
		if read {
			events |= unix.POLLIN
		}
		if i == write {
			events |= unix.POLLOUT
		}
		p.fds[i] = unix.PollFd{Fd: int32(s), Events: events}
		if events == 0 {
			p.fds[i].Fd = -1
		}
	}
	p.fds[len(p.socks)] = unix.PollFd{Fd: int32(p.event), Events: unix.POLLIN}
	watched := p.watched.Load()
	if !read {
		watched = -1
	}
	p.fds[len(p.socks)+1] = unix.PollFd{Fd: watched, Events: unix.POLLIN}
	for i, fd := range p.also {
		p.fds[len(p.socks)+2+i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
}

// Watch makes each Wait for something to read also end when fd is readable, from the next one
// on; -1 means none. The caller keeps the descriptor open until Close, or another Watch and a
// Wake.
func (p *Poller) Watch(fd int) { p.watched.Store(int32(fd)) }

// Watched reports whether the descriptor of Watch was readable at the end of the last Wait. The
// goroutine that calls Wait calls it.
func (p *Poller) Watched() bool { return p.fds[len(p.socks)+1].Revents != 0 }

// WakeOn makes Wait also end when one of fds is readable; -1 means none. The goroutine
// that calls Wait calls it.
func (p *Poller) WakeOn(fds [2]int) { p.also = fds }

// brief is how long sleep blocks before it first yields to other goroutines.
const brief = 100 * time.Microsecond

// sleep waits for the events. The runtime does not know that ppoll blocks, so a goroutine
// that the caller made runnable may stay queued behind this thread for 10 ms or more.
// Therefore sleep blocks for brief, yields, and blocks again. Yielding first would wake an
// idle thread of the runtime, which costs some microseconds when the answer comes soon. A
// caller with descriptors of its own (WakeOn) is a thread of a program in C, which cannot yield
// without another thread that takes over and hands back. The runtime notices its sleep.
func (p *Poller) sleep(timeout time.Duration) error {
	if p.also == none && (timeout < 0 || timeout > brief) {
		began := time.Now()
		if err := p.sleepFor(brief); err != nil || p.happened() {
			return err
		}
		runtime.Gosched()
		if timeout > 0 {
			timeout = max(timeout-time.Since(began), 0)
		}
	}
	return p.sleepFor(timeout)
}

// sleepFor blocks until an event or the timeout, and fills in Revents. A negative timeout
// waits forever.
func (p *Poller) sleepFor(timeout time.Duration) error {
	var left *unix.Timespec
	if timeout >= 0 {
		p.left = unix.NsecToTimespec(int64(timeout))
		left = &p.left
	}
	return Wait(p.fds, left)
}

// happened reports whether an event ended the last sleep.
func (p *Poller) happened() bool {
	return slices.ContainsFunc(p.fds, happened)
}

// drain resets the eventfd. The eventfd is nonblocking, and its value does not
// matter.
func (p *Poller) drain() {
	var b [8]byte
	_, _ = unix.Read(p.event, b[:])
}

func (p *Poller) closed() error {
	if p.users.Load()&closedBit != 0 {
		return fabric.ErrClosed
	}
	return nil
}

// Wake ends the current or the next Wait. It does not block and is cheap when
// no goroutine waits.
func (p *Poller) Wake() {
	if p.state.Swap(woken) == waiting && p.Enter() {
		p.signal()
		p.Leave()
	}
}

// signal makes the eventfd readable. It fails only if the eventfd is already
// readable.
func (p *Poller) signal() {
	one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // not zero in either byte order
	_, _ = unix.Write(p.event, one[:])
}

// Close wakes Wait, waits for the calls in progress and closes the sockets. A
// second Close returns fabric.ErrClosed at once.
func (p *Poller) Close() error {
	if !p.Enter() {
		return fabric.ErrClosed
	}
	for {
		old := p.users.Load()
		if old&closedBit != 0 {
			p.Leave()
			return fabric.ErrClosed
		}
		if p.users.CompareAndSwap(old, old|closedBit) {
			break
		}
	}
	p.signal()
	p.Leave()
	<-p.freed
	return nil
}

// release closes the descriptors. Exactly one call sees the use count fall to
// zero after closedBit was set, except that a late Enter can make it fall
// again: the exchange ignores that one.
func (p *Poller) release() {
	if !p.users.CompareAndSwap(closedBit, closedBit<<1|closedBit) {
		return
	}
	for _, s := range p.socks {
		_ = unix.Close(s) // sockets without linger: nothing to report
	}
	_ = unix.Close(p.event)
	close(p.freed)
}
