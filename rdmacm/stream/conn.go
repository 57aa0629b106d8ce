package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Conn is a connection between two programs that use Dial and Listener: a
// net.Conn, a stream of bytes in both directions over one RC queue pair. Any
// number of goroutines may use it.
//
// Read returns io.EOF after the peer calls Close or CloseWrite, and an error that
// unwraps to ECONNRESET after the peer breaks the connection. If the peer vanishes,
// Write fails with ETIMEDOUT while sent data is not acknowledged. A Read, and a Write that
// waits until the peer takes earlier data, does not notice it: set a deadline. The peer
// takes data only while its program calls Read or Write. Errors other than io.EOF are
// *net.OpError.
type Conn struct {
	id     *rdmacm.ID
	lease  *lease // nil if the Manager is the caller's
	linger time.Duration

	readers, writers lock.Mutex[lock.ConnTurn] // one at a time
	readBy, writeBy  deadline

	stream *stream
}

var _ net.Conn = (*Conn)(nil)

// errNoConn is returned by calls on a nil Conn.
var errNoConn = fmt.Errorf("no connection: %w", ib.EINVAL)

// newConn returns a Conn for an ID that has an adapter. On failure the caller destroys the
// ID.
func newConn(id *rdmacm.ID, o *options) (*Conn, error) {
	if err := id.SetAutoDisconnect(true); err != nil {
		return nil, err
	}
	s, err := newStream(id, o)
	if err != nil {
		return nil, err
	}
	c := &Conn{id: id, linger: o.linger, stream: s}
	c.readBy.init()
	c.writeBy.init()
	return c, nil
}

// ID returns the connection's ID. If the program destroys it or its queue pair, the calls of the
// Conn fail with an error that unwraps to rdmacm.ErrClosed; Close still destroys the rest.
func (c *Conn) ID() *rdmacm.ID {
	if c == nil {
		return nil
	}
	return c.id
}

// QP returns the connection's queue pair, to query it. Work requests that the
// program posts to it disturb the stream.
func (c *Conn) QP() *verbs.QP {
	if c == nil {
		return nil
	}
	return c.stream.qp
}

// LocalAddr returns an Addr.
func (c *Conn) LocalAddr() net.Addr { return Addr{c.ID().LocalAddr()} }

// RemoteAddr returns an Addr.
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.ID().PeerAddr()} }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, true, true) }

// SetReadDeadline sets when Read stops waiting, with os.ErrDeadlineExceeded; the zero
// time is never. It also applies to calls in progress. It fails only on a nil Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, true, false) }

// SetWriteDeadline does the same for Write and CloseWrite. A Write ends at its deadline even if
// the peer takes the data as fast as it comes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, false, true) }

func (c *Conn) setDeadlines(t time.Time, read, write bool) error {
	if c == nil {
		return errNoConn
	}
	if read {
		c.readBy.set(t)
	}
	if write {
		c.writeBy.set(t)
	}
	return nil
}

// Read waits for bytes and moves them to b.
func (c *Conn) Read(b []byte) (n int, err error) {
	err = c.call("read", true, func(s *stream) (outcome, error) {
		switch {
		case len(b) == 0:
			return stepDone, nil
		case len(s.full) > 0:
			n = s.read(b)
			return stepDone, nil
		case s.eof:
			return stepDone, io.EOF
		}
		return stepWaits, s.readErr()
	})
	return n, err
}

// Write sends b and returns once all of it is posted for sending. Its bytes are not mixed with
// those of concurrent calls. If it fails, the n bytes may have reached the peer or not.
func (c *Conn) Write(b []byte) (n int, err error) {
	err = c.call("write", false, func(s *stream) (outcome, error) {
		switch {
		case n < len(b) && !s.ready():
			return stepWaits, s.err
		case n < len(b):
			if n += s.send(b[n:]); n < len(b) {
				return stepMoves, nil
			}
			s.poll()
		}
		return stepDone, s.err
	})
	return n, err
}

// CloseWrite ends this side's data: the peer reads io.EOF after it. The other direction
// continues. CloseWrite waits until the peer can take the end; the write deadline applies.
// Afterwards Write and CloseWrite return net.ErrClosed.
func (c *Conn) CloseWrite() error {
	return c.call("close", false, func(s *stream) (outcome, error) {
		if s.err == nil && s.finish() {
			return stepDone, nil
		}
		return stepWaits, s.err
	})
}

// outcome is how far a step of a call has come.
type outcome uint8

const (
	stepWaits outcome = iota // for the peer
	stepMoves                // the next step can follow at once
	stepDone
)

// call runs step, with the lock of the stream, until it is done or fails, and
// sleeps while it waits. Before each step it looks whether the Conn was closed or the
// deadline has passed, and other calls get the lock. One call of each direction runs at a
// time.
func (c *Conn) call(op string, reading bool, step func(*stream) (outcome, error)) error {
	if c == nil {
		return errNoConn
	}
	turn, by := &c.writers, &c.writeBy
	if reading {
		turn, by = &c.readers, &c.readBy
	}
	turn.Lock()
	defer turn.Unlock()
	expired := by.wait()
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.poll()
		var o outcome
		var err error
		switch {
		case s.closed.Load(), s.done && !reading:
			err = net.ErrClosed
		case isClosed(expired):
			err = os.ErrDeadlineExceeded
		default:
			o, err = step(s)
		}
		switch {
		case err == io.EOF: // not wrapped: readers compare with ==
			return err
		case err != nil:
			return c.failure(op, err)
		case o == stepDone:
			return nil
		case o == stepMoves:
			s.mu.Unlock()
			s.mu.Lock()
		default:
			s.wait(expired)
		}
	}
}

// failure returns an error as net's connections do.
func (c *Conn) failure(op string, err error) error {
	return &net.OpError{Op: op, Net: "rdma", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Close ends the connection: it sends the written data, and then both sides disconnect. It
// waits at most the time of WithLinger. If the peer's adapter has not acknowledged the data
// by then, Close returns an error that unwraps to os.ErrDeadlineExceeded. Close returns nil
// if only the answer to the disconnect is missing, and if the connection was already
// broken: to know that the peer's program has all data, call CloseWrite, and Read until
// io.EOF. Data that was received and not read is discarded. Calls of Read and Write in progress
// return net.ErrClosed at once, and so does Close if the Conn is already closed.
func (c *Conn) Close() error {
	if c == nil {
		return errNoConn
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.linger)
	defer cancel()
	flushed, err := c.flush(ctx.Done())
	if err != nil {
		return c.failure("close", err)
	}
	err = c.depart(ctx)
	if err == nil && !flushed {
		err = fmt.Errorf("the peer has not received all written data: %w", os.ErrDeadlineExceeded)
	}
	err = errors.Join(err, c.release())
	if err != nil {
		return c.failure("close", err)
	}
	return nil
}

// flush sends the remaining data and the end of the stream. It returns false if that
// took too long; a broken stream has nothing left to send.
func (c *Conn) flush(late <-chan struct{}) (bool, error) {
	s := c.stream
	if s.closed.Swap(true) {
		return false, net.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeAll()
	for {
		s.poll()
		if s.err != nil || s.finish() && s.idle() {
			return true, nil
		}
		if !s.wait(late) {
			return false, nil
		}
	}
}

// depart disconnects and waits for the peer to agree.
func (c *Conn) depart(ctx context.Context) error {
	if err := c.id.Disconnect(); err != nil {
		if errors.Is(err, ib.ENODEV) || errors.Is(err, rdmacm.ErrClosed) {
			return nil // the adapter is gone, or the Manager has done it
		}
		return err
	}
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.over {
		if !s.sleep(ctx.Done()) {
			return nil // out of time
		}
	}
	return nil
}

// migrate gives the ID an event channel to itself.
func (c *Conn) migrate(m *rdmacm.Manager) error {
	c.stream.events = m.NewEventChannel()
	return c.id.Migrate(c.stream.events)
}

// release destroys the objects of the connection.
func (c *Conn) release() error {
	err := c.id.Destroy()
	if errors.Is(err, rdmacm.ErrClosed) { // by closing the Manager
		err = nil
	}
	if err == nil {
		err = c.stream.destroy()
	}
	if c.stream.events != nil {
		err = errors.Join(err, c.stream.events.Close())
	}
	return errors.Join(err, c.lease.release())
}

// await takes the next event of a channel, which must have the given type.
func await(ctx context.Context, ch *rdmacm.EventChannel, t rdmacm.EventType) (*rdmacm.Event, error) {
	e, err := ch.Get(ctx)
	if err != nil {
		return nil, err
	}
	e.Ack()
	switch {
	case e.Err != nil:
		return nil, e.Err
	case e.Type != t:
		return nil, fmt.Errorf("%v: %w", e.Type, ib.ECONNRESET)
	}
	return e, nil
}
