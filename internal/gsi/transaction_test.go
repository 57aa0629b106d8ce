package gsi

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// ending is how a request ended.
type ending struct {
	at  clock.Instant
	mad mad.MAD
	err error
}

// asked is a request and its results, of which there must be exactly one.
type asked struct {
	*Transaction
	ends []ending
}

// request sends a Get of a's class to the peer.
func (r *rig) request(a *agent, tid uint64, retry Retry) *asked {
	r.t.Helper()
	q := &asked{}
	var err error
	q.Transaction, err = a.Request(r.now, Address{Remote: rigPeer}, madOf(a.cfg.Class, a.cfg.Version, mad.MethodGet, tid), retry, q.done)
	must.Do(r.t, err)
	return q
}

func (q *asked) done(now clock.Instant, m *Received, err error) {
	e := ending{at: now, err: err}
	if m != nil {
		e.mad = *m.MAD
	}
	q.ends = append(q.ends, e)
}

// want checks that there is one result, apart from its MAD.
func (q *asked) want(t *testing.T, what string, at clock.Instant, err error) {
	t.Helper()
	if len(q.ends) != 1 || q.ends[0].at != at || q.ends[0].err != err {
		t.Errorf("%s: the request ends %+v, want once at %v with %v", what, q.ends, at, err)
	}
}

// TestC12_Answer shows a request that is answered: its result comes once, with
// the answer, and no retry follows.
func TestC12_Answer(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	q := r.request(a, 0x1_0000_0007, Retry{Timeout: time.Second, Retries: 3})
	s := r.wantSent("the request", 1)[0]
	if s.mad != *madOf(mad.ClassPerf, 1, mad.MethodGet, 0x1_0000_0007) {
		t.Error("the request was changed")
	}
	r.pass(400 * time.Millisecond)
	at := r.now
	answer := answerTo(&s)
	r.deliver("the answer", answer)
	r.wantDrop("the answer again", answer, counters.DropResponse)
	r.pass(time.Hour)
	q.want(t, "answered", at, nil)
	if q.ends[0].mad != *answer || r.g.Deadline() != clock.Never {
		t.Error("another answer than that which came, or a timer is left")
	}
	r.wantSent("after the answer", 0)
}

// TestC12_Timeouts shows the times at which a request is repeated, always the
// same MAD with the next PSN, and at which it ends.
func TestC12_Timeouts(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	start := r.now
	q := r.request(a, 5, Retry{Timeout: 300 * time.Millisecond, Retries: 3})
	first := r.wantSent("the request", 1)[0]
	for i := range 3 {
		at := start.Add(time.Duration(i+1) * 300 * time.Millisecond)
		if r.g.Deadline() != at {
			t.Fatalf("retry %d is due at %v, want %v", i, r.g.Deadline(), at)
		}
		r.now = at - 1
		r.g.Advance(r.now)
		r.wantSent("a nanosecond early", 0)
		r.now = at
		r.g.Advance(r.now)
		s := r.wantSent("a retry", 1)[0]
		if s.mad != first.mad || s.path != first.path || s.p.BTH.PSN.Value() != uint32(i+1) {
			t.Errorf("retry %d differs from the first, or has PSN %v", i, s.p.BTH.PSN)
		}
	}
	if len(q.ends) != 0 {
		t.Fatal("the request ends before its last timeout")
	}
	r.pass(time.Hour)
	q.want(t, "never answered", start.Add(1200*time.Millisecond), ErrTimeout)
	if !errors.Is(ErrTimeout, ib.ETIMEDOUT) {
		t.Error("a timeout unwraps to no errno")
	}
	r.wantSent("after the end", 0)
	if c := r.g.Counters(); c.Retried != 3 || c.TimedOut != 1 || c.Sent != 4 {
		t.Errorf("counted: %+v", c)
	}
	r.wantDrop("an answer that is late", answerTo(&first), counters.DropResponse)
}

// TestC12_LateAdvance shows that a late timer repeats each request once, and
// that the next timeout starts then.
func TestC12_LateAdvance(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	r.request(a, 5, Retry{Timeout: time.Second, Retries: 9})
	r.wantSent("the request", 1)
	r.now = r.now.Add(5500 * time.Millisecond)
	r.g.Advance(r.now)
	r.wantSent("5.5 timeouts later", 1)
	if d := r.g.Deadline(); d != r.now.Add(time.Second) {
		t.Errorf("the next is due in %v", d.Sub(r.now))
	}
}

// TestC12_Matching shows MADs that do not match a request: every field that
// identifies it must match.
func TestC12_Matching(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	q := r.request(a, 5, Retry{Timeout: time.Second})
	s := r.wantSent("the request", 1)[0]
	for what, change := range map[string]func(*mad.Header){
		"transaction ID": func(h *mad.Header) { h.TID ^= 1 << 63 },
		"class":          func(h *mad.Header) { h.Class = mad.ClassSA },
		"method":         func(h *mad.Header) { h.Method = mad.MethodReportResp },
		"TrapRepress":    func(h *mad.Header) { h.Method = mad.MethodTrapRepress },
	} {
		m := answerTo(&s)
		h := m.Header()
		change(&h)
		m.PutHeader(h)
		r.wantDrop("another "+what, m, counters.DropResponse)
	}
	d := r.datagram()
	d.Src = netip.MustParseAddr("10.0.0.3")
	if drop, ok := r.receive(r.packet(answerTo(&s)), d); ok || drop != counters.DropResponse {
		t.Errorf("an answer from another address: taken %v, %v", ok, drop)
	}
	if len(q.ends) != 0 {
		t.Fatalf("the request ends %+v", q.ends)
	}
	r.deliver("the answer", answerTo(&s))
	q.want(t, "at last", r.now, nil)
	r.wantSent("nothing is answered", 0)
}

// TestC12_AnswersByMethod shows which method answers which, and that the same
// transaction ID serves different peers and classes at once.
func TestC12_AnswersByMethod(t *testing.T) {
	r := newRig(t, Config{})
	perf, sa := r.agent(mad.ClassPerf, 1), r.agent(mad.ClassSA, 2)
	second := netip.MustParseAddr("10.0.0.3")
	var ended []string
	ask := func(name string, a *agent, to netip.Addr, m mad.Method) {
		_, err := a.Request(r.now, Address{Remote: to}, madOf(a.cfg.Class, a.cfg.Version, m, 5), Retry{Timeout: 1e9},
			func(_ clock.Instant, m *Received, err error) { ended = append(ended, name) })
		must.Do(t, err)
	}
	ask("Set", perf, rigPeer, mad.MethodSet)
	ask("Report", perf, second, mad.MethodReport)
	ask("Trap", sa, rigPeer, mad.MethodTrap)
	sent := r.wantSent("three requests", 3)
	_, err := perf.Request(r.now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodGet, 5), Retry{Timeout: 1}, nil)
	if !errors.Is(err, ErrDuplicate) || !errors.Is(err, ib.EEXIST) {
		t.Errorf("the same transaction ID again: %v", err)
	}
	for i, want := range []string{"Set", "Report", "Trap"} {
		d := r.datagram()
		d.Src = sent[i].path.Dst
		if drop, ok := r.receive(r.packet(answerTo(&sent[i])), d); !ok || len(ended) != i+1 || ended[i] != want {
			t.Errorf("the answer to a %s: taken %v (%v), ended %v", want, ok, drop, ended)
		}
	}
}

// TestC12_NoAnswer shows that a Send has no answer: only time or its owner ends
// it.
func TestC12_NoAnswer(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassCM, 2, mad.MethodSend)
	q := &asked{}
	var err error
	q.Transaction, err = a.Request(r.now, Address{Remote: rigPeer}, madOf(mad.ClassCM, 2, mad.MethodSend, 5), Retry{Timeout: time.Second}, q.done)
	must.Do(t, err)
	r.wantSent("the request", 1)
	r.wantDrop("a response", madOf(mad.ClassCM, 2, mad.MethodGetResp, 5), counters.DropResponse)
	r.wantDrop("a response without a method", madOf(mad.ClassCM, 2, 0x80, 5), counters.DropResponse)
	r.deliver("a message with its transaction ID", madOf(mad.ClassCM, 2, mad.MethodSend, 5))
	at := r.now
	q.Cancel(at)
	q.want(t, "canceled", at, ErrCanceled)
	if len(a.got) != 1 {
		t.Errorf("the agent gets %d messages", len(a.got))
	}
}

// TestC12_Cancel shows that a canceled request ends before Cancel returns, and
// once, whoever tries again: its owner, time, an answer, or its own end.
func TestC12_Cancel(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	q := r.request(a, 5, Retry{Timeout: time.Second, Retries: 3})
	s := r.wantSent("the request", 1)[0]
	q.Cancel(r.now)
	q.want(t, "canceled", r.now, ErrCanceled)
	q.Cancel(r.now + 1)
	r.wantDrop("an answer", answerTo(&s), counters.DropResponse)
	at := r.now
	r.pass(time.Hour)
	q.want(t, "and all the rest", at, ErrCanceled)
	r.wantSent("after that", 0)

	var x, y *Transaction
	for what, end := range map[string]func(s *sentMAD){
		"time":      func(*sentMAD) { r.pass(time.Second) },
		"answer":    func(s *sentMAD) { r.deliver("the answer", answerTo(s)) },
		"owner":     func(*sentMAD) { x.Cancel(r.now) },
		"neighbour": func(*sentMAD) { y.Cancel(r.now) },
	} {
		n := 0
		done := func(now clock.Instant, _ *Received, _ error) {
			n++
			x.Cancel(now)
			y.Cancel(now)
		}
		ask := func(tid uint64) (q *Transaction) {
			q, err := a.Request(r.now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodGet, tid), Retry{Timeout: time.Second}, done)
			must.Do(t, err)
			return q
		}
		x, y = ask(1), ask(2)
		s := r.wantSent(what, 2)[0]
		end(&s)
		if n != 2 || r.g.waiting.byDue.Len() != 0 || len(r.g.waiting.byKey) != 0 {
			t.Errorf("ended by %s: two requests that cancel each other end %d times, %d wait", what, n, r.g.waiting.byDue.Len())
		}
	}
}

// TestC12_FromWithin shows that the function called at a request's end may start another, with
// the same transaction ID too, for as long as it likes.
func TestC12_FromWithin(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	left := 50
	var again Done
	ask := func(now clock.Instant) {
		_, err := a.Request(now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodGet, 5), Retry{Timeout: time.Second}, again)
		must.Do(t, err)
	}
	again = func(now clock.Instant, _ *Received, _ error) {
		if left--; left > 0 {
			ask(now)
		}
	}
	ask(r.now)
	start := r.now
	for left > 0 {
		s := r.wantSent("the request", 1)[0]
		if left%2 == 0 {
			r.deliver("its answer", answerTo(&s))
		} else {
			r.pass(time.Second)
		}
	}
	if got := r.now.Sub(start); got != 25*time.Second {
		t.Errorf("25 requests that are not answered take %v", got)
	}
}

// TestC12_DueTogether shows that requests that are due at the same instant are
// served in the order in which they were made.
func TestC12_DueTogether(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	for tid := range uint64(40) {
		r.request(a, tid, Retry{Timeout: time.Second, Retries: 2})
	}
	r.wantSent("the requests", 40)
	for range 2 {
		r.pass(time.Second)
		var tids []uint64
		for _, s := range r.wantSent("the retries", 40) {
			tids = append(tids, s.header().TID)
		}
		if !slices.IsSorted(tids) {
			t.Errorf("the retries leave in the order %v", tids)
		}
	}
}

// TestC12_TableFull shows the bound of requests that wait, and that each end
// makes room for one.
func TestC12_TableFull(t *testing.T) {
	r := newRig(t, Config{MaxTransactions: 10})
	a := r.agent(mad.ClassPerf, 1)
	q := r.request(a, 0, Retry{Timeout: time.Second})
	for tid := range uint64(9) {
		r.request(a, tid+1, Retry{Timeout: time.Second})
	}
	_, err := a.Request(r.now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodGet, 10), Retry{Timeout: 1}, nil)
	if !errors.Is(err, ErrTooManyTransactions) || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("request 11 of 10: %v", err)
	}
	r.wantSent("the requests", 10)
	q.Cancel(r.now)
	r.request(a, 10, Retry{Timeout: time.Second})
	r.wantSent("one more", 1)
	r.pass(time.Second)
	if n := r.g.Counters().TimedOut; n != 10 {
		t.Errorf("%d of 10 requests time out", n)
	}
}

// TestC12_RetryFindsNoRoom shows that a retry that finds the queue full is lost
// as on the way: the request goes on and ends in time.
func TestC12_RetryFindsNoRoom(t *testing.T) {
	r := newRig(t, Config{MaxQueue: 16})
	a := r.agent(mad.ClassPerf, 1)
	start := r.now
	q := r.request(a, 5, Retry{Timeout: time.Second, Retries: 2})
	for tid := range uint64(15) {
		must.Do(t, a.Send(r.now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodSend, tid)))
	}
	r.pass(time.Second)
	r.wantSent("what waits", 16)
	r.pass(time.Second)
	r.wantSent("the second retry", 1)
	r.pass(time.Hour)
	q.want(t, "never answered", start.Add(3*time.Second), ErrTimeout)
	if c := r.g.Counters(); c.Retried != 1 || c.QueueFull != 1 {
		t.Errorf("counted: %+v", c)
	}
}

// TestC12_BadRetry shows that a request must have an end.
func TestC12_BadRetry(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	for _, retry := range []Retry{{}, {Retries: 3}, {Timeout: -1, Retries: 3}, {Timeout: 1, Retries: -1}} {
		_, err := a.Request(r.now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodGet, 1), retry, nil)
		if !errors.Is(err, ib.EINVAL) || r.g.Pending(1) {
			t.Errorf("%+v: %v", retry, err)
		}
	}
}
