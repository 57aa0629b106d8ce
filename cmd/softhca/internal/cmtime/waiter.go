package cmtime

import (
	"context"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// waiter is what a side waits with for completions or an event, as
// adapter.Queue.WaitEither does. look lets both sides get on without waiting:
// the client if q is not nil, in which nothing may complete then.
type waiter interface {
	wait(ctx context.Context, q *adapter.Queue, ch *rdmacm.EventChannel, out []verbs.WC) (int, *rdmacm.Event, error)
	look(q *adapter.Queue) error
}

// sleeper sleeps. The adapter's goroutine does what there is to do.
type sleeper struct{}

func (sleeper) wait(ctx context.Context, q *adapter.Queue, ch *rdmacm.EventChannel, out []verbs.WC) (int, *rdmacm.Event, error) {
	return q.WaitEither(ctx, ch, out)
}

func (sleeper) look(*adapter.Queue) error { return nil }

// oneThread polls, and while there is nothing does the server's part: one thread for
// both sides, neither of which then waits for a thread of the other to be
// scheduled.
type oneThread struct{ server *server }

func (d oneThread) wait(ctx context.Context, q *adapter.Queue, ch *rdmacm.EventChannel, out []verbs.WC) (int, *rdmacm.Event, error) {
	for ctx.Err() == nil {
		if n, err := q.Poll(out); n > 0 || err != nil { // moves the packets of the adapter
			return n, nil, err
		}
		if e, ok := ch.TryGet(); ok {
			return 0, e, nil
		}
		if err := d.server.turn(); err != nil {
			return 0, nil, err
		}
	}
	return 0, nil, context.Cause(ctx)
}

func (d oneThread) look(q *adapter.Queue) error {
	if q != nil {
		var none [1]verbs.WC
		if _, err := q.Poll(none[:]); err != nil {
			return err
		}
	}
	return d.server.turn()
}
