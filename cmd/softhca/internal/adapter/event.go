package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

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

// resolveTimeout limits the resolution of an address or a route, as in the programs
// of rdma-core.
const resolveTimeout = 2 * time.Second

// noticeAfter is the duration of a wait before its first notice, and between notices.
const noticeAfter = 5 * time.Second

// Failure is an unexpected event, or an event that reports a failure.
type Failure struct {
	Type        rdmacm.EventType
	Status      int // as in rdmacm.Event
	Peer        netip.AddrPort
	PrivateData []byte // of a reject
	Err         error  // the adapter's error; may be nil
}

// NewFailure copies an event, which the caller may then acknowledge.
func NewFailure(e *rdmacm.Event) *Failure {
	f := &Failure{Type: e.Type, Status: e.Status, PrivateData: slices.Clone(e.Param.PrivateData), Err: e.Err}
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
		return NoAnswer(f.Peer)
	case f.Type == rdmacm.EventDisconnected && f.Status == 0:
		return fmt.Sprintf("%v ended the connection", f.Peer)
	case f.Type == rdmacm.EventDeviceRemoval:
		return "the adapter is gone"
	case f.Err != nil:
		return f.Err.Error()
	case f.Status < 0:
		return ib.Errno(-f.Status).Error()
	default:
		return "not what was to happen now"
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

// Next waits for the next event of a channel, which the caller acknowledges. When
// ctx ends, the error is the cause.
func Next(ctx context.Context, ch *rdmacm.EventChannel) (*rdmacm.Event, error) {
	e, err := ch.Get(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return e, err
}

// Expect returns the next event of a channel, which serves one ID. The caller
// acknowledges it. If the event is not the wanted one, or has a status, the error
// is a *Failure; when ctx ends, the error is the cause. Expect reports a long wait.
func (a *Adapter) Expect(ctx context.Context, ch *rdmacm.EventChannel, want rdmacm.EventType) (*rdmacm.Event, error) {
	for begin := time.Now(); ; {
		slice, cancel := context.WithTimeout(ctx, noticeAfter)
		e, err := ch.Get(slice)
		cancel()
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			a.tell("%s", a.waiting(want, time.Since(begin)))
			continue
		case err != nil:
			return nil, err
		}
		if e.Type == want && e.Status == 0 {
			return e, nil
		}
		defer e.Ack()
		return nil, NewFailure(e)
	}
}

// waiting returns the notice of a wait for an event. The first notice of a client,
// with the default timeout after one unanswered request, also names the usual
// causes: the last notice may come a minute later.
func (a *Adapter) waiting(want rdmacm.EventType, d time.Duration) string {
	line := fmt.Sprintf("still waiting for %v after %v", want, d.Round(time.Second))
	if want == rdmacm.EventEstablished && a.Peer.IsValid() && d < 2*noticeAfter {
		line += ": " + NoAnswer(a.Peer)
	}
	return line
}

// NoAnswer returns the possible causes of a silent peer.
func NoAnswer(peer netip.AddrPort) string {
	return fmt.Sprintf("%v does not answer: is an adapter open on that address, and does UDP port 4791 pass?", peer)
}

// tell passes a line to Notice, if that is set.
func (a *Adapter) tell(format string, args ...any) {
	if a.opener.Notice != nil {
		a.opener.Notice(fmt.Sprintf(format, args...))
	}
}

// Resolve resolves the address and the route of a client's ID, whose channel serves
// no other ID.
func (a *Adapter) Resolve(ctx context.Context, ch *rdmacm.EventChannel, id *rdmacm.ID) error {
	if err := id.ResolveAddr(a.Local, a.Peer, resolveTimeout); err != nil {
		return err
	}
	if err := a.pass(ctx, ch, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := id.ResolveRoute(resolveTimeout); err != nil {
		return err
	}
	return a.pass(ctx, ch, rdmacm.EventRouteResolved)
}

// pass waits for an event and acknowledges it.
func (a *Adapter) pass(ctx context.Context, ch *rdmacm.EventChannel, want rdmacm.EventType) error {
	e, err := a.Expect(ctx, ch, want)
	if err != nil {
		return err
	}
	e.Ack()
	return nil
}
