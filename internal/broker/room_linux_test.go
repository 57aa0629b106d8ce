//go:build !portable

package broker

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoRoomForDescriptors passes descriptors to a process at its limit of descriptors: the
// error says so, and the received ones are closed. The error does not call the message too
// long.
func TestNoRoomForDescriptors(t *testing.T) {
	ends, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	give := []int{int(null.Fd()), int(null.Fd()), int(null.Fd())}

	before := descriptors(t)
	pass := func(room int) ([]int, error) {
		if err := wires[0].send(&message{Op: opWho, Version: version}, give...); err != nil {
			t.Fatal(err)
		}
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if room >= 0 {
			lower := limit
			lower.Cur = uint64(nextFree(t) + room)
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
				t.Fatal(err)
			}
		}
		_, fds, err := wires[1].receive()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	return fd
}
