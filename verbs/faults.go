package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	crand "crypto/rand"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/fault"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// Faults make an adapter go wrong on demand. The rules, one to a line or with
// semicolons between them, are described in docs/faults.md and by "softhca
// faults --list".
type Faults struct {
	Rules string // such as "drop nth=3 op=RDMA_WRITE_MIDDLE; drop op=REP nth=1; fail op=RegMR errno=ENOMEM nth=1"
	File  string // a file with more rules
	// Seed makes what the rules choose at random repeatable. Zero draws one,
	// which Context.FaultSeed tells.
	Seed uint64
}

// WithFaults returns an option for Open: these rules, with this seed.
func WithFaults(rules string, seed uint64) Option {
	return func(c *Config) { c.Faults.Rules, c.Faults.Seed = rules, seed }
}

// The environment of a program adds rules to every adapter that it opens:
// rules, or the name of a file with rules after an @.
const (
	FaultsEnv     = "SOFTHCA_FAULTS"
	FaultsSeedEnv = "SOFTHCA_FAULTS_SEED"
)

// FaultStat is what a rule has done so far.
type FaultStat = fault.Stat

// rules returns all rules: of the configuration, of its file, of the
// environment.
func (f *Faults) rules() ([]fault.Rule, error) {
	texts := []struct{ from, text string }{{"faults", f.Rules}}
	files := []string{f.File}
	if env := os.Getenv(FaultsEnv); strings.HasPrefix(env, "@") {
		files = append(files, env[1:])
	} else {
		texts = append(texts, struct{ from, text string }{FaultsEnv, env})
	}
	for _, name := range files {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("faults: %w", err)
		}
		texts = append(texts, struct{ from, text string }{name, string(text)})
	}
	var all []fault.Rule
	for _, t := range texts {
		rules, err := fault.Parse(t.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.from, err)
		}
		all = append(all, rules...)
	}
	if len(all) > fault.MaxRules {
		return nil, fmt.Errorf("faults: %d rules, at most %d: %w", len(all), fault.MaxRules, ib.EINVAL)
	}
	return all, nil
}

// seed returns the seed that is to be used.
func (f *Faults) seed() (uint64, error) {
	if f.Seed != 0 {
		return f.Seed, nil
	}
	if env := os.Getenv(FaultsSeedEnv); env != "" {
		n, err := strconv.ParseUint(env, 0, 64)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("%s=%q: want a number from 1 on: %w", FaultsSeedEnv, env, ib.EINVAL)
		}
		return n, nil
	}
	var b [4]byte
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = crand.Read(b[:])
	return uint64(binary.NativeEndian.Uint32(b[:])) + 1, nil // short enough to type
}

// injector holds the rules of an adapter. A nil one has none.
type injector struct {
	all     []*fault.Live
	calls   [fault.NumVerbs][]*fault.Live // that wait for a call
	timed   []*fault.Live                 // on verbs, that wait for a time
	answers []*fault.Live                 // of the responder
	seed    uint64
	start   time.Time
	trace   trace.Tracer
	timers  []*time.Timer

	mu sync.Mutex // guards asking calls
}

// newInjector returns the rules of a configuration, nil if there are none.
func newInjector(cfg *Config) (*injector, error) {
	rules, err := cfg.Faults.rules()
	if err != nil || len(rules) == 0 {
		return nil, err
	}
	i := &injector{start: time.Now(), trace: cfg.Trace}
	if i.seed, err = cfg.Faults.seed(); err != nil {
		return nil, err
	}
	for n, r := range rules {
		l := fault.NewLive(r, i.seed, n)
		i.all = append(i.all, l)
		switch l.Action.Layer() {
		case fault.Verbs:
			if l.Timed() {
				i.timed = append(i.timed, l)
			} else {
				i.calls[l.Verb()] = append(i.calls[l.Verb()], l)
			}
		case fault.Responder:
			i.answers = append(i.answers, l)
		case fault.Packets:
		}
	}
	return i, nil
}

// now returns the time since the adapter was opened.
func (i *injector) now() clock.Instant { return clock.Instant(time.Since(i.start)) }

// attach makes the rules of the responder work on an adapter that does not run
// yet.
func (i *injector) attach(h *hca.HCA) {
	if i != nil && len(i.answers) > 0 {
		h.Intervene(i.answer)
	}
}

// begin starts the rules that wait for a time.
func (i *injector) begin(c *Context) {
	if i == nil {
		return
	}
	for _, l := range i.timed {
		i.timers = append(i.timers, time.AfterFunc(l.Duration(fault.After)-time.Since(i.start), func() { c.strike(l, nil) }))
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

// answer is the qp.Intervene of the adapter.
func (i *injector) answer(q *qp.QP, p *qp.Packet) roce.Syndrome {
	now := i.now()
	s := fault.Subject{
		Dir: fault.In, Op: p.BTH.Opcode, Readable: true, QPN: q.Num(), PSN: p.BTH.PSN, Src: p.Data.Src, Dst: p.Data.Dst,
	}
	for _, l := range i.answers {
		if l.Action == fault.RNR && !p.TakesReceive() || !l.Fires(now, &s) {
			continue
		}
		l.Applied()
		if i.trace != nil {
			r := trace.Record{At: now, Kind: trace.Fault, QPN: q.Num(), PSN: s.PSN, Len: p.Size, Cause: l.Text()}
			p.PutHeaders(r.Header[:])
			i.trace(&r)
		}
		return l.Syndrome()
	}
	return 0
}

// subject is what a call is about.
type subject struct {
	qp  *qp.QP
	cq  *qp.CQ
	srq *qp.SRQ
}

func (s *subject) qpn() ib.QPN {
	if s.qp == nil {
		return 0
	}
	return s.qp.Num()
}

// called tells the rules that a verb is called; an error is one that a rule
// makes it fail with.
func (c *Context) called(v fault.Verb, s subject) error {
	if !c.watched(v) {
		return nil
	}
	i := c.faults
	var strikes []*fault.Live
	var failed error
	i.mu.Lock()
	now := i.now()
	for _, l := range i.calls[v] {
		if !l.Fires(now, &fault.Subject{Verb: v, QPN: s.qpn()}) {
			continue
		}
		if l.Action == fault.Fail {
			l.Applied()
			failed = fmt.Errorf("fault on demand (%s): %w", l.Text(), l.Errno())
			break
		}
		strikes = append(strikes, l)
	}
	i.mu.Unlock()
	for _, l := range strikes {
		c.strike(l, &s)
	}
	if failed != nil {
		c.recordFault(failed, s.qpn())
	}
	return failed
}

// watched reports whether rules want to know of calls of a verb.
func (c *Context) watched(v fault.Verb) bool { return c.faults != nil && len(c.faults.calls[v]) > 0 }

// postSend posts to the send queue and returns how many were taken.
func (q *QP) postSend(wrs []SendWR) (int, error) {
	if !q.pd.ctx.watched(fault.PostSend) {
		return q.qp.PostSend(wrs...)
	}
	return q.postWatched(fault.PostSend, len(wrs), func(i int) error {
		_, err := q.qp.PostSend(wrs[i])
		return err
	})
}

// postRecv posts to the receive queue and returns how many were taken.
func (q *QP) postRecv(wrs []RecvWR) (int, error) {
	if !q.pd.ctx.watched(fault.PostRecv) {
		return q.qp.PostRecv(wrs...)
	}
	return q.postWatched(fault.PostRecv, len(wrs), func(i int) error {
		_, err := q.qp.PostRecv(wrs[i])
		return err
	})
}

// postWatched posts n work requests one at a time, and has them sent, so that
// a rule that strikes at one finds those before it under way. post must not
// keep a request: the caller's scatter lists stay off the heap.
func (q *QP) postWatched(v fault.Verb, n int, post func(i int) error) (int, error) {
	for i := range n {
		if err := q.pd.ctx.called(v, subject{qp: q.qp}); err != nil {
			return i, err
		}
		if err := post(i); err != nil {
			return i, err
		}
		q.pd.ctx.drv.Post(q.qp)
	}
	return n, nil
}

// recordFault tells the tracer of a call that a rule made fail.
func (c *Context) recordFault(cause error, n ib.QPN) {
	if c.faults.trace == nil {
		return
	}
	// A device that is gone has nothing to trace either.
	_ = c.drv.Do(func(now clock.Instant) {
		c.faults.trace(&trace.Record{At: now, Kind: trace.Fault, QPN: n, Cause: cause.Error()})
	})
}

// strike carries out a rule that moves, overflows or raises something: on what
// the call is about, or without a call on everything that there is.
func (c *Context) strike(l *fault.Live, s *subject) {
	// A device that is gone is nothing to act on either.
	_ = c.do(func(now clock.Instant) error {
		var err error
		if s != nil {
			err = c.strikeOne(now, l, s)
		} else {
			err = c.strikeAll(now, l)
		}
		if err == nil {
			l.Applied()
		}
		return err
	})
}

// errNoTarget is returned when a rule finds nothing to act on.
var errNoTarget = errors.New("nothing to act on")

// strikeAll carries out a rule that waited for a time.
func (c *Context) strikeAll(now clock.Instant, l *fault.Live) error {
	object := l.Object()
	n, named := l.QPN()
	var targets []subject
	switch {
	case object == fault.Device:
		targets = []subject{{}}
	case object == fault.CompletionQueue && !named:
		targets = c.events.allCQs()
	case object == fault.SharedReceiveQueue && !named:
		targets = c.events.allSRQs()
	default:
		c.hca.EachQP(func(q *qp.QP) {
			if !named || n == q.Num() {
				targets = append(targets, subject{qp: q})
			}
		})
	}
	err := errNoTarget
	for i := range targets {
		if e := c.strikeOne(now, l, &targets[i]); e == nil {
			err = nil
		}
	}
	return err
}

// strikeOne carries out a rule on one object. The trace has the rule before
// what follows from it, and the reason if nothing does.
func (c *Context) strikeOne(now clock.Instant, l *fault.Live, s *subject) error {
	if c.faults.trace == nil {
		return c.strikeAt(now, l, s)
	}
	r := trace.Record{At: now, Kind: trace.Fault, QPN: s.qpn(), Cause: l.Text()}
	c.faults.trace(&r)
	err := c.strikeAt(now, l, s)
	if err != nil {
		r.Cause = fmt.Sprintf("%s had no effect: %v", l.Text(), err)
		c.faults.trace(&r)
	}
	return err
}

func (c *Context) strikeAt(now clock.Instant, l *fault.Live, s *subject) error {
	if s.qp != nil {
		s.cq, s.srq = s.qp.SendCQ(), s.qp.SRQ()
	}
	switch {
	case l.Action == fault.Event:
		return c.raiseInjected(l, s)
	case l.Action == fault.FillCQ && s.cq != nil && c.hca.OverflowCQ(now, s.cq):
		return nil
	case l.Action == fault.QP && s.qp != nil:
		err := s.qp.Force(now, l.State())
		c.hca.Shard().Arm(s.qp)
		return err
	}
	return errNoTarget
}

// raiseInjected raises the event of a rule.
func (c *Context) raiseInjected(l *fault.Live, s *subject) error {
	e := qp.Event{Type: l.Event()}
	switch l.Object() {
	case fault.QueuePair:
		if e.QPN = s.qpn(); e.QPN == 0 {
			return errNoTarget
		}
	case fault.CompletionQueue:
		if e.CQ = s.cq; e.CQ == nil {
			return errNoTarget
		}
	case fault.SharedReceiveQueue:
		if e.SRQ = s.srq; e.SRQ == nil {
			return errNoTarget
		}
	case fault.Device:
		if e.Type == ib.EventDeviceFatal {
			c.events.fatal(fmt.Errorf("fault on demand (%s): %w", l.Text(), ib.EIO))
			return nil
		}
		e.Port = 1
	}
	c.hca.Raise(e)
	return nil
}

// FaultStats returns what each rule has done so far, in the order of the
// rules; nothing if there are none.
func (c *Context) FaultStats() []FaultStat {
	if c == nil || c.faults == nil {
		return nil
	}
	var stats []FaultStat
	for _, l := range c.faults.all {
		stats = append(stats, l.Stat())
	}
	return stats
}

// FaultSeed returns the seed of the rules, 0 if there are none.
func (c *Context) FaultSeed() uint64 {
	if c == nil || c.faults == nil {
		return 0
	}
	return c.faults.seed
}
