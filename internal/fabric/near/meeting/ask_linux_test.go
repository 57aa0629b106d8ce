//go:build !portable

package meeting

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// TestAsk asks a host for the number of its peers. Then it asks a socket that does not exist, and
// sockets that answer nonsense.
func TestAsk(t *testing.T) {
	c, _ := configOf(identity(1))
	c.Peers = func() int { return 17 }
	h, err := Listen(c)
	must.Do(t, err)
	defer h.Close()
	base := name(identity(1).Addr)
	if n, err := Ask(base, identity(1).Key()); err != nil || n != 17 {
		t.Errorf("the host has %d peers, %v; want 17", n, err)
	}
	if n := h.Refused.Load(); n != 0 {
		t.Errorf("%d inquiries are refused", n)
	}
	_, err = Ask(base, identity(2).Key())
	must.Fail(t, err, ErrNone, "a host that does not exist")
	for i, m := range []message{
		{kind: status, number: MaxPeers + 1, from: identity(10)},
		{kind: status, number: 1, from: identity(3)},
		{kind: welcome, number: 1, from: identity(12)},
		{kind: refusal, number: 1, from: identity(13)},
	} {
		answer(t, nameOf(base, uint8(10+i)), m)
		_, err = Ask(base, identity(10+i).Key())
		must.Fail(t, err, ErrMessage, "a false answer")
	}
}

// answer answers the next connection to a name with a message.
func answer(t *testing.T, name string, m message) {
	t.Helper()
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	must.Do(t, err)
	must.Do(t, unix.Bind(l, &unix.SockaddrUnix{Name: name}))
	must.Do(t, unix.Listen(l, 1))
	m.to = m.from
	go func() {
		defer unix.Close(l)
		fd, _, err := unix.Accept(l)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		b := make([]byte, messageLen)
		if _, err := unix.Read(fd, b); err == nil {
			_, _ = unix.Write(fd, m.encode()) // the other side fails the test
		}
	}()
}
