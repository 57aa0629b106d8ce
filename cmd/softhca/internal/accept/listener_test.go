package accept

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

const limit = 100

// listen returns a listener for messages that end with a newline.
func listen(t *testing.T) *Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	n := New(l, limit, func(b []byte) bool { return bytes.IndexByte(b, '\n') >= 0 })
	t.Cleanup(func() { _ = n.Close() }) // a test may have closed it
	return n
}

// dial connects a client that sends a text.
func dial(t *testing.T, n *Listener, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", n.l.Addr().String())
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// gone fails unless the server closes a client's connection well before firstDue.
func gone(t *testing.T, what string, c net.Conn) {
	t.Helper()
	must.Do(t, c.SetReadDeadline(time.Now().Add(firstDue/2)))
	var timeout net.Error
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%s: the connection stays open (%v)", what, err)
	}
}

// TestSilentClients has clients that say nothing, or only the beginning of a message, in front
// of one that speaks: it is served at once.
func TestSilentClients(t *testing.T) {
	n := listen(t)
	first := dial(t, n, "")
	for i := range MaxWaiting - 2 {
		dial(t, n, "never"[:i%5])
	}
	dial(t, n, "hello\nand more")
	begin := time.Now()
	c, err := n.Accept()
	must.Do(t, err)
	defer c.Close()
	if waited := time.Since(begin); waited > firstDue/2 {
		t.Errorf("a client was served after %v", waited)
	}
	b := make([]byte, len("hello\nand more"))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello\nand more" {
		t.Errorf("the server reads %q, %v", b, err)
	}
	// One more than may wait ends the oldest, and only that.
	dial(t, n, "")
	dial(t, n, "")
	gone(t, "the oldest of too many", first)
	n.mu.Lock()
	if len(n.waiting) > MaxWaiting {
		t.Errorf("%d connections wait, at most %d may", len(n.waiting), MaxWaiting)
	}
	n.mu.Unlock()
	must.Do(t, dial(t, n, "").Close())      // as a port scanner
	must.Do(t, dial(t, n, "again").Close()) // the server is to say what is wrong
	if c, err := n.Accept(); err != nil {
		t.Error(err)
	} else if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestEndlessMessage ends a client whose first message is too long.
func TestEndlessMessage(t *testing.T) {
	n := listen(t)
	gone(t, "a message without end", dial(t, n, string(bytes.Repeat([]byte{'x'}, limit))))
}

// TestClose ends Accept and the clients that wait.
func TestClose(t *testing.T) {
	n := listen(t)
	silent := dial(t, n, "")
	spoken := dial(t, n, "hello\n")
	must.Do(t, n.Close())
	for range 2 {
		c, err := n.Accept()
		if err == nil { // it had spoken before
			_, err = c.Close(), net.ErrClosed
		}
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed listener: %v", err)
		}
	}
	gone(t, "a silent client", silent)
	gone(t, "one that has spoken", spoken)
}

// exhausted is a listener whose first call of Accept fails, as when no descriptors are left.
type exhausted struct {
	net.Listener
	failed bool // only the goroutine that accepts uses it
}

func (l *exhausted) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

// TestAcceptFails has one call of Accept fail: clients are served after it.
func TestAcceptFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	n := New(&exhausted{Listener: l}, limit, func([]byte) bool { return true })
	t.Cleanup(func() { _ = n.Close() })
	dial(t, n, "hello")
	c, err := n.Accept()
	if err != nil {
		t.Fatalf("the server ends with %v", err)
	}
	must.Do(t, c.Close())
}

// TestAddAfterClose has a connection arrive while the listener closes: it is closed, and not
// kept.
func TestAddAfterClose(t *testing.T) {
	n := listen(t)
	must.Do(t, n.Close())
	server, client := net.Pipe()
	n.add(server)
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a connection after Close: %v", err)
	}
	if len(n.waiting) != 0 {
		t.Errorf("%d connections wait", len(n.waiting))
	}
}
