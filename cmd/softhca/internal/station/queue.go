package station

import (
	"context"
	"errors"

	"github.com/softhca/softhca/verbs"
)

// Queue is a completion queue to sleep on.
type Queue struct {
	*verbs.CQ
	channel *verbs.CompChannel
}

// NewQueue returns a completion queue of at least n entries, as
// verbs.Context.CreateCQ does.
func NewQueue(dev *verbs.Context, n int) (*Queue, error) {
	ch := verbs.NewCompChannel()
	cq, err := dev.CreateCQ(n, ch)
	if err != nil {
		return nil, err
	}
	return &Queue{cq, ch}, nil
}

// ErrOverrun says that a completion queue lost completions.
var ErrOverrun = errors.New("the completion queue is full: completions were lost")

// Wait moves completions to out and returns how many: at least one, for which
// it sleeps. Once ctx has ended it returns the cause of that, and leaves the
// completions that there are. One goroutine at a time may wait.
func (q *Queue) Wait(ctx context.Context, out []verbs.WC) (int, error) {
	for ctx.Err() == nil {
		n, err := q.arm(out)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-q.channel.C():
		case <-ctx.Done():
		}
	}
	return 0, context.Cause(ctx)
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
