package verbs

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/qp"
)

// CQ is a completion queue.
type CQ struct {
	dev     *device.Device
	obj     device.CQ
	channel *CompChannel // the program's, or that of waiter; never nil
	waiter  *waiter      // nil if it was created with a channel
	left    atomic.Bool  // it has left the channel; set before another CQ can take its place
	yield   yielder
	armed   atomic.Bool // since the last poll of the empty queue
	check   *live.CQ
}

// CQInitAttr describes a completion queue to create.
type CQInitAttr struct {
	CQE     int          // entries, at least; see CreateCQ
	Channel *CompChannel // gets the CQ's events; nil: see CreateCQ

	// Timestamps makes the CQ note when each completion was made, for PollTimestamps. An
	// entry then takes 56 bytes instead of 48.
	Timestamps bool
}

// CreateCQ returns a completion queue of at least n entries. As on hardware, their number is
// 1, 3, 7 or another number just below a power of two; Cap returns it. The CQ's events go to
// ch. If ch is nil, it has no events, and Wait sleeps until it has completions. EINVAL if n
// is 0 or above the adapter's limit, ENOMEM at the limit of CQs or if ch has no room.
func (c *Context) CreateCQ(n int, ch *CompChannel) (*CQ, error) {
	return c.CreateCQEx(&CQInitAttr{CQE: n, Channel: ch})
}

// CreateCQEx is CreateCQ with more attributes, which it does not keep. EINVAL if attr is nil.
func (c *Context) CreateCQEx(attr *CQInitAttr) (*CQ, error) {
	q := &CQ{dev: c.dev()}
	if attr == nil {
		return nil, fmt.Errorf("create CQ: %w", errNoAttr)
	}
	n, ch := attr.CQE, attr.Channel
	if n < 0 || uint64(n) > 1<<31 {
		return nil, fmt.Errorf("create CQ of %d entries: %w", n, ib.EINVAL)
	}
	if ch == nil {
		q.waiter = newWaiter()
		ch = q.waiter.events
	}
	q.channel = ch
	if !ch.join(q.dev) {
		return nil, fmt.Errorf("create CQ: the completion channel already serves %d: %w", ch.most, ErrInsufficientResources)
	}
	if err := q.dev.CreateCQ(&q.obj, device.CQConfig{Entries: uint32(n), Timed: attr.Timestamps}, q, q.wake, q.wake); err != nil {
		ch.leave()
		return nil, fmt.Errorf("create CQ: %w", err)
	}
	q.check = q.dev.Check.MadeCQ(q.obj.CQ)
	return q, nil
}

// wake tells the channel that the CQ has an entry, or that the device has ended, and
// wakes goroutines that sleep. Any thread may call it.
func (q *CQ) wake() { q.channel.put(q) }

// object returns what events about the CQ refer to, nil for nil.
func (q *CQ) object() *device.Object {
	if q == nil {
		return nil
	}
	return &q.obj.Object
}

// verbs returns the device's side of the CQ, nil for nil.
func (q *CQ) verbs() *device.CQ {
	if q == nil {
		return nil
	}
	return &q.obj
}

// Poll moves completions, oldest first, to out and returns their number. It never
// blocks. A poll of an empty queue also lets the adapter receive and send, on
// the caller's thread: a program that polls needs no other thread to make progress.
// If there are no completions and there can be no more, Poll fails: with
// ErrInvalidHCA once the adapter is closed, EIO once it has failed, and
// ErrInvalidCQ for a CQ that is nil or destroyed.
func (q *CQ) Poll(out []WC) (int, error) { return q.poll(out, nil) }

// PollTimestamps is Poll that also stores in at, which must not be shorter than out, when each
// completion was made. The times also have readings of the monotonic clock, so their
// differences are exact even if the system's clock is set. EINVAL for a CQ without timestamps, or
// if at is too short.
func (q *CQ) PollTimestamps(out []WC, at []time.Time) (int, error) {
	switch {
	case q == nil:
		return 0, ErrInvalidCQ
	case q.obj.CQ == nil || !q.obj.CQ.Timed():
		return 0, fmt.Errorf("poll the timestamps of a CQ: it was created without: %w", ib.EINVAL)
	case len(at) < len(out):
		return 0, fmt.Errorf("poll %d completions with %d timestamps: %w", len(out), len(at), ib.EINVAL)
	}
	return q.poll(out, at[:len(out):len(out)])
}

// take moves completions to out, and their times to at unless it is nil.
func (q *CQ) take(out []WC, at []time.Time) (n int) {
	if q.check != nil {
		q.check.Begin()
		defer q.check.End()
	}
	if at == nil {
		n = q.obj.CQ.Poll(out)
	}
	for at != nil && n < len(out) {
		var times [16]clock.Instant
		k := min(len(out)-n, len(times))
		got := q.obj.CQ.PollTimes(out[n:n+k], times[:k])
		for i := range got {
			at[n+i] = q.dev.Time(times[i])
		}
		if n += got; got < k {
			break
		}
	}
	q.check.Completed(out[:n])
	for i := range out[:n] {
		if out[i].Status != WCSuccess {
			out[i].Opcode = 0 // the engine marks those of receives; an error promises no opcode
		}
	}
	return n
}

// poll is Poll, with times unless at is nil.
func (q *CQ) poll(out []WC, at []time.Time) (int, error) {
	if q == nil {
		return 0, ErrInvalidCQ
	}
	if q.check != nil {
		defer q.dev.Check.Tell()
	}
	if n := q.take(out, at); n > 0 || len(out) == 0 {
		q.dev.SendOverdue()
		return n, nil
	}
	if err := q.obj.Usable(ErrInvalidCQ); err != nil {
		return 0, err
	}
	if q.armed.Load() && q.armed.Swap(false) {
		return 0, nil // a program that arms the CQ polls once more before it sleeps
	}
	q.dev.Progress()
	n := q.take(out, at)
	if n == 0 {
		q.yield.empty()
	}
	return n, nil
}

// ReqNotify arms the CQ: the next completion, or with solicitedOnly the next
// that is solicited or unsuccessful, sends the CQ to its completion channel, once.
// Completions that are already in the CQ do not: poll after arming. EINVAL without
// a completion channel.
func (q *CQ) ReqNotify(solicitedOnly bool) error {
	err := q.object().Called("ReqNotify", ErrInvalidCQ)
	if err == nil && q.waiter != nil {
		err = fmt.Errorf("it was created without a completion channel: %w", ib.EINVAL)
	}
	if err == nil {
		q.arm(solicitedOnly)
	}
	return wrap("arm CQ", err)
}

func (q *CQ) arm(solicitedOnly bool) {
	q.armed.Store(true)
	q.obj.Arm(solicitedOnly)
}

// Cap returns the number of entries. A completion that finds no free entry fails the
// queue (EventCQErr).
func (q *CQ) Cap() int {
	if q == nil {
		return 0
	}
	return int(q.obj.CQ.Cap())
}

// Resize changes the number of entries to at least n and keeps the completions in
// the queue. EINVAL if these would not fit, or if n is 0 or above the adapter's limit.
func (q *CQ) Resize(n int) error {
	if n < 0 || uint64(n) > 1<<31 {
		return fmt.Errorf("resize CQ to %d entries: %w", n, ib.EINVAL)
	}
	err := q.verbs().Resize(uint32(n))
	q.used(err)
	return wrap("resize CQ", err)
}

// Moderation says how long a CQ delays the events of its completion channel, so that a program
// wakes once for several completions.
type Moderation struct {
	// Count is the number of completions after which the event is sent, at most 65535; 0 or 1
	// means no delay.
	Count int
	// Period is the maximum delay after the first of them, at most 4095 µs; 0 means no
	// delay.
	Period time.Duration
}

// Moderate delays the events of the CQ: once it is armed, its event waits for Count matching
// completions, or for Period after the first of them. Solicited and unsuccessful completions
// are delayed like others, as on ConnectX adapters. Wait and CompChannel.Get sleep that
// much longer; Poll is not affected. If an event is waiting, it follows the new limits at
// once. EINVAL for values above the maximum.
func (q *CQ) Moderate(m Moderation) error {
	if m.Count < 0 || m.Count > qp.MaxModerationCount {
		return fmt.Errorf("moderate CQ by %d completions: at most %d: %w", m.Count, qp.MaxModerationCount, ib.EINVAL)
	}
	err := q.verbs().Moderate(qp.Moderation{Count: uint32(m.Count), Period: m.Period})
	q.used(err)
	return wrap("moderate CQ", err)
}

// used tells the checker that a call that failed has used the queue.
func (q *CQ) used(err error) {
	if q != nil && q.check != nil {
		used(q.dev.Check, err, q.check.Base())
	}
}

// checked returns the queue for the checker; nil for none.
func (q *CQ) checked() *live.CQ {
	if q == nil {
		return nil
	}
	return q.check
}

// Overrun reports whether the CQ overflowed: completions were lost, CQ_ERR
// was raised and its QPs are in ERR.
func (q *CQ) Overrun() bool { return q != nil && q.obj.CQ.Failed() }

// destroy destroys the queue alone.
func (q *CQ) destroy() error {
	if q == nil || q.check == nil {
		return q.verbs().Destroy()
	}
	left := q.check.Ends()
	err := q.obj.Destroy()
	q.check.Destroyed(err, q.obj.Taken, left)
	q.dev.Check.Tell()
	return err
}

// Destroy destroys the CQ. ErrBusy while QPs complete to it, or while an event
// about it is not acknowledged. If the adapter is closed or has failed, Destroy
// makes room in the completion channel and returns that error.
func (q *CQ) Destroy() error {
	err := q.destroy()
	if err == nil && q.waiter != nil {
		q.waiter.destroyed(q)
	}
	if q != nil && (err == nil || q.dev.Alive() != nil) && !q.left.Swap(true) {
		q.channel.leave()
	}
	return wrap("destroy CQ", err)
}
