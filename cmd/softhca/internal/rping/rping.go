package rping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	words "github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/rdmacm"
)

// Options are the options of a side.
type Options struct {
	Host   string // server: the address to bind to, "" for any; client: the server
	Source string // client: local address; "": by route
	Port   string
	Size   int // bytes of the text, its final zero included
	Count  int // client: pings; 0 goes on until ctx ends

	Verbose    bool // print the received text
	Validate   bool // client: compare the returned text with the sent one
	Debug      bool // print every step
	Persistent bool // server: serve many clients instead of one
	OwnQP      bool // create and move the queue pair without rdmacm

	Idle time.Duration // give up after this time without an event; 0: never
}

// DefaultSize is the default of Options.Size, as in the Linux program.
const DefaultSize = 64

// Limits of Options.Size: the shortest holds the longest number of a ping.
const (
	minSize = len("rdma-ping-2147483647: ") + 1
	maxSize = 1<<16 - 1
)

// Check returns an error for wrong options.
func (o *Options) Check() error {
	switch {
	case o.Size < minSize || o.Size > maxSize:
		return fmt.Errorf("size %d: want %d to %d", o.Size, minSize, maxSize)
	case o.Count < 0:
		return fmt.Errorf("count %d: want a number of pings, or 0 for no end", o.Count)
	case o.Idle < 0:
		return fmt.Errorf("idle %v: want a time, or 0 for no limit", o.Idle)
	}
	return nil
}

// The roles.
const (
	client = "client"
	server = "server"
)

// Side is a client or a server.
type Side struct {
	Options
	Opener adapter.Opener
	Out    io.Writer // results
	Err    io.Writer // everything else
}

func (s Side) printer() *printer { return &printer{out: s.Out, err: s.Err, debug: s.Debug} }

// Client connects to a server and pings it. When ctx ends, it disconnects; with Count
// 0 the end of ctx is no error.
func (s Side) Client(ctx context.Context) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	a, err := s.Opener.Client(ctx, s.Source, s.Host, s.Port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	e, err := newEndpoint(s.printer(), &s.Options, a, nil)
	if err != nil {
		return err
	}
	e.step("created cm_id %p", e.ID)
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.connect(ctx); err != nil {
		return e.explain(err)
	}
	n, err := e.pings(ctx)
	if s.Count == 0 && ctx.Err() != nil {
		// A write error does not matter.
		_, _ = fmt.Fprintf(s.Err, "interrupted after %s\n", words.Count(n, "ping", "pings"))
	}
	gone := e.hangUp(ctx)
	return errors.Join(s.outcome(ctx, n, err), gone)
}

// outcome returns the error of a client's pings.
func (s Side) outcome(ctx context.Context, n int, err error) error {
	endless := s.Count == 0
	if n == 0 && s.Size > DefaultSize && errors.Is(err, errDisconnected) {
		err = fmt.Errorf("%w: it does so if its own -S is below %d", err, s.Size)
	}
	switch {
	case err == nil:
		return nil
	case endless && (ctx.Err() != nil || errors.Is(err, errDisconnected)):
		return nil
	case endless:
		return fmt.Errorf("after %s: %w", words.Count(n, "ping", "pings"), err)
	default:
		return fmt.Errorf("after %d of %s: %w", n, words.Count(s.Count, "ping", "pings"), err)
	}
}

// connect finds the server and connects to it.
func (e *endpoint) connect(ctx context.Context) error {
	if err := e.Resolve(ctx); err != nil {
		return err
	}
	e.step("cma_event type %v cma_id %p (parent)", rdmacm.EventAddrResolved, e.ID)
	e.step("cma_event type %v cma_id %p (parent)", rdmacm.EventRouteResolved, e.ID)
	e.step("rdma_resolve_addr - rdma_resolve_route successful")
	e.state = routeResolved
	if err := e.build(); err != nil {
		return err
	}
	if err := e.ID.Connect(e.param()); err != nil {
		return err
	}
	if err := e.connected(ctx); err != nil {
		return err
	}
	e.state = connected
	e.step("rdma_connect successful")
	return nil
}

// connected waits until the side may send data.
func (e *endpoint) connected(ctx context.Context) error {
	if e.o.OwnQP {
		return e.finish(ctx)
	}
	if err := e.Pass(ctx, rdmacm.EventEstablished); err != nil {
		return err
	}
	e.step("cma_event type %v cma_id %p (parent)", rdmacm.EventEstablished, e.ID)
	e.step("ESTABLISHED")
	return nil
}

// explain prints the line of rping for an event that prevents the connection, and adds
// the server to the error.
func (e *endpoint) explain(err error) error {
	if f := (*adapter.Failure)(nil); errors.As(err, &f) {
		e.warn("cma event %v, error %d", f.Type, f.Status)
	}
	return fmt.Errorf("connect to %v: %w", e.Adapter.Peer, err)
}

// printer writes the lines of all connections.
type printer struct {
	mu    sync.Mutex // guards the writers
	out   io.Writer
	err   io.Writer
	debug bool
}

// The methods of printer ignore write errors.

// result prints a line of results.
func (p *printer) result(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// warn prints a line for people.
func (p *printer) warn(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.err, format+"\n", args...)
}

// step prints a line with Options.Debug.
func (p *printer) step(format string, args ...any) {
	if p.debug {
		p.result(format, args...)
	}
}
