package connections

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// lives takes connections through whole lives, a bounded number at a time:
// create, resolve, connect, send a message, disconnect, destroy, and again. One
// goroutine uses it.
type lives struct {
	*rerun
	*adapter.Resources
	ch     *rdmacm.EventChannel
	source netip.AddrPort
	pd     *verbs.PD
	queue  *adapter.Queue // of all queue pairs
	mr     *verbs.MR      // a message for each slot
	slots  []life
	wcs    [16]verbs.WC

	total   int // lives to begin
	begun   int
	over    int
	running int
	told    time.Time // time of the last progress line
}

// life is one connection.
type life struct {
	slot int
	id   *rdmacm.ID
	step step
	at   time.Time // start of the step
}

// newLives creates the common objects of n lives. The lives name their source address,
// so that resolving needs no look-up of the route.
func newLives(r *rerun, n int) *lives {
	l := &lives{
		rerun: r, Resources: adapter.NewResources(r.client.Device), ch: r.client.NewEventChannel(),
		slots: make([]life, r.o.Window), total: n,
	}
	l.source = netip.AddrPortFrom(l.Device.QueryGID(0).Addr(), 0)
	l.OnClose(l.ch.Close)
	l.pd = l.NewPD()
	l.queue = l.NewQueue(2 * r.o.Window)
	l.mr = l.NewMR(l.pd, r.o.Window*messageLen, 0)
	return l
}

// tellEvery is the interval of progress lines.
const tellEvery = time.Second

// run takes all connections through their lives. The first failure ends it.
func (l *lives) run(ctx context.Context) error {
	l.told = time.Now()
	for i := range l.slots {
		l.slots[i].slot = i
		if err := l.begin(&l.slots[i]); err != nil {
			return err
		}
	}
	for l.running > 0 {
		n, e, err := l.wait(ctx, l.queue, l.ch, l.wcs[:])
		if err == nil {
			err = l.sent(n)
		}
		if err == nil && e != nil {
			err = l.take(e)
		}
		if err != nil {
			return fmt.Errorf("after %d of %d: %w", l.over, l.total, err)
		}
	}
	return nil
}

// enter records the time of a life's step and begins another step.
func (l *lives) enter(v *life, s step) {
	now := time.Now()
	if v.step != s {
		l.times[v.step].add(now.Sub(v.at))
	}
	v.step, v.at = s, now
}

// begin starts a life, unless enough have begun.
func (l *lives) begin(v *life) (err error) {
	if l.begun == l.total {
		return nil
	}
	l.begun++
	l.running++
	v.step, v.at = createID, time.Now()
	if v.id, err = l.client.NewID(l.ch, rdmacm.TCP); err != nil {
		return err
	}
	v.id.Context = v
	l.enter(v, resolveAddr)
	return v.id.ResolveAddr(l.source, l.client.Peer)
}

// take handles an event.
func (l *lives) take(e *rdmacm.Event) error {
	defer e.Ack()
	v := e.ID.Context.(*life)
	switch {
	case e.Type == rdmacm.EventAddrResolved:
		l.enter(v, resolveRoute)
		return v.id.ResolveRoute()
	case e.Type == rdmacm.EventRouteResolved:
		return l.connect(v)
	case e.Type == rdmacm.EventEstablished:
		return l.send(v)
	case e.Type == rdmacm.EventDisconnected && v.step == disconnect && e.Status == 0:
		e.Ack() // Destroy waits for the acknowledgement
		return l.end(v)
	}
	return fmt.Errorf("%v: %w", v.step, adapter.NewFailure(e))
}

// connect creates the queue pair and connects to the server.
func (l *lives) connect(v *life) error {
	l.enter(v, createQP)
	if err := v.id.CreateQP(l.pd, qpAttr(l.queue.CQ)); err != nil {
		return err
	}
	l.enter(v, connect)
	return v.id.Connect(param())
}

// send sends the message.
func (l *lives) send(v *life) error {
	l.enter(v, transfer)
	at := v.slot * messageLen
	fillMessage(l.mr.Bytes()[at:][:messageLen], uint64(l.over))
	return v.id.QP().PostSend(verbs.SendWR{
		WRID: uint64(v.slot), Opcode: ib.WRSend, SGList: []verbs.SGE{l.mr.SGE(uint64(at), messageLen)},
	})
}

// sent disconnects the connections whose messages have arrived; n is their number.
func (l *lives) sent(n int) error {
	for i := range l.wcs[:n] {
		wc := &l.wcs[i]
		if wc.Status != ib.WCSuccess {
			return fmt.Errorf("send a message: %v", wc.Status)
		}
		v := &l.slots[wc.WRID]
		l.enter(v, disconnect)
		if err := v.id.Disconnect(); err != nil {
			return err
		}
	}
	return nil
}

// end destroys a connection and begins another one.
func (l *lives) end(v *life) error {
	l.enter(v, destroy)
	if err := errors.Join(v.id.DestroyQP(), v.id.Destroy()); err != nil {
		return err
	}
	now := time.Now()
	l.times[destroy].add(now.Sub(v.at))
	v.id = nil
	l.over++
	l.running--
	if now.Sub(l.told) >= tellEvery {
		l.told = now
		l.tell(l.over, l.total)
	}
	return l.begin(v)
}

// close destroys the remaining objects.
func (l *lives) close() error {
	var errs []error
	for i := range l.slots {
		if id := l.slots[i].id; id != nil {
			errs = append(errs, id.Destroy())
		}
	}
	return errors.Join(append(errs, l.Close())...)
}
