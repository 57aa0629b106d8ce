package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/accept"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/verbs"
)

// Open opens the adapter of a side. local is the local address of the TCP connection:
// the adapter's address unless the user chose another.
type Open func(local netip.Addr) (hca *verbs.Context, closer func() error, err error)

// Side is a client or a server.
type Side struct {
	Options
	Open Open
	// OpenFirst is for an Open that does not need the connection's address: it opens
	// the adapter, and reports its errors, before the side waits for the other one.
	OpenFirst bool
	// Waiting, if set, is called when a server begins to wait for its client.
	Waiting func()
	Out     io.Writer // gets a line for each end of each connection
}

// exchangeTimeout limits the duration of the exchange of addresses.
const exchangeTimeout = 30 * time.Second

// Client runs the side that sends first, with the server at addr, a host and port. It
// returns after the last message, when ctx ends, when the other side has failed, or
// with the first error, after it has closed the adapter.
func (s Side) Client(ctx context.Context, addr string) (Result, error) {
	return s.run(ctx, true, func() (net.Conn, error) {
		d := net.Dialer{Timeout: exchangeTimeout}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("no server at %s: is it running, and its port the same? %w", addr, text.Bare(err))
		}
		return conn, nil
	})
}

// Server is the counterpart of Client: it serves the first client that sends its
// addresses to l, and closes l.
func (s Side) Server(ctx context.Context, inner net.Listener) (Result, error) {
	length := destLen * s.dests()
	l := accept.New(inner, length, func(b []byte) bool { return len(b) >= length })
	defer l.Close()
	return s.run(ctx, false, func() (net.Conn, error) {
		if s.Waiting != nil {
			s.Waiting()
		}
		defer context.AfterFunc(ctx, func() { _ = l.Close() })() // only to end Accept
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("wait for the client: %w", err)
		}
		return conn, nil
	})
}

// run opens the adapter and the connection, the adapter first with OpenFirst, and calls
// play.
func (s Side) run(ctx context.Context, client bool, meet func() (net.Conn, error)) (r Result, err error) {
	if err := s.Check(); err != nil {
		return r, err
	}
	if s.OpenFirst {
		hca, closer, err := s.Open(netip.Addr{})
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, closer()) }()
		s.Open = func(netip.Addr) (*verbs.Context, func() error, error) { return hca, func() error { return nil }, nil }
	}
	conn, err := meet()
	if err != nil {
		return r, err
	}
	defer conn.Close()
	r, err = s.play(ctx, conn, client)
	tell(conn, err)
	return r, err
}

// play exchanges addresses and then messages.
func (s Side) play(ctx context.Context, conn net.Conn, client bool) (r Result, err error) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // only to end reads
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return r, fmt.Errorf("address of the connection: %w", err)
	}
	addr := local.Addr().Unmap().WithZone("")
	hca, closer, err := s.Open(addr)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, closer()) }()
	e, err := newSession(hca, s.Options, addr)
	if err != nil {
		return r, err
	}
	e.client = client
	if err := s.exchange(conn, e); err != nil {
		return r, errors.Join(ctx.Err(), err)
	}
	ctx, cancel := watch(ctx, conn, client)
	defer cancel()
	return e.run(ctx)
}

// exchange exchanges the addresses and connects the queue pairs of both sides.
func (s Side) exchange(conn net.Conn, e *session) error {
	if err := conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return fmt.Errorf("exchange of addresses: %w", err)
	}
	for i := range e.local {
		fmt.Fprintf(s.Out, "  local address:  %s\n", e.show(i, &e.local[i]))
	}
	mine := make([]dest, s.dests())
	copy(mine, e.local)
	var theirs []dest
	var err error
	if e.client {
		if theirs, err = clientExchange(conn, mine); err == nil {
			err = e.connect(theirs)
		}
	} else {
		theirs, err = serverExchange(conn, mine, e.connect)
	}
	if err != nil {
		return err
	}
	for i := range e.local {
		fmt.Fprintf(s.Out, "  remote address: %s\n", e.show(i, &theirs[i]))
	}
	return conn.SetDeadline(time.Time{}) // the peer's outcome may come at any time
}

// Result is what a run measured.
type Result struct {
	Size    int           // bytes of a message
	Iters   int           // messages each way
	Elapsed time.Duration // from the first send to the last completion
}

// Text prints the two lines that the Linux programs print.
func (r Result) Text(w io.Writer) error {
	seconds := r.Elapsed.Seconds()
	total := 2 * int64(r.Size) * int64(r.Iters)
	_, err := fmt.Fprintf(w, "%d bytes in %.2f seconds = %.2f Mbit/sec\n%d iters in %.2f seconds = %.2f usec/iter\n",
		total, seconds, float64(total)*8/seconds/1e6, r.Iters, seconds, seconds*1e6/float64(r.Iters))
	return err
}

// Summary is a Result as JSON.
type Summary struct {
	Type        string  `json:"type"`                  // rc, uc, ud, srq or rd
	Size        int     `json:"size"`                  // bytes of a message
	QPs         int     `json:"qps"`                   // queue pairs
	Iters       int     `json:"iters"`                 // messages each way
	Bytes       int64   `json:"bytes"`                 // both ways
	Seconds     float64 `json:"seconds"`               // from the first send to the last completion
	Gbps        float64 `json:"gbps"`                  // both ways
	IterUS      float64 `json:"iter_us"`               // a message to the peer and back
	Interrupted bool    `json:"interrupted,omitempty"` // the command was ended by a signal before all messages were through
}

// Summary returns the result for JSON.
func (r Result) Summary(o *Options) Summary {
	s := Summary{
		Type: kindNames[o.Kind], Size: r.Size, QPs: o.QPs, Iters: r.Iters,
		Bytes: 2 * int64(r.Size) * int64(r.Iters), Seconds: r.Elapsed.Seconds(),
	}
	if r.Iters > 0 && r.Elapsed > 0 { // JSON has no infinity
		s.Gbps, s.IterUS = float64(s.Bytes)*8/s.Seconds/1e9, s.Seconds*1e6/float64(s.Iters)
	}
	return s
}
