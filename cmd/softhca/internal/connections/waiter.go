package connections

import (
	"context"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// waiter waits for completions or an event, as adapter.Queue.WaitEither does. look makes
// progress without waiting, on the server, and on the client if q is not nil; then q must
// get no completions.
type waiter interface {
	wait(ctx context.Context, q *adapter.Queue, ch *rdmacm.EventChannel, out []verbs.WC) (int, *rdmacm.Event, error)
	look(q *adapter.Queue) error
}

// sleeper sleeps. The adapter's goroutine processes packets.
type sleeper struct{}

func (sleeper) wait(ctx context.Context, q *adapter.Queue, ch *rdmacm.EventChannel, out []verbs.WC) (int, *rdmacm.Event, error) {
	return q.WaitEither(ctx, ch, out)
}

func (sleeper) look(*adapter.Queue) error { return nil }

// oneThread polls, and runs the server when the client has nothing to do. With one thread
// for both sides, neither waits for the kernel to schedule the other.
type oneThread struct{ server *server }

func (d oneThread) wait(ctx context.Context, q *adapter.Queue, ch *rdmacm.EventChannel, out []verbs.WC) (int, *rdmacm.Event, error) {
	for ctx.Err() == nil {
		if n, err := q.Poll(out); n > 0 || err != nil { // Poll also processes the adapter's packets
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
