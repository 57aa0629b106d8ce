package simple

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/rdmacm"
)

// Side is a client or a server.
type Side struct {
	Host   string // client: the server; server: the address to bind to, "" for any
	Port   string
	Idle   time.Duration // give up after this time without a packet of the peer; 0: never
	Opener adapter.Opener
	Out    io.Writer // the lines of the programs
	Err    io.Writer // errors, and the address of a server
}

// Client connects to a server, sends a message and waits for the answer.
func (s Side) Client(ctx context.Context) error {
	r := report{"rdma_client", s.Out, s.Err}
	return r.run(func() error { return s.client(ctx) })
}

func (s Side) client(ctx context.Context) (err error) {
	a, err := s.Opener.Client(ctx, "", s.Host, s.Port)
	if err != nil {
		return in("rdma_create_ep", err)
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	e, err := s.newEndpoint(a, nil)
	if err != nil {
		return in("rdma_create_ep", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := e.Resolve(ctx); err != nil {
		return in("rdma_create_ep", fmt.Errorf("find the way to %v: %w", a.Peer, err))
	}
	if err := e.build(); err != nil {
		return in("rdma_create_ep", err)
	}
	if err := e.connect(ctx); err != nil {
		return in("rdma_connect", fmt.Errorf("connect to %v: %w", a.Peer, err))
	}
	return errors.Join(e.client(ctx), in("rdma_disconnect", e.HangUp(ctx)))
}

// Server waits for a client and its message, and answers.
func (s Side) Server(ctx context.Context) error {
	r := report{"rdma_server", s.Out, s.Err}
	return r.run(func() error { return s.server(ctx) })
}

func (s Side) server(ctx context.Context) (err error) {
	a, err := s.Opener.Server(ctx, s.Host, s.Port)
	if err != nil {
		return in("rdma_create_ep", err)
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	ch := a.NewEventChannel()
	defer func() { err = errors.Join(err, ch.Close()) }()
	listener, err := a.Bind(ch, rdmacm.TCP)
	if err != nil {
		return in("rdma_create_ep", err)
	}
	defer func() { err = errors.Join(err, listener.Destroy()) }()
	if err := listener.Listen(0); err != nil {
		return in("rdma_listen", err)
	}
	_, _ = fmt.Fprintf(s.Err, "rdma_server: %s\n", a.Listening()) // a write error does not matter
	e, err := s.request(ctx, a, ch)
	if err != nil {
		return in("rdma_get_request", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := e.build(); err != nil { // destroying the ID rejects the request
		return in("rdma_get_request", err)
	}
	if err := e.accept(ctx); err != nil {
		return in("rdma_accept", err)
	}
	return errors.Join(e.server(ctx), in("rdma_disconnect", e.HangUp(ctx)))
}

// request waits for a client.
func (s Side) request(ctx context.Context, a *adapter.Adapter, ch *rdmacm.EventChannel) (*endpoint, error) {
	event, err := adapter.Next(ctx, ch)
	if err != nil {
		return nil, err
	}
	defer event.Ack()
	if event.Type != rdmacm.EventConnectRequest {
		return nil, adapter.NewFailure(event)
	}
	return s.newEndpoint(a, event.ID)
}
