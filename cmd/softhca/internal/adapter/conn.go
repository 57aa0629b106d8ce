package adapter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Conn is a connection with its own event channel and objects. One goroutine uses
// it.
type Conn struct {
	*Resources
	Adapter *Adapter
	ID      *rdmacm.ID
	Channel *rdmacm.EventChannel
	// Queue is the completion queue, which the program creates.
	Queue *Queue
	// Completed and Happened handle a completion and an event of the connection.
	// Their error ends the current wait, which returns it.
	Completed func(*verbs.WC) error
	Happened  func(*rdmacm.Event) error
	Idle      time.Duration // Await gives up after this time; 0: never

	ended bool // it has been disconnected
}

// Conn returns a client's connection with a new ID, or a server's connection with
// the ID of a request.
func (a *Adapter) Conn(request *rdmacm.ID) (c *Conn, err error) {
	c = &Conn{Resources: NewResources(a.Device), Adapter: a, ID: request, Channel: a.NewEventChannel()}
	c.OnClose(c.Channel.Close)
	if request == nil {
		c.ID, err = a.NewID(c.Channel, rdmacm.TCP)
	} else {
		err = request.Migrate(c.Channel)
	}
	if c.ID != nil {
		c.OnClose(c.ID.Destroy)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Resolve resolves the address and the route of a client's connection.
func (c *Conn) Resolve(ctx context.Context) error { return c.Adapter.Resolve(ctx, c.Channel, c.ID) }

// Pass waits for the next event, as Adapter.Expect does, and acknowledges it.
func (c *Conn) Pass(ctx context.Context, want rdmacm.EventType) error {
	return c.Adapter.pass(ctx, c.Channel, want)
}

// Await waits until done returns true. After Idle, if set, it returns the error
// late.
func (c *Conn) Await(ctx context.Context, late error, done func() bool) error {
	if c.Idle > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Idle, fmt.Errorf("%w (%v)", late, c.Idle))
		defer cancel()
	}
	for !done() {
		if err := c.Advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Advance waits for a completion or an event and handles it.
func (c *Conn) Advance(ctx context.Context) error {
	var wc [1]verbs.WC
	n, event, err := c.Queue.WaitEither(ctx, c.Channel, wc[:])
	switch {
	case err != nil:
		return err
	case n > 0:
		return c.Completed(&wc[0])
	}
	defer event.Ack()
	c.ended = c.ended || event.Type == rdmacm.EventDisconnected
	return c.Happened(event)
}

// disconnectTime limits the wait for the peer's answer to a disconnect. It is long
// enough to repeat a lost DREQ.
const disconnectTime = 10 * time.Second

// HangUp disconnects and waits up to disconnectTime for the peer's answer, also when
// ctx has ended. It reports a wait that takes a second.
func (c *Conn) HangUp(ctx context.Context) error {
	if err := c.ID.Disconnect(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disconnectTime)
	defer cancel()
	tell := func() { c.Adapter.tell("waiting for the peer to agree that the connection ends") }
	defer time.AfterFunc(time.Second, tell).Stop()
	for !c.ended && c.Advance(ctx) == nil {
		continue // a peer that is gone is no failure of ours
	}
	return nil
}
