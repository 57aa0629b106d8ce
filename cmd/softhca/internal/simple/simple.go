package simple

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/station"
	"github.com/softhca/softhca/rdmacm"
)

// Side is a client or a server.
type Side struct {
	Host   string // client: the server; server: the address to bind to, "" for any
	Port   string
	Idle   time.Duration // give up when the peer sends nothing for so long; 0: never
	Opener station.Opener
	Out    io.Writer // the lines of the programs
	Err    io.Writer // what failed, and where a server listens
}

// Client connects to a server, sends a message and waits for the answer.
func (s Side) Client(ctx context.Context) error {
	r := report{"rdma_client", s.Out, s.Err}
	return r.run(func() error { return s.client(ctx) })
}

func (s Side) client(ctx context.Context) (err error) {
	st, err := s.Opener.Client(ctx, "", s.Host, s.Port)
	if err != nil {
		return in("rdma_create_ep", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	e := &endpoint{st: st, idle: s.Idle, ch: st.NewEventChannel()}
	if e.id, err = st.NewID(e.ch, rdmacm.TCP); err != nil {
		return errors.Join(in("rdma_create_ep", err), e.ch.Close())
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := st.Resolve(ctx, e.ch, e.id); err != nil {
		return in("rdma_create_ep", fmt.Errorf("find the way to %v: %w", st.Peer, err))
	}
	if err := e.build(); err != nil {
		return in("rdma_create_ep", err)
	}
	if err := e.connect(ctx); err != nil {
		return in("rdma_connect", fmt.Errorf("connect to %v: %w", st.Peer, err))
	}
	return errors.Join(e.client(ctx), e.hangUp(ctx))
}

// Server waits for a client, for its message, and answers.
func (s Side) Server(ctx context.Context) error {
	r := report{"rdma_server", s.Out, s.Err}
	return r.run(func() error { return s.server(ctx) })
}

func (s Side) server(ctx context.Context) (err error) {
	st, err := s.Opener.Server(ctx, s.Host, s.Port)
	if err != nil {
		return in("rdma_create_ep", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	ch := st.NewEventChannel()
	listener, err := st.NewID(ch, rdmacm.TCP)
	if err != nil {
		return errors.Join(in("rdma_create_ep", err), ch.Close())
	}
	defer func() { err = errors.Join(err, listener.Destroy(), ch.Close()) }()
	if err := listener.BindAddr(st.Local); err != nil {
		return in("rdma_create_ep", err)
	}
	if err := listener.Listen(0); err != nil {
		return in("rdma_listen", err)
	}
	_, _ = fmt.Fprintf(s.Err, "rdma_server: %s\n", st.Listening()) // it can do without
	e, err := s.request(ctx, st, ch)
	if err != nil {
		return in("rdma_get_request", err)
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.build(); err != nil {
		return in("rdma_get_request", errors.Join(err, e.id.Reject(nil)))
	}
	if err := e.accept(ctx); err != nil {
		return in("rdma_accept", err)
	}
	return errors.Join(e.server(ctx), e.hangUp(ctx))
}

// request waits for a client. Its ID gets a channel of its own.
func (s Side) request(ctx context.Context, st *station.Station, ch *rdmacm.EventChannel) (*endpoint, error) {
	event, err := ch.Get(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	defer event.Ack()
	if event.Type != rdmacm.EventConnectRequest {
		return nil, station.NewFailure(event)
	}
	e := &endpoint{st: st, idle: s.Idle, ch: st.NewEventChannel(), id: event.ID}
	if err := e.id.Migrate(e.ch); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}
