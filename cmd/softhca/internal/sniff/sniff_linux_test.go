package sniff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// TestListen hears what passes the loopback interface of a network of its own: each
// packet once, what was sent by one system call cut as it goes out, and nothing that
// is not for RoCE's port.
func TestListen(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	s, err := Open("lo")
	must.Do(t, err)
	for _, c := range []struct {
		to      string
		n, each int // bytes, and of each datagram; 0 is one
	}{
		{"127.0.0.2:4791", 20, 0}, {"127.0.0.2:4790", 21, 0}, {"127.0.0.3:4791", 3000, 1000}, {"[::1]:4791", 2500, 1000}, {"[::1]:4790", 22, 0}, {"127.0.0.2:4791", 23, 0},
	} {
		send(t, c.to, c.n, c.each)
	}
	want := []string{"127.0.0.2 20", "127.0.0.3 1000", "127.0.0.3 1000", "127.0.0.3 1000", "::1 1000", "::1 1000", "::1 500", "127.0.0.2 23"}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var got []string
	begin := time.Now()
	err = s.Listen(ctx, func(ip []byte, at time.Time) error {
		h, payload, ok := ipudp.Parse(ip)
		if !ok || !bytes.Equal(payload, bytes.Repeat([]byte{7}, len(payload))) || at.After(time.Now()) || begin.Sub(at) > time.Minute {
			t.Errorf("heard at %v: % x", at, ip)
		}
		if got = append(got, fmt.Sprintf("%v %d", h.Dst, len(payload))); len(got) == len(want) {
			stop()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if missed, err := s.Close(); missed != 0 || err != nil {
		t.Errorf("%d packets were missed; %v", missed, err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, not %q", got, want)
	}
}

// send sends n bytes, cut by the kernel or a device into datagrams of each bytes.
func send(t *testing.T, to string, n, each int) {
	t.Helper()
	conn, err := net.Dial("udp", to)
	must.Do(t, err)
	defer conn.Close()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	must.Do(t, err)
	if each > 0 {
		if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, each) }); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
	}
	if _, err := conn.Write(bytes.Repeat([]byte{7}, n)); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
		t.Fatal(err)
	}
}

// TestEmitFails ends the capture with the error of its receiver.
func TestEmitFails(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	s, err := Open("lo")
	must.Do(t, err)
	send(t, "127.0.0.2:4791", 20, 0)
	full := errors.New("the disk is full")
	if err := s.Listen(t.Context(), func([]byte, time.Time) error { return full }); !errors.Is(err, full) {
		t.Errorf("ended with %v", err)
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefusals checks the advice in the errors for an unknown name and for
// missing privilege.
func TestRefusals(t *testing.T) {
	if _, err := Open("no0"); err == nil || !strings.Contains(err.Error(), "ip link") {
		t.Errorf("an interface that is not there: %v", err)
	}
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // forever: the thread has no rights any more
		var none [2]unix.CapUserData
		err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
		if err == nil {
			_, err = Open("lo")
		}
		refused <- err
	}()
	if err := <-refused; !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "setcap") {
		t.Errorf("without privilege: %v", err)
	}
}
