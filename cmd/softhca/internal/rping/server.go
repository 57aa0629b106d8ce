package rping

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/rdmacm"
)

// maxSessions is the maximum number of clients of a persistent server, which refuses
// more.
const maxSessions = 1024

// backlog is the maximum number of waiting requests: further ones are not answered, and
// their clients repeat them seconds later. At most backlog sessions wait for clients that do
// not answer, so three quarters of the sessions remain for clients that do.
const backlog = maxSessions / 4

// daemon is a server's listener and its connections.
type daemon struct {
	*printer
	o        *Options
	adapter  *adapter.Adapter
	ch       *rdmacm.EventChannel
	listener *rdmacm.ID
	sessions sync.WaitGroup
	busy     chan struct{} // has an element for each connection; its capacity is their limit
}

// errServed means that the only client has been served.
var errServed = errors.New("the client has been served")

// Server serves one client, or with Options.Persistent any number of them until ctx
// ends; then the end of ctx is no error.
func (s Side) Server(ctx context.Context) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	a, err := s.Opener.Server(ctx, s.Host, s.Port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	limit := 1
	if s.Persistent {
		limit = maxSessions
	}
	d := &daemon{printer: s.printer(), o: &s.Options, adapter: a, ch: a.NewEventChannel(), busy: make(chan struct{}, limit)}
	defer func() { err = errors.Join(err, d.ch.Close()) }()
	if err := d.listen(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.listener.Destroy()) }()
	return d.run(ctx)
}

func (d *daemon) listen() (err error) {
	if d.listener, err = d.adapter.Bind(d.ch, rdmacm.TCP); err != nil {
		return err
	}
	d.step("created cm_id %p", d.listener)
	d.step("rdma_bind_addr successful")
	d.step("rdma_listen")
	if err := d.listener.Listen(backlog); err != nil {
		return errors.Join(err, d.listener.Destroy())
	}
	d.warn("rping: %s", d.adapter.Listening())
	return nil
}

// run takes requests until ctx ends or the only client has been served.
func (d *daemon) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	var outcome error // of the only session
	err := d.accept(ctx, func(err error) {
		if d.o.Persistent {
			d.complain(err)
			return
		}
		outcome = err
		end(errServed)
	})
	end(err)
	d.sessions.Wait()
	switch {
	case errors.Is(err, errServed):
		return outcome
	case d.o.Persistent && errors.Is(err, context.Canceled):
		return nil // a persistent server ends by interruption
	}
	return err
}

// complain reports a failed session of a persistent server.
func (d *daemon) complain(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		d.warn("rping server failed: %v", err)
	}
}

// accept starts a session for each request, and refuses those over the limit.
// It calls done with the outcome of each.
func (d *daemon) accept(ctx context.Context, done func(error)) error {
	for {
		event, err := adapter.Next(ctx, d.ch)
		if err != nil {
			return err
		}
		event.Ack() // an event of the listener
		switch event.Type {
		case rdmacm.EventConnectRequest:
			d.step("cma_event type %v cma_id %p (child)", event.Type, event.ID)
			d.step("child cma %p", event.ID)
			if err := d.start(ctx, event.ID, done); err != nil {
				d.warn("refuse a client: %v", err)
			}
		case rdmacm.EventDeviceRemoval:
			return adapter.NewFailure(event)
		}
	}
}

// start serves a client in a separate goroutine.
func (d *daemon) start(ctx context.Context, id *rdmacm.ID, done func(error)) error {
	select {
	case d.busy <- struct{}{}:
	default:
		return errors.Join(fmt.Errorf("%d are being served, and no more at a time", cap(d.busy)), id.Reject(nil), id.Destroy())
	}
	e, err := newEndpoint(d.printer, d.o, d.adapter, id)
	if err != nil {
		<-d.busy
		return err
	}
	d.sessions.Go(func() {
		err := e.session(ctx)
		<-d.busy
		done(err)
	})
	return nil
}

// session serves one client to its end.
func (e *endpoint) session(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.build(); err != nil {
		return errors.Join(err, e.ID.Reject(nil))
	}
	e.step("accepting client connection request")
	if err := e.welcome(); err != nil {
		return err
	}
	err = e.serve(ctx)
	if errors.Is(err, errDisconnected) {
		err = nil
	}
	return errors.Join(err, e.hangUp(ctx))
}

// welcome accepts the request.
func (e *endpoint) welcome() error {
	if !e.o.OwnQP {
		return e.ID.Accept(nil)
	}
	if err := e.moveQP(); err != nil {
		return errors.Join(err, e.ID.Reject(nil))
	}
	return e.ID.Accept(e.param())
}
