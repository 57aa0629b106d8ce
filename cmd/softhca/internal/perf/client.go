package perf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/verbs"
)

// client is the measuring side.
type client struct {
	plan    Plan
	own     *localSide
	ctl     *control
	peer    side
	meter   *meter
	trips   *trips
	request request
	verdict verdict // of the server
	watch   *watch  // for migrations
	reply   *reply  // receives the verdict; early if the server fails
}

// errServerEnded means that the server ended while the client was measuring.
var errServerEnded = errors.New("the server ended the measurement")

// Run measures with the server at the other end of conn, until the time of the plan is
// over or ctx ends. Run calls report, if not nil, about once a second on the caller's
// goroutine. The error says what the server refused, which work request failed, or which
// byte arrived wrong. When ctx ends, Run returns its error with the measurement so far,
// without counters. Run closes conn.
func Run(ctx context.Context, dev *verbs.Context, conn net.Conn, p Plan, report func(Interval)) (Summary, error) {
	release := closeWith(ctx, conn)
	defer release()
	if err := p.Check(); err != nil {
		return Summary{}, err
	}
	own, err := newLocalSide(dev, p, false, isIPv4(conn))
	if err != nil {
		return Summary{}, err
	}
	c := &client{plan: p, own: own, ctl: newControl(conn), meter: newMeter(&p, report), trips: newTrips(&p), watch: newWatch(own)}
	s, err := c.run(ctx)
	c.watch.close()
	if err != nil && ctx.Err() != nil { // the end of ctx closed the connection, and is the cause
		err = ctx.Err()
		s = c.partial()
	}
	return s, errors.Join(err, own.Close())
}

// partial returns the result of an interrupted measurement.
func (c *client) partial() Summary {
	m := c.meter
	if m.messages == 0 {
		return Summary{}
	}
	if m.stopped.IsZero() {
		m.stop()
	}
	s := m.summary(&c.plan, c.trips)
	s.Interrupted = true
	return s
}

// closeWith closes conn when ctx ends or the returned function is called.
func closeWith(ctx context.Context, conn net.Conn) (release func()) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return func() {
		stop()
		_ = conn.Close() // all messages are exchanged
	}
}

// isIPv4 reports whether a connection uses IPv4. It returns true for a connection other
// than TCP.
func isIPv4(c net.Conn) bool {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	return !ok || a.AddrPort().Addr().Unmap().Is4()
}

func (c *client) run(ctx context.Context) (Summary, error) {
	if err := c.agree(); err != nil {
		return Summary{}, err
	}
	before, err := c.own.count(Report{})
	if err != nil {
		return Summary{}, err
	}
	end, err := c.measure(ctx)
	failed := (*completionError)(nil)
	switch {
	case errors.As(err, &failed):
		return Summary{}, c.explain(failed, before)
	case errors.Is(err, errServerEnded):
		return Summary{}, fmt.Errorf("%w: %w", err, cmp.Or(<-c.reply.outcome, errLine))
	case err != nil:
		c.ctl.refuse(err, nil)
		return Summary{}, err
	}
	if err := c.conclude(end); err != nil {
		return Summary{}, err
	}
	s := c.meter.summary(&c.plan, c.trips)
	s.Least, s.Most = slices.Min(end.Messages), slices.Max(end.Messages)
	own, err := c.own.count(before)
	s.Client, s.Server = &own, c.verdict.Report
	own.Migrations = c.watch.count()
	s.Migrated = c.watch.migration(c.meter, &own)
	s.count(&c.plan, end)
	s.Retransmits = own.Retransmits
	if s.Server != nil {
		s.Retransmits += s.Server.Retransmits
	}
	return s, err
}

// explain returns the Failure with the reports of both sides.
func (c *client) explain(failed *completionError, before Report) error {
	f := newFailure(failed, &c.plan, time.Since(c.meter.progress))
	var err error
	if f.Client, err = c.own.count(before); err != nil {
		return errors.Join(failed, err)
	}
	f.Client.Migrations = c.watch.count()
	err = c.conclude(&done{Failed: f.Status})
	f.Server = c.verdict.Report
	switch {
	case c.verdict.Error != "":
		f.Problem = printable.Line(c.verdict.Error, maxShown)
	case err != nil:
		f.Problem = err.Error()
	}
	return f
}

// agree exchanges the descriptions of the sides and connects the queue pairs.
func (c *client) agree() error {
	port, err := c.own.Device.QueryPort()
	if err != nil {
		return err
	}
	p := &c.plan
	want := cmp.Or(p.MTU, port.ActiveMTU)
	c.request = request{
		Op: p.Op.String(), Type: p.service().name, Size: p.Size, Depth: p.Depth, QPs: p.QPs, MTU: want.Bytes(),
		Latency: p.Latency, Events: p.Events, Pattern: random(), Timeout: p.Timeout, Retry: p.Retry, Rate: uint8(p.Rate), Limit: p.Limit, Armed: p.Alt, Window: p.Window,
		side: c.own.side(),
	}
	if err := c.ctl.send(&c.request); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	var o offer
	if err := c.ctl.receive(&o, replyDue); err != nil {
		return fmt.Errorf("receive the offer: %w", err)
	}
	mtu, ok := ib.MTUFor(o.MTU)
	switch {
	case !ok || mtu.Bytes() != o.MTU || mtu > want:
		return fmt.Errorf("the server offers a path MTU of %d instead of %d", o.MTU, want.Bytes())
	case p.MTU != 0 && mtu != p.MTU:
		return fmt.Errorf("path MTU %d: the server's port has at most %d", p.MTU.Bytes(), o.MTU)
	}
	if p.Window && slices.ContainsFunc(o.QPs, func(e endpoint) bool { return e.RKey == 0 }) {
		return errNoWindow
	}
	c.peer = o.side
	c.reply = c.ctl.expect(&c.verdict)
	return c.own.connect(&c.peer, mtu)
}

// measure runs the measurement and returns `done`, which tells the server what to check.
func (c *client) measure(ctx context.Context) (*done, error) {
	// Every 10 ms the Go scheduler interrupts this loop, and may move it to the
	// processor of the server's thread, which then waits for the kernel's next
	// tick. A loop that keeps its thread pauses a little longer each time, which costs
	// more where the peer's pauses do not matter.
	if c.plan.service().reliable {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	if c.plan.echoed() {
		return c.pingpong(ctx)
	}
	s := newSprint(c.own, &c.peer)
	s.meter, s.trips, s.reply = c.meter, c.trips, c.reply
	if err := s.run(ctx, c.plan.Duration); err != nil {
		return nil, err
	}
	return s.finish(c.request.Pattern)
}

// conclude makes the server check the received data. The server's verdict counts also if
// the server ended before it got the message.
func (c *client) conclude(end *done) error {
	sent := c.ctl.send(end)
	if err := c.ctl.finish(c.reply, replyDue); err != nil {
		return fmt.Errorf("receive the verdict: %w", err)
	}
	if sent != nil {
		return fmt.Errorf("send the result: %w", sent)
	}
	return nil
}
