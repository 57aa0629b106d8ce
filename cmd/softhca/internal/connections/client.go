package connections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// client takes all connections through one phase after the other. One
// goroutine uses it.
type client struct {
	waiter
	*adapter.Resources
	o     *Options
	st    *adapter.Adapter
	ch    *rdmacm.EventChannel
	pd    *verbs.PD
	queue *adapter.Queue // of all queue pairs; it gets no completions

	conns   []*conn
	now     *phase
	pending int // connections that wait for an event
	times   timings
	failed  int
	why     error // the first failure
}

// conn is one connection.
type conn struct {
	id      *rdmacm.ID // nil once it is destroyed
	begun   time.Time  // start of the phase
	waits   bool       // it waits for its event
	failed  bool
	retries int
}

// newClient creates the common objects of all connections.
func newClient(s *Side, st *adapter.Adapter, w waiter) *client {
	c := &client{
		waiter: w, Resources: adapter.NewResources(st.Device), o: &s.Options, st: st, ch: st.NewEventChannel(),
	}
	c.OnClose(c.ch.Close)
	c.pd, c.queue = c.NewPD(), c.NewQueue(1)
	for range s.Connections {
		c.conns = append(c.conns, &conn{retries: retries})
	}
	return c
}

// run runs the phases. Later phases skip connections that failed; the error has their
// number.
func (c *client) run(ctx context.Context) error {
	for i := range phases {
		if err := c.phase(ctx, &phases[i]); err != nil {
			return err
		}
	}
	if c.failed > 0 {
		return fmt.Errorf("%d of %d connections failed, the first because: %w", c.failed, len(c.conns), c.why)
	}
	return nil
}

// phase takes all connections through one phase. It handles events between the calls,
// so that each event is timed when it arrives.
func (c *client) phase(ctx context.Context, p *phase) error {
	c.now = p
	begin := time.Now()
	for _, k := range c.conns {
		if c.skips(k) {
			continue
		}
		k.begun = time.Now()
		switch err := p.call(c, k); {
		case err != nil:
			c.fail(k, fmt.Errorf("%v: %w", p.step, err))
		case p.waits:
			k.waits = true
			c.pending++
		default:
			c.times[p.step].add(time.Since(k.begun))
		}
		if err := c.look(c.queue); err != nil {
			return err
		}
		for e, ok := c.ch.TryGet(); ok; e, ok = c.ch.TryGet() {
			c.take(e)
		}
	}
	for c.pending > 0 {
		_, e, err := c.wait(ctx, c.queue, c.ch, nil)
		if err != nil {
			return fmt.Errorf("%v: %d connections wait: %w", p.step, c.pending, err)
		}
		c.take(e)
	}
	c.times[p.step].wall = time.Since(begin)
	return nil
}

// skips reports whether a connection takes no part in the phase. A failed connection
// takes part only in destroy.
func (c *client) skips(k *conn) bool {
	if c.now.step == destroy {
		return k.id == nil
	}
	return k.failed
}

// take handles an event.
func (c *client) take(e *rdmacm.Event) {
	defer e.Ack()
	k, ok := e.ID.Context.(*conn)
	if !ok || e.Type == rdmacm.EventTimewaitExit {
		return
	}
	switch {
	case !k.waits: // an unexpected event: the connection has ended
		c.fail(k, adapter.NewFailure(e))
	case e.Type == c.now.event && (e.Status == 0 || e.Type == rdmacm.EventDisconnected):
		c.times[c.now.step].add(time.Since(k.begun))
		c.done(k)
	case e.Type == rdmacm.EventAddrError && k.retries > 0 && c.resolveAddr(k) == nil:
		k.retries--
	default:
		c.fail(k, adapter.NewFailure(e))
	}
}

// fail excludes a connection from further phases.
func (c *client) fail(k *conn, why error) {
	if k.failed {
		return
	}
	c.done(k)
	k.failed = true
	c.failed++
	if c.why == nil {
		c.why = why
	}
}

// done records that a connection does not wait any more.
func (c *client) done(k *conn) {
	if k.waits {
		k.waits = false
		c.pending--
	}
}

// close destroys the remaining objects.
func (c *client) close() error {
	var errs []error
	for _, k := range c.conns {
		if k.id != nil {
			errs = append(errs, c.destroy(k))
		}
	}
	return errors.Join(append(errs, c.Close())...)
}
