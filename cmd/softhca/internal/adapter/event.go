package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
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
// event of ch, which the caller acknowledges. When ctx has ended it returns the
// cause, and leaves completions and events in place. One goroutine at a time may
// wait.
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

// arm moves completions to out. If there are none, it requests a notification of
// the next one.
func (q *Queue) arm(out []verbs.WC) (int, error) {
	if n, err := q.Poll(out); n > 0 || err != nil {
		return n, err
	}
	if q.Overrun() {
		return 0, ErrOverrun
	}
	if err := q.ReqNotify(false); err != nil {
		return 0, err
	}
	return q.Poll(out) // a completion may have arrived before the request
}

// Failure is an unexpected event, or an event that reports a failure.
type Failure struct {
	Type   rdmacm.EventType
	Status int // as in rdmacm.Event
	Peer   netip.AddrPort
	Err    error // the adapter's error; may be nil
}

// NewFailure copies an event, which the caller may then acknowledge.
func NewFailure(e *rdmacm.Event) *Failure {
	f := &Failure{Type: e.Type, Status: e.Status, Err: e.Err}
	if e.ID != nil {
		f.Peer = e.ID.PeerAddr()
	}
	return f
}

// Error returns the event, its status and its meaning.
func (f *Failure) Error() string {
	return fmt.Sprintf("%v, error %d: %s", f.Type, f.Status, f.meaning())
}

// meaning describes the failure and, if known, what to do.
func (f *Failure) meaning() string {
	switch reason := mad.RejReason(f.Status); {
	case f.Type == rdmacm.EventRejected && reason == mad.RejInvalidServiceID,
		f.Type == rdmacm.EventUnreachable && f.Status == int(mad.SIDRUnsupportedService):
		return fmt.Sprintf("nothing listens on %v: is the server running, with this address and port?", f.Peer)
	case f.Type == rdmacm.EventRejected:
		return fmt.Sprintf("%v refused the connection: %v", f.Peer, reason)
	case f.Type == rdmacm.EventUnreachable && f.Status > 0:
		return fmt.Sprintf("%v refused the request: SIDR status %v", f.Peer, mad.SIDRStatus(f.Status))
	case f.Type == rdmacm.EventUnreachable:
		return noAnswer(f.Peer)
	case f.Type == rdmacm.EventDisconnected && f.Status == 0:
		return fmt.Sprintf("%v ended the connection", f.Peer)
	case f.Type == rdmacm.EventDeviceRemoval:
		return "the adapter was removed"
	case f.Err != nil:
		return f.Err.Error()
	case f.Status < 0:
		return ib.Errno(-f.Status).Error()
	default:
		return "an unexpected event"
	}
}

// Unwrap returns the adapter's error and the error number that librdmacm would
// return from a call that waits for the event.
func (f *Failure) Unwrap() []error {
	var errs []error
	if f.Err != nil {
		errs = append(errs, f.Err)
	}
	switch {
	case f.Type == rdmacm.EventRejected:
		errs = append(errs, ib.ECONNREFUSED)
	case f.Status < 0:
		errs = append(errs, ib.Errno(-f.Status))
	}
	return errs
}

// noAnswer returns the possible causes of a silent peer.
func noAnswer(peer netip.AddrPort) string {
	return fmt.Sprintf("%v does not answer: is an adapter open on that address, and does UDP port 4791 pass?", peer)
}
