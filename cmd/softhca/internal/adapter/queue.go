package adapter

import (
	"context"
	"errors"

	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Queue is a completion queue to sleep on.
type Queue struct {
	*verbs.CQ
	channel *verbs.CompChannel
}

// ErrOverrun says that a completion queue lost completions.
var ErrOverrun = errors.New("the completion queue is full: completions were lost")

// WaitEither sleeps until there are completions, which it moves to out, or an
// event of ch, which the caller acknowledges. Once ctx has ended it returns the
// cause of that, and leaves what there is. One goroutine at a time may wait.
func (q *Queue) WaitEither(ctx context.Context, ch *rdmacm.EventChannel, out []verbs.WC) (int, *rdmacm.Event, error) {
	for ctx.Err() == nil {
		n, err := q.arm(out)
		if n > 0 || err != nil {
			return n, nil, err
		}
		if e, ok := ch.TryGet(); ok {
			return 0, e, nil
		}
		select {
		case <-q.channel.C():
		case <-ch.Ready():
		case <-ctx.Done():
		}
	}
	return 0, nil, context.Cause(ctx)
}

// arm moves completions to out. If there are none, the next one is put in the
// channel.
func (q *Queue) arm(out []verbs.WC) (int, error) {
	if n := q.Poll(out); n > 0 {
		return n, nil
	}
	if q.Overrun() {
		return 0, ErrOverrun
	}
	if err := q.ReqNotify(false); err != nil {
		return 0, err
	}
	return q.Poll(out), nil // one may have come before it was armed
}
