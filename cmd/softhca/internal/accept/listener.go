package accept

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Bounds on clients.
const (
	// MaxWaiting is how many connections wait for the end of their first message, and how
	// many for the server after that. One more ends the oldest of the former, or is ended.
	MaxWaiting = 64
	// firstDue is the time within which the first message must arrive.
	firstDue = 10 * time.Second
	// acceptPause is the pause after a failed accept.
	acceptPause = 50 * time.Millisecond
	chunk       = 4 << 10
)

// Listener is a listener of a server that serves one client at a time.
type Listener struct {
	l        net.Listener
	complete func([]byte) bool
	limit    int
	spoken   chan net.Conn // what Accept returns
	failed   chan error    // gets net.ErrClosed when the listener is closed

	mu      sync.Mutex // guards the fields below, and what is sent to spoken
	closed  bool
	waiting []net.Conn // whose first message is not complete, in the order in which they came
}

// New returns a listener over l, which belongs to it. complete reports whether bytes that a
// client has sent contain its first message; a client that sends limit bytes without it is
// disconnected.
func New(l net.Listener, limit int, complete func([]byte) bool) *Listener {
	n := &Listener{l: l, complete: complete, limit: limit, spoken: make(chan net.Conn, MaxWaiting), failed: make(chan error, 1)}
	go n.listen()
	return n
}

// Accept returns the connection of the next client that has sent its first message, which
// the caller reads from the connection. It blocks, and fails when the listener is closed.
func (n *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-n.spoken:
		return c, nil
	case err := <-n.failed:
		n.failed <- err // for the next call
		return nil, err
	}
}

// Close closes the listener, and the connections that Accept has not returned.
func (n *Listener) Close() error {
	err := n.l.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, c := range n.waiting {
		_ = c.Close() // its client has said nothing yet
	}
	for {
		select {
		case c := <-n.spoken:
			_ = c.Close()
		default:
			return err
		}
	}
}

func (n *Listener) listen() {
	for {
		c, err := n.l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			n.failed <- err
			return
		case err != nil: // for example, no descriptors are left
			time.Sleep(acceptPause)
		default:
			n.add(c)
			go n.hear(c)
		}
	}
}

// add notes a connection that waits, and ends the oldest one if there are too many.
func (n *Listener) add(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = c.Close()
		return
	}
	if len(n.waiting) == MaxWaiting {
		_ = n.waiting[0].Close()
		n.waiting = slices.Delete(n.waiting, 0, 1)
	}
	n.waiting = append(n.waiting, c)
}

// hear reads the first message of a client, and hands the connection to Accept.
func (n *Listener) hear(c net.Conn) {
	first, err := n.read(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.waiting, c); i >= 0 {
		n.waiting = slices.Delete(n.waiting, i, i+1)
	}
	if err == nil && !n.closed {
		select {
		case n.spoken <- &conn{Conn: c, r: io.MultiReader(bytes.NewReader(first), c)}:
			return
		default: // as many wait for the server as may
		}
	}
	_ = c.Close()
}

// read returns what a client has sent when its first message is complete, or when the
// client closes the connection after it has begun. A client that connects and closes, as
// port scanners do, is none.
func (n *Listener) read(c net.Conn) (first []byte, err error) {
	if err := c.SetReadDeadline(time.Now().Add(firstDue)); err != nil {
		return nil, err
	}
	for !n.complete(first) {
		if len(first) >= n.limit {
			return nil, io.ErrShortBuffer
		}
		at := len(first)
		first = append(first, make([]byte, min(chunk, n.limit-at))...)
		got, err := c.Read(first[at:])
		first = first[:at+got]
		if err == io.EOF && len(first) > 0 {
			break // the server learns what the client has said, and that it has gone
		}
		if err != nil && !n.complete(first) {
			return nil, err
		}
	}
	return first, c.SetReadDeadline(time.Time{})
}

// conn is a connection whose first bytes were read already.
type conn struct {
	net.Conn
	r io.Reader
}

// Read reads the first message, and then from the connection.
func (c *conn) Read(b []byte) (int, error) { return c.r.Read(b) }
