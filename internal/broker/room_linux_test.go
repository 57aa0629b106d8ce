//go:build !portable

package broker

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// TestNoRoomForDescriptors passes descriptors to a process at its limit of descriptors: the
// error says so, and the received ones are closed. The error does not call the message too
// long.
func TestNoRoomForDescriptors(t *testing.T) {
	ends, err := socketPair()
	must.Do(t, err)
	var wires [2]*wire
	for i, fd := range ends {
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		wires[i] = newWire(c.(*net.UnixConn))
		defer wires[i].Close()
	}
	null, err := os.Open(os.DevNull)
	must.Do(t, err)
	defer null.Close()
	give := []int{int(null.Fd()), int(null.Fd()), int(null.Fd())}

	before := descriptors(t)
	pass := func(room int) ([]int, error) {
		must.Do(t, wires[0].send(&message{Op: opWho, Version: version}, give...))
		var limit unix.Rlimit
		must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
		if room >= 0 {
			lower := limit
			lower.Cur = uint64(nextFree(t) + room)
			must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &lower))
		}
		_, fds, err := wires[1].receive()
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		return fds, err
	}
	for _, room := range []int{0, 1} {
		if _, err := pass(room); !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), "ulimit") {
			t.Errorf("with room for %d descriptors: %v", room, err)
		}
	}
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors are open, %d were before", now, before)
	}
	fds, err := pass(-1)
	if err != nil || len(fds) != len(give) {
		t.Errorf("with room there are %d descriptors, and %v", len(fds), err)
	}
	closeAll(fds)
}

// nextFree returns the lowest number that is free.
func nextFree(t *testing.T) int {
	t.Helper()
	fd, err := unix.Dup(0)
	must.Do(t, err)
	must.Do(t, unix.Close(fd))
	return fd
}
