package device

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/fault/sites"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// injector holds the rules of an adapter, and counts what could fail. A nil one does neither.
type injector struct {
	sites    *sites.Log    // nil: nothing is counted
	statuses []ib.WCStatus // that are counted
	all      []*fault.Live
	calls    map[string][]*fault.Live // rules that wait for a call, by its name
	timed    []*fault.Live            // rules on verbs that wait for a time
	answers  []*fault.Live            // rules of the responder
	requests []*fault.Live            // rules on work requests
	rejects  []*fault.Live            // rules on requests for connections
	seed     uint64
	start    time.Time
	trace    trace.Tracer
	timers   []*time.Timer

	mu lock.Mutex[lock.Faults] // guards matching calls
}

// newInjector returns the rules of a configuration, nil if there are none.
func newInjector(cfg *Config) (*injector, error) {
	rules, err := cfg.rules()
	if err != nil || len(rules) == 0 && cfg.Env.Sites == "" {
		return nil, err
	}
	i := &injector{start: time.Now(), trace: cfg.Trace, calls: make(map[string][]*fault.Live), statuses: fault.Statuses()}
	if cfg.Env.Sites != "" {
		if i.sites, err = sites.Open(cfg.Env.Sites); err != nil {
			return nil, fmt.Errorf("%s: %w", SitesEnv, err)
		}
	}
	if i.seed, err = cfg.seed(); err != nil {
		return nil, err
	}
	for n, r := range rules {
		if p := r.Process(); p != "" && i.sites == nil {
			return nil, fmt.Errorf("faults: process=%s: only softhca explore gives processes names: %w", p, ib.EINVAL)
		} else if p != "" && p != i.sites.Name() {
			continue
		}
		if r.Action == fault.Stop && !canPause {
			return nil, fmt.Errorf("faults: %v: this system cannot stop a process: %w", r.Action, ib.EOPNOTSUPP)
		}
		l := fault.NewLive(r, i.seed, n)
		if shared := i.sites.Matches(n); shared != nil && r.Process() != "" {
			l.CountIn(shared)
		}
		i.all = append(i.all, l)
		switch l.Action.Layer() {
		case fault.Verbs:
			if l.Timed() {
				i.timed = append(i.timed, l)
			} else {
				i.calls[l.Call()] = append(i.calls[l.Call()], l)
			}
		case fault.Responder:
			i.answers = append(i.answers, l)
		case fault.Requests:
			i.requests = append(i.requests, l)
		case fault.Connections:
			i.rejects = append(i.rejects, l)
		case fault.Packets:
		}
	}
	return i, nil
}

// now returns the time since the adapter was opened.
func (i *injector) now() clock.Instant { return clock.Instant(time.Since(i.start)) }

// attach installs the rules of the responder and those on requests in an adapter that does
// not run yet.
func (i *injector) attach(h *hca.HCA) {
	if i == nil {
		return
	}
	var answer qp.Inject
	var refuse qp.InjectRequest
	if len(i.answers) > 0 || i.sites != nil {
		answer = i.answer
	}
	if len(i.requests) > 0 || i.sites != nil {
		refuse = i.refuse
	}
	h.Inject(answer, refuse)
}

// begin starts the timers of the timed rules.
func (i *injector) begin(d *Device) {
	if i == nil {
		return
	}
	for _, l := range i.timed {
		i.timers = append(i.timers, time.AfterFunc(l.Duration(fault.After)-time.Since(i.start), func() { d.inject(l, nil) }))
	}
}

// stop stops the timers.
func (i *injector) stop() {
	if i == nil {
		return
	}
	for _, t := range i.timers {
		t.Stop()
	}
}

// answer is the qp.Inject of the adapter.
func (i *injector) answer(q *qp.QP, p *qp.Packet) roce.Syndrome {
	now := i.now()
	s := fault.Subject{
		Dir: fault.In, Op: p.BTH.Opcode, Readable: true, QPN: q.Num(), PSN: p.BTH.PSN, Src: p.Data.Src, Dst: p.Data.Dst,
	}
	if i.sites != nil && p.TakesReceive() {
		i.sites.Packet(sites.Taken, &s)
	}
	for _, l := range i.answers {
		if l.Action == fault.RNR && !p.TakesReceive() || !l.Fires(now, &s) {
			continue
		}
		i.acted(l)
		if i.trace != nil {
			r := trace.Record{At: now, Kind: trace.Fault, QPN: q.Num(), PSN: s.PSN, Len: p.Size, Cause: l.Text()}
			p.PutHeaders(r.Header[:])
			i.trace(&r)
		}
		return l.Syndrome()
	}
	return 0
}

// refuse is the qp.InjectRequest of the adapter.
func (i *injector) refuse(q *qp.QP, w qp.Request) ib.WCStatus {
	if i.sites != nil {
		for _, s := range i.statuses {
			if w.CanFail(q.Type(), s) {
				i.sites.Request(w.Opcode, s)
			}
		}
	}
	now := i.now()
	for _, l := range i.requests {
		if !w.CanFail(q.Type(), l.Status()) || !l.Fires(now, &fault.Subject{QPN: q.Num(), Request: w.Opcode}) {
			continue
		}
		i.acted(l)
		if i.trace != nil {
			i.trace(&trace.Record{At: now, Kind: trace.Fault, QPN: q.Num(), Cause: l.Text()})
		}
		return l.Status()
	}
	return ib.WCSuccess
}

// reject is the Reject of the connection manager.
func (i *injector) reject(from netip.Addr) mad.RejReason {
	if i == nil {
		return 0
	}
	now := i.now()
	s := fault.Subject{Dir: fault.In, Op: roce.UDSendOnly, Message: mad.AttrREQ, Readable: true, QPN: ib.QPNGSI, Src: from}
	i.sites.Packet(sites.Taken, &s)
	for _, l := range i.rejects {
		if !l.Fires(now, &s) {
			continue
		}
		i.acted(l)
		if i.trace != nil {
			i.trace(&trace.Record{At: now, Kind: trace.Fault, QPN: ib.QPNGSI, Cause: l.Text()})
		}
		return l.Reason()
	}
	return 0
}

// acted counts an action of a rule.
func (i *injector) acted(l *fault.Live) {
	l.Applied()
	i.sites.Acted()
}

// actedOnPacket is the Acted of the port.
func (i *injector) actedOnPacket(l *fault.Live) {
	i.sites.Acted()
	switch l.Action {
	case fault.Kill:
		kill()
	case fault.Stop:
		pause()
	}
}

// countPacket is the Count of the port.
func (i *injector) countPacket(s fault.Subject) {
	use := sites.Sent
	if s.Dir == fault.In {
		use = sites.Received
	}
	i.sites.Packet(use, &s)
}

// countTimers notes the timers of a queue pair that has new attributes.
func (i *injector) countTimers(a *ib.QPAttr) {
	if i != nil {
		i.sites.Timers(ib.AckTimeout(a.Timeout), a.RetryCnt)
	}
}

// CountTimers notes the timers of a queue pair or an EE context that gets attributes in another way than by Modify.
func (d *Device) CountTimers(a *ib.QPAttr) { d.faults.countTimers(a) }

// FaultError is the error of a call that a rule makes fail.
type FaultError struct {
	Rule  string
	Errno ib.Errno
}

// Error names the rule and the error.
func (e *FaultError) Error() string { return fmt.Sprintf("fault on demand (%s): %v", e.Rule, e.Errno) }

// Unwrap returns the error number.
func (e *FaultError) Unwrap() error { return e.Errno }

// Watched reports whether calls of a verb are to be passed to Called.
func (d *Device) Watched(verb string) bool {
	return d.faults != nil && (len(d.faults.calls[verb]) > 0 || d.faults.sites != nil)
}

// Called applies the rules to a call of a verb. It returns the error of Alive, or
// the one with which a rule makes the call fail.
func (d *Device) Called(verb string, o *Object) error {
	if err := d.Alive(); err != nil {
		return err
	}
	return d.Disturb(verb, o)
}

// Disturb is Called without the check of Alive: for a call that works if this adapter has failed.
func (d *Device) Disturb(verb string, o *Object) error {
	if !d.Watched(verb) {
		return nil
	}
	if o == nil {
		o = &Object{}
	}
	i := d.faults
	i.sites.Call(verb)
	var due []*fault.Live
	var failed error
	i.mu.Lock()
	now := i.now()
	for _, l := range i.calls[verb] {
		if !l.Fires(now, &fault.Subject{Call: verb, QPN: o.qpn()}) {
			continue
		}
		if l.Action == fault.Fail {
			i.acted(l)
			failed = &FaultError{l.Text(), l.Errno()}
			break
		}
		due = append(due, l)
	}
	i.mu.Unlock()
	for _, l := range due {
		d.inject(l, o)
	}
	if failed != nil {
		d.recordFault(failed, o.qpn())
	}
	return failed
}

// recordFault traces a call that a rule made fail.
func (d *Device) recordFault(cause error, n ib.QPN) {
	if d.faults.trace == nil {
		return
	}
	// After Close nothing is traced.
	_ = d.drv.Do(func(now clock.Instant) {
		d.faults.trace(&trace.Record{At: now, Kind: trace.Fault, QPN: n, Cause: cause.Error()})
	})
}

// inject applies a rule that moves, overflows or raises something: to the
// object of the call or, for a timed rule, to all objects.
func (d *Device) inject(l *fault.Live, o *Object) {
	// After Close there are no objects.
	_ = d.Control(func(now clock.Instant) error {
		return d.HCA.Enter(func() error {
			var err error
			if o != nil {
				err = d.injectOne(now, l, o)
			} else {
				err = d.injectAll(now, l)
			}
			if err == nil {
				d.faults.acted(l)
			}
			return err
		})
	})
}

// errNoTarget is returned when a rule finds nothing to act on.
var errNoTarget = errors.New("nothing to act on")

// injectAll applies a timed rule to all objects.
func (d *Device) injectAll(now clock.Instant, l *fault.Live) error {
	object := l.Object()
	n, named := l.QPN()
	var targets []*Object
	switch {
	case object == fault.Device:
		targets = []*Object{{}}
	case object == fault.CompletionQueue && !named:
		targets = d.events.all(func(o *Object) bool { return o.CQ != nil })
	case object == fault.SharedReceiveQueue && !named:
		targets = d.events.all(func(o *Object) bool { return o.SRQ != nil })
	default:
		d.HCA.EachQP(func(q *qp.QP) {
			if !named || n == q.Num() {
				targets = append(targets, &Object{QP: q, dev: d})
			}
		})
	}
	err := errNoTarget
	for _, o := range targets {
		if e := d.injectOne(now, l, o); e == nil {
			err = nil
		}
	}
	return err
}

// injectOne applies a rule to one object. It traces the rule before its
// effects, or the reason if it has none.
func (d *Device) injectOne(now clock.Instant, l *fault.Live, o *Object) error {
	if d.faults.trace == nil {
		return d.injectAt(now, l, o)
	}
	r := trace.Record{At: now, Kind: trace.Fault, QPN: o.qpn(), Cause: l.Text()}
	d.faults.trace(&r)
	err := d.injectAt(now, l, o)
	if err != nil {
		r.Cause = fmt.Sprintf("%s had no effect: %v", l.Text(), err)
		d.faults.trace(&r)
	}
	return err
}

// injectAt applies a rule to an object. For a queue pair, that includes its
// send completion queue and its SRQ.
func (d *Device) injectAt(now clock.Instant, l *fault.Live, o *Object) error {
	cq, srq := o.CQ, o.SRQ
	if o.QP != nil {
		cq, srq = o.QP.SendCQ(), o.QP.SRQ()
	}
	switch {
	case l.Action == fault.Event:
		return d.raiseInjected(l, qp.Event{Type: l.Event(), QPN: o.qpn(), CQ: cq, SRQ: srq})
	case l.Action == fault.FillCQ && cq != nil && d.HCA.CQs().Overflow(now, cq):
		return nil
	case l.Action == fault.QP && o.QP != nil:
		return o.QP.Force(now, l.State())
	}
	return errNoTarget
}

// raiseInjected raises the event of a rule, about the object in e that fits the
// kind of event.
func (d *Device) raiseInjected(l *fault.Live, e qp.Event) error {
	none := false
	switch l.Object() {
	case fault.QueuePair:
		e.CQ, e.SRQ, none = nil, nil, e.QPN == 0
	case fault.CompletionQueue:
		e.QPN, e.SRQ, none = 0, nil, e.CQ == nil
	case fault.SharedReceiveQueue:
		e.QPN, e.CQ, none = 0, nil, e.SRQ == nil
	case fault.Device:
		if e.Type == ib.EventDeviceFatal {
			d.raiseFatal(fmt.Errorf("fault on demand (%s): %w", l.Text(), ib.EIO))
			return nil
		}
		e = qp.Event{Type: e.Type, Port: 1}
	}
	if none {
		return errNoTarget
	}
	if e.QPN != 0 && d.log != nil {
		d.log.Event(e.Type, slog.String("qp", e.QPN.String()))
	}
	d.HCA.Raise(e)
	return nil
}

// FaultStats returns what each rule has done so far, in the order of the
// rules; nothing if there are none.
func (d *Device) FaultStats() (stats []fault.Stat) {
	if d == nil || d.faults == nil {
		return nil
	}
	for _, l := range d.faults.all {
		stats = append(stats, l.Stat())
	}
	return stats
}

// FaultSeed returns the seed of the rules, 0 if there are none.
func (d *Device) FaultSeed() uint64 {
	if d == nil || d.faults == nil {
		return 0
	}
	return d.faults.seed
}
