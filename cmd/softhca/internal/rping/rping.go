package rping

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/station"
	"github.com/softhca/softhca/rdmacm"
)

// The roles.
const (
	client = "client"
	server = "server"
)

// Side is a client or a server.
type Side struct {
	Options
	Opener station.Opener
	Out    io.Writer // results
	Err    io.Writer // everything else
}

// Client connects to a server and pings it. When ctx ends, it disconnects; if
// it was to go on without end, that is no error.
func (s Side) Client(ctx context.Context) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	st, err := s.Opener.Client(ctx, s.Source, s.Host, s.Port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	e := &endpoint{
		printer: &printer{out: s.Out, err: s.Err, debug: s.Debug}, o: &s.Options, role: client, st: st, state: idle,
		ch: st.NewEventChannel(),
	}
	if e.id, err = st.NewID(e.ch, rdmacm.TCP); err != nil {
		return errors.Join(err, e.ch.Close())
	}
	e.step("created cm_id %p", e.id)
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.connect(ctx); err != nil {
		return e.explain(err)
	}
	n, err := e.pings(ctx)
	gone := e.hangUp(ctx)
	return errors.Join(s.outcome(ctx, n, err), gone)
}

// outcome says what a client's pings came to.
func (s Side) outcome(ctx context.Context, n int, err error) error {
	endless := s.Count == 0
	switch {
	case err == nil:
		return nil
	case endless && (ctx.Err() != nil || errors.Is(err, errDisconnected)):
		return nil
	case endless:
		return fmt.Errorf("after %d pings: %w", n, err)
	default:
		return fmt.Errorf("after %d of %d pings: %w", n, s.Count, err)
	}
}

// connect finds the server and connects to it.
func (e *endpoint) connect(ctx context.Context) error {
	if err := e.st.Resolve(ctx, e.ch, e.id); err != nil {
		return err
	}
	e.step("cma_event type %v cma_id %p (parent)", rdmacm.EventAddrResolved, e.id)
	e.step("cma_event type %v cma_id %p (parent)", rdmacm.EventRouteResolved, e.id)
	e.step("rdma_resolve_addr - rdma_resolve_route successful")
	e.state = routeResolved
	if err := e.build(); err != nil {
		return err
	}
	if err := e.id.Connect(e.param()); err != nil {
		return err
	}
	if err := e.connected(ctx); err != nil {
		return err
	}
	e.state = connected
	e.step("rdma_connect successful")
	return nil
}

// connected waits until data may be sent.
func (e *endpoint) connected(ctx context.Context) error {
	if e.o.OwnQP {
		return e.finish(ctx)
	}
	event, err := e.st.Expect(ctx, e.ch, rdmacm.EventEstablished)
	if err != nil {
		return err
	}
	e.step("cma_event type %v cma_id %p (parent)", event.Type, e.id)
	e.step("ESTABLISHED")
	event.Ack()
	return nil
}

// explain prints the line of rping for an event that says that a connection
// cannot be, and names the server.
func (e *endpoint) explain(err error) error {
	if f := (*station.Failure)(nil); errors.As(err, &f) {
		e.warn("cma event %v, error %d", f.Type, f.Status)
	}
	return fmt.Errorf("connect to %v: %w", e.st.Peer, err)
}
