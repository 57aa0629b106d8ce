package connections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
)

// Options are the options of a side.
type Options struct {
	Host        string // client: the server
	Port        uint16
	Connections int
	Cycles      int  // within one process: lives of connections; 0: none
	Window      int  // within one process: connections that exist at a time
	Events      bool // within one process: each side sleeps in its own thread until an event, instead of one thread that polls for both
}

// maxConnections is the maximum number of a client's connections.
const maxConnections = 1 << 15

// Attributes of the connections.
const (
	retries    = 2               // of the resolution of an address, and of packets
	resolveDue = 2 * time.Second // timeout of a resolution
)

// Check returns an error for a wrong option, by its name on the command line.
func (o *Options) Check() error {
	switch {
	case o.Connections < 1 || o.Connections > maxConnections:
		return fmt.Errorf("--connections %d: want 1 to %d", o.Connections, maxConnections)
	case o.Cycles < 0:
		return fmt.Errorf("--cycles %d: want 0 or more", o.Cycles)
	case o.Window < 1 || o.Window > maxConnections:
		return fmt.Errorf("--window %d: want 1 to %d connections at a time", o.Window, maxConnections)
	}
	return nil
}

// Side is a client or a server.
type Side struct {
	Options
	Opener adapter.Opener
	Err    io.Writer // progress, and failures of single connections
}

// Server serves clients until ctx ends, which is no error.
func (s Side) Server(ctx context.Context) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	st, err := s.Opener.Server(s.Port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	srv, err := newServer(st, s.Err, 0)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.Err, "%s\n", st.Listening()) // a write error does not matter
	if err := srv.run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// Client measures with a server. If connections fail, the summary covers the others.
func (s Side) Client(ctx context.Context) (sum Summary, err error) {
	if err := s.Check(); err != nil {
		return sum, err
	}
	st, err := s.Opener.Client(ctx, s.Host, s.Port)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return s.phases(ctx, st, sleeper{})
}

// phases takes all connections through the phases.
func (s Side) phases(ctx context.Context, st *adapter.Adapter, w waiter) (sum Summary, err error) {
	c := newClient(&s, st, w)
	if err = c.Err(); err == nil {
		err = c.run(ctx)
	}
	sum = c.summary()
	return sum, errors.Join(err, c.close())
}
