package namespace

import (
	"net"
	"strings"
	"testing"
)

// TestListens distinguishes a listening port from a free port and from a port that is only
// connected.
func TestListens(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil && strings.Contains(addr, "::") {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if !heard(t, port) {
			t.Errorf("somebody listens on %v, and it is not seen", l.Addr())
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if near := conn.LocalAddr().(*net.TCPAddr).Port; heard(t, near) {
			t.Errorf("port %d is the near end of a connection, and taken for one that is listened on", near)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if heard(t, port) {
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

func heard(t *testing.T, port int) bool {
	t.Helper()
	is, err := Listens(port)
	if err != nil {
		t.Error(err)
	}
	return is
}
