package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestListens distinguishes a listening port from a free one and from one that is only
// connected.
func TestListens(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil && strings.Contains(addr, "::") {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		must.Do(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		if !listens(port) {
			t.Errorf("somebody listens on %v, and it is not seen", l.Addr())
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		must.Do(t, err)
		if near := conn.LocalAddr().(*net.TCPAddr).Port; listens(near) {
			t.Errorf("port %d is the near end of a connection, and taken for one that is listened on", near)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if listens(port) {
			t.Errorf("nobody listens on %d any more, and it is not seen", port)
		}
		_ = conn.Close() // its peer is gone
	}
	for _, line := range []string{"", "sl local_address rem_address st", "0: nothing x 0A", "0: 0100007F:4A 0A"} {
		if listener(line, 0x4a) {
			t.Errorf("%q is taken for a socket that listens", line)
		}
	}
}

// TestPairFails checks that a server that exits at once is noticed without a wait, and
// that the error has its output.
func TestPairFails(t *testing.T) {
	p := programs{softhca: "sh", seconds: 1}
	s := connects(1)
	_, err := p.measurePair(context.Background(), &s)
	if err == nil || !strings.Contains(err.Error(), "sh") || strings.Contains(err.Error(), "deadline") {
		t.Errorf("sh is no server, but: %v", err)
	}
}
