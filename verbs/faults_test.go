package verbs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/must"
)

// newFaultyPair returns two endpoints with fault rules on a network in memory.
func newFaultyPair(t testing.TB, typ ib.QPType, rulesA, rulesB string) (a, b *endpoint) {
	t.Helper()
	n := NewNetwork()
	open := func(addr, rules string) *endpoint {
		return newEndpoint(t, Config{Addr: addr, Network: n, Faults: Faults{Rules: rules, Seed: 1}}, typ)
	}
	return open("10.0.0.1", rulesA), open("10.0.0.2", rulesB)
}

// brief has attributes of connections with short retries, still long enough for a
// busy machine: a peer that does not run for a second keeps the connection.
func brief(a *QPAttr) { a.PathMTU, a.Timeout, a.MinRNRTimer = ib.MTU1024, 15, 1 }

// faultCase is a rule, the side on which it acts, and its effect on a WRITE of 64
// packets, or on a SEND if send is set.
type faultCase struct {
	rule     string
	atB      bool
	send     bool
	status   ib.WCStatus // at A
	damaged  bool        // the received data differs from the sent data
	counterA string      // must not be 0 afterwards
	counterB string
	takes    time.Duration // at least
	change   func(*QPAttr)
}

// TestFaultsOnPackets checks the effect of each packet fault and responder fault on a
// connection.
func TestFaultsOnPackets(t *testing.T) {
	hopeless := func(a *QPAttr) { a.Timeout, a.RetryCnt = 8, 2 }
	failsFast := func(a *QPAttr) { a.RNRRetry = 1 }
	// Only a probe can end the wait for an ACK before 4 s, however busy the machine is.
	retriesLong := func(a *QPAttr) { a.Timeout = 20 }
	for _, c := range []faultCase{
		{rule: "drop nth=3 op=RDMA_WRITE_MIDDLE dir=out", counterA: "rcvd_seq_err", counterB: "out_of_seq_request"},
		{rule: "drop nth=3 dir=in", atB: true, counterA: "rcvd_seq_err", counterB: "out_of_seq_request"},
		{rule: "drop p=1", status: ib.WCRetryExcErr, counterA: "local_ack_timeout_err", change: hopeless},
		{rule: "drop count=1 op=ACK", counterA: "probes", counterB: "duplicate_request", change: retriesLong},
		{rule: "dup every=2", counterB: "duplicate_request"},
		{rule: "delay 20ms op=ACK", takes: 20 * time.Millisecond},
		{rule: "delay 20ms nth=1 op=RDMA_WRITE", counterB: "out_of_seq_request"},
		{rule: "corrupt byte=20 nth=2", counterB: "drop_icrc_errors", counterA: "rcvd_seq_err"},
		{rule: "corrupt byte=0 xor=128 nth=2", counterB: "drop_malformed"},
		{rule: "corrupt byte=20 reseal nth=2", damaged: true},
		{rule: "truncate 40 nth=2", counterB: "drop_icrc_errors"},
		{rule: "truncate 41 nth=2", counterB: "drop_malformed"},
		{rule: "truncate 40 reseal nth=2", status: ib.WCRemInvReqErr},
		{rule: "reorder nth=4", counterB: "out_of_seq_request"},
		{rule: "rate 20Mbit/s", takes: 20 * time.Millisecond, change: func(a *QPAttr) { a.Timeout = 18 }},
		{rule: "rate 20Mbit/s queue=1", counterB: "out_of_seq_request"},
		{rule: "partition for=1s", counterA: "local_ack_timeout_err", change: func(a *QPAttr) { a.Timeout = 16 }},
		{rule: "rnr count=2", atB: true, send: true, counterA: "rcvd_rnr_err", counterB: "send_rnr_err"},
		{rule: "rnr", atB: true, send: true, status: ib.WCRNRRetryExcErr, change: failsFast},
		{rule: "rnr", atB: true}, // a WRITE needs no receive
		{rule: "nak SEQUENCE nth=5", atB: true, counterA: "rcvd_seq_err"},
		{rule: "nak RNR nth=5", atB: true, counterA: "rcvd_rnr_err"},
		{rule: "nak INVALID_REQUEST nth=5", atB: true, status: ib.WCRemInvReqErr},
		{rule: "nak REMOTE_ACCESS op=RDMA_WRITE_LAST", atB: true, status: ib.WCRemAccessErr},
		{rule: "nak REMOTE_OPERATIONAL nth=5", atB: true, status: ib.WCRemOpErr},
		{rule: "nak REMOTE_ACCESS nth=1 op=RDMA_READ", atB: true}, // no READ is sent
	} {
		name := c.rule
		if c.atB {
			name = "at B: " + name
		}
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

func (c *faultCase) run(t *testing.T) {
	const size = 64 << 10
	rules := [2]string{c.rule, ""}
	if c.atB {
		rules = [2]string{"", c.rule}
	}
	a, b := newFaultyPair(t, ib.RC, rules[0], rules[1])
	connect(t, a, b, func(q *QPAttr) {
		brief(q)
		if c.change != nil {
			c.change(q)
		}
	})
	for i := range a.mr.Bytes()[:size] {
		a.mr.Bytes()[i] = byte(i * 7 >> 3)
	}
	must.Do(t, b.qp.PostRecv(b.recv(9, 0, size)))
	begin := time.Now()
	wr := a.write(1, size, b)
	if c.send {
		wr = a.send(1, size)
	}
	must.Do(t, a.qp.PostSend(wr))
	wc := a.take(t, 1)[0]
	if wc.Status != c.status {
		t.Fatalf("it ends with %v, want %v", wc.Status, c.status)
	}
	if d := time.Since(begin); d < c.takes {
		t.Errorf("it took %v, want %v", d, c.takes)
	}
	b.settle(t)
	if same := bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]); c.status == ib.WCSuccess && same == c.damaged {
		t.Errorf("the data is the same: %t", same)
	}
	if c.counterA != "" && a.counter(t, c.counterA) == 0 {
		t.Errorf("A counts no %s", c.counterA)
	}
	if c.counterB != "" && b.counter(t, c.counterB) == 0 {
		t.Errorf("B counts no %s", c.counterB)
	}
	c.acted(t, a, b)
}

// acted checks the statistics of the rules.
func (c *faultCase) acted(t *testing.T, a, b *endpoint) {
	t.Helper()
	at, other := a, b
	if c.atB {
		at, other = b, a
	}
	s := at.ctx.FaultStats()
	idle := c.counterA == "" && c.counterB == "" && c.status == ib.WCSuccess && !c.damaged && c.takes == 0
	if len(s) != 1 || s[0].Rule != c.rule || (s[0].Applied == 0) != idle || at.ctx.FaultSeed() != 1 {
		t.Errorf("the rule says %+v, seed %d", s, at.ctx.FaultSeed())
	}
	if other.ctx.FaultStats() != nil || other.ctx.FaultSeed() != 0 {
		t.Error("the side without rules has some")
	}
}

// TestRefusedPeer checks the effect of an injected NAK on the side that sends it.
func TestRefusedPeer(t *testing.T) {
	for rule, want := range map[string]ib.EventType{
		"nak INVALID_REQUEST": ib.EventQPReqErr, "nak REMOTE_ACCESS": ib.EventQPAccessErr, "nak REMOTE_OPERATIONAL": ib.EventQPReqErr,
	} {
		a, b := newFaultyPair(t, ib.RC, "", rule)
		connect(t, a, b, brief)
		must.Do(t, a.qp.PostSend(a.write(1, 64, b)))
		a.take(t, 1)
		if ev := b.event(t); ev.Type != want || ev.QP != b.qp {
			t.Errorf("%s: B has the event %v, want %v", rule, ev, want)
		}
		if st := b.qp.State(); st != ib.ERR {
			t.Errorf("%s: B's QP is in %v", rule, st)
		}
	}
}

// newEEC returns an EE context in RESET.
func newEEC(e *endpoint) *EEC {
	d, _ := e.ctx.AllocRDD()
	c, _ := d.CreateEEC()
	return c
}

// xrcCalls are the verbs of XRC.
var xrcCalls = map[string]func(*endpoint, *SRQ) error{
	"OpenXRCDomain":  func(e *endpoint, _ *SRQ) error { return second(e.ctx.OpenXRCDomain()) },
	"CloseXRCDomain": func(e *endpoint, _ *SRQ) error { d, _ := e.ctx.OpenXRCDomain(); return d.Close() },
	"OpenQP": func(e *endpoint, _ *SRQ) error {
		d, _ := e.ctx.OpenXRCDomain()
		q, _ := d.CreateQP()
		return second(d.OpenQP(q.QPN()))
	},
}

// callsOfDomains are the verbs of reliable datagrams and XRC, for TestFailEveryVerb.
var callsOfDomains = map[string]func(*endpoint, *SRQ) error{
	"AllocRDD":   func(e *endpoint, _ *SRQ) error { return second(e.ctx.AllocRDD()) },
	"DeallocRDD": func(e *endpoint, _ *SRQ) error { d, _ := e.ctx.AllocRDD(); return d.Dealloc() },
	"CreateEEC":  func(e *endpoint, _ *SRQ) error { d, _ := e.ctx.AllocRDD(); return second(d.CreateEEC()) },
	"ModifyEEC": func(e *endpoint, _ *SRQ) error {
		return newEEC(e).Modify(&QPAttr{State: ib.ERR}, ib.AttrState)
	},
	"QueryEEC":   func(e *endpoint, _ *SRQ) error { return second(newEEC(e).Query()) },
	"DestroyEEC": func(e *endpoint, _ *SRQ) error { return newEEC(e).Destroy() },
}

// TestFailEveryVerb makes each verb fail once with a chosen errno; the next
// call works.
func TestFailEveryVerb(t *testing.T) {
	calls := map[string]func(*endpoint, *SRQ) error{
		"AllocPD":   func(e *endpoint, _ *SRQ) error { _, err := e.ctx.AllocPD(); return err },
		"DeallocPD": func(e *endpoint, _ *SRQ) error { p, _ := e.ctx.AllocPD(); return p.Dealloc() },
		"RegMR":     func(e *endpoint, _ *SRQ) error { _, err := e.pd.RegMR(make([]byte, 8), 0); return err },
		"ReregMR":   func(e *endpoint, _ *SRQ) error { return e.mr.ReregAccess(ib.AccessLocalWrite) },
		"DeregMR":   func(e *endpoint, _ *SRQ) error { m, _ := e.pd.RegMR(make([]byte, 8), 0); return m.Dereg() },
		"AllocMW":   func(e *endpoint, _ *SRQ) error { _, err := e.pd.AllocMW(ib.MWType1); return err },
		"DeallocMW": func(e *endpoint, _ *SRQ) error { m, _ := e.pd.AllocMW(ib.MWType2); return m.Dealloc() },
		"AllocDM":   func(e *endpoint, _ *SRQ) error { return second(e.ctx.AllocDM(8, 0)) },
		"FreeDM":    func(e *endpoint, _ *SRQ) error { m, _ := e.ctx.AllocDM(8, 0); return m.Free() },
		"AdviseMR":  func(e *endpoint, _ *SRQ) error { return e.pd.AdviseMR(AdvicePrefetch, false, []SGE{e.mr.SGE(0, 1)}) },
		"CreateCQ":  func(e *endpoint, _ *SRQ) error { _, err := e.ctx.CreateCQ(4, nil); return err },
		"ResizeCQ":  func(e *endpoint, _ *SRQ) error { return e.cq.Resize(4096) },
		"ModifyCQ":  func(e *endpoint, _ *SRQ) error { return e.cq.Moderate(Moderation{}) },
		"ReqNotify": func(e *endpoint, _ *SRQ) error { return e.cq.ReqNotify(false) },
		"DestroyCQ": func(e *endpoint, _ *SRQ) error { q, _ := e.ctx.CreateCQ(4, nil); return q.Destroy() },
		"CreateSRQ": func(e *endpoint, _ *SRQ) error {
			_, err := e.pd.CreateSRQ(&SRQInitAttr{MaxWR: 4, MaxSGE: 1})
			return err
		},
		"SetSRQLimit": func(_ *endpoint, s *SRQ) error { return s.SetLimit(1) },
		"ResizeSRQ":   func(_ *endpoint, s *SRQ) error { return s.Resize(4) },
		"PostSRQRecv": func(e *endpoint, s *SRQ) error { return s.PostRecv(e.recv(1, 0, 8)) },
		"DestroySRQ": func(e *endpoint, _ *SRQ) error {
			s, err := e.pd.CreateSRQ(&SRQInitAttr{MaxWR: 4, MaxSGE: 1})
			return errors.Join(err, s.Destroy())
		},
		"CreateAH": func(e *endpoint, _ *SRQ) error { _, err := e.pd.CreateAH(e.attrs(e).AV); return err },
		"DestroyAH": func(e *endpoint, _ *SRQ) error {
			h, err := e.pd.CreateAH(e.attrs(e).AV)
			return errors.Join(err, h.Destroy())
		},
		"CreateQP":    func(e *endpoint, _ *SRQ) error { _, err := e.pd.CreateQP(e.init(ib.RC)); return err },
		"ModifyQP":    func(e *endpoint, _ *SRQ) error { return e.qp.Modify(&QPAttr{State: ib.ERR}, ib.AttrState) },
		"QueryQP":     func(e *endpoint, _ *SRQ) error { _, err := e.qp.Query(); return err },
		"DestroyQP":   func(e *endpoint, _ *SRQ) error { q, _ := e.pd.CreateQP(e.init(ib.RC)); return q.Destroy() },
		"AttachMcast": func(e *endpoint, _ *SRQ) error { return e.qp.AttachMcast(testGroup, 0) },
		"DetachMcast": func(e *endpoint, _ *SRQ) error { return e.qp.DetachMcast(testGroup, 0) },
		"PostSend":    func(e *endpoint, _ *SRQ) error { return e.qp.PostSend(e.send(1, 8)) },
		"PostRecv":    func(e *endpoint, _ *SRQ) error { return e.qp.PostRecv(e.recv(1, 0, 8)) },
	}
	maps.Copy(calls, xrcCalls)
	maps.Copy(calls, callsOfDomains)
	for _, v := range fault.Calls() {
		if strings.HasPrefix(v, "CM") {
			continue // a call of package rdmacm, whose tests make it fail
		}
		t.Run(v, func(t *testing.T) {
			rule := "fail errno=ENOSPC every=2 op=" + v
			e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork(), Faults: Faults{Rules: rule}}, ib.RC)
			srq, err := e.pd.CreateSRQ(&SRQInitAttr{MaxWR: 4, MaxSGE: 1})
			must.Do(t, err)
			e.walk(t, e.attrs(e), ib.INIT)
			failed := 0
			for range 4 {
				err := calls[v](e, srq)
				if errors.Is(err, syscall.ENOSPC) && strings.Contains(fmt.Sprint(err), "fault on demand ("+rule+")") {
					failed++
				}
			}
			if failed != 2 {
				t.Errorf("%d of 4 calls failed, want 2", failed)
			}
		})
	}
}

// TestFailInTheMiddle makes the third work request of a list fail: those
// before it are posted.
func TestFailInTheMiddle(t *testing.T) {
	a, b := newFaultyPair(t, ib.RC, "fail op=PostSend nth=3 errno=ENOMEM", "")
	connect(t, a, b, brief)
	wrs := []SendWR{a.write(10, 8, b), a.write(11, 8, b), a.write(12, 8, b), a.write(13, 8, b)}
	err := a.qp.PostSend(wrs...)
	bad := (*PostError)(nil)
	if !errors.As(err, &bad) || bad.Index != 2 || bad.WRID != 12 || !errors.Is(err, syscall.ENOMEM) {
		t.Fatalf("the post ends with %v", err)
	}
	if wcs := a.wait(t, 2); wcs[0].WRID != 10 || wcs[1].WRID != 11 {
		t.Errorf("completed are %v", wcs)
	}
	must.Do(t, a.qp.PostSend(wrs[2:]...))
	a.wait(t, 2)
}

// TestSeedAndSources reads rules from a file and the environment, with the
// seed from there, or a drawn one.
func TestSeedAndSources(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "rules.txt")
	must.Do(t, os.WriteFile(name, []byte("# slow\ndelay 1ms\n"), 0o600))
	bad := filepath.Join(dir, "bad.txt")
	must.Do(t, os.WriteFile(bad, []byte("drop\ndrop nht=1\n"), 0o600))
	open := func(o ...Option) (*Context, error) {
		return Open(Config{Addr: "10.0.0.1", Network: NewNetwork()}, o...)
	}
	stats := func(c *Context, err error) string {
		must.Do(t, err)
		var rules []string
		for _, s := range c.FaultStats() {
			rules = append(rules, s.Rule)
		}
		must.Do(t, c.Close())
		return strings.Join(rules, "; ")
	}
	t.Setenv(FaultsEnv, "@"+name)
	t.Setenv(FaultsSeedEnv, "77")
	if got := stats(open(WithFaults("drop nth=1", 0), func(c *Config) { c.Faults.File = name })); got != "drop nth=1; delay 1ms; delay 1ms" {
		t.Errorf("the rules are %q", got)
	}
	c, err := open()
	must.Do(t, err)
	if c.FaultSeed() != 77 {
		t.Errorf("the seed of the environment became %d", c.FaultSeed())
	}
	must.Do(t, c.Close())
	for _, v := range []struct{ rules, seed, want string }{
		{"dorp", "", FaultsEnv + ": unknown fault"}, {"@" + bad, "", bad + ": line 2: drop has no \"nht\""},
		{"@" + dir + "/none", "", "no such file"}, {"drop", "many", FaultsSeedEnv},
	} {
		t.Setenv(FaultsEnv, v.rules)
		t.Setenv(FaultsSeedEnv, v.seed)
		if _, err := open(); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s=%q, seed %q: %v", FaultsEnv, v.rules, v.seed, err)
		}
	}
	t.Setenv(FaultsEnv, "drop")
	t.Setenv(FaultsSeedEnv, "")
	if c, err = open(); err != nil || c.FaultSeed() == 0 {
		t.Errorf("without a seed: %v, %v", c.FaultSeed(), err)
	}
	must.Do(t, c.Close())
}

// TestSameSeedSameFaults sends datagrams, which are never retransmitted: with one seed
// the rule drops the same number each time.
func TestSameSeedSameFaults(t *testing.T) {
	lost := func(seed uint64) uint64 {
		n := NewNetwork()
		a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Faults: Faults{Rules: "drop p=0.3", Seed: seed}}, ib.UC)
		b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.UC)
		connect(t, a, b, brief)
		for i := range uint64(200) {
			must.Do(t, a.qp.PostSend(a.write(i, 8, b)))
		}
		a.wait(t, 200)
		_, err := a.qp.Query() // returns after the last datagram was sent
		must.Do(t, err)
		return a.ctx.FaultStats()[0].Applied
	}
	one, two := lost(5), lost(5)
	if one != two || one < 30 || one > 90 {
		t.Errorf("of 200 packets %d and %d were lost with p=0.3 and the same seed", one, two)
	}
}

// TestFaultTrace checks that the trace records the actions of rules on packets,
// requests and calls.
func TestFaultTrace(t *testing.T) {
	seen := make(chan string, 64)
	n := NewNetwork()
	tracer := func(r *TraceRecord) {
		if r.Kind == TraceFault {
			seen <- r.Cause
		}
	}
	rules := "drop op=ACK nth=1 dir=in; fail op=PostSend nth=2; event PORT_ERR op=QueryQP"
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Trace: tracer, Faults: Faults{Rules: rules}}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n, Trace: tracer, Faults: Faults{Rules: "nak SEQUENCE nth=1"}}, ib.RC)
	connect(t, a, b, brief)
	must.Do(t, a.qp.PostSend(a.write(1, 8, b)))
	a.wait(t, 1)
	if a.qp.PostSend(a.write(2, 8, b)) == nil {
		t.Error("the second post works")
	}
	_, err := a.qp.Query()
	must.Do(t, err)
	got := map[string]bool{}
	for range 4 {
		got[<-seen] = true
	}
	for _, want := range []string{
		"drop nth=1 op=ACK dir=in", "nak SEQUENCE nth=1", "event PORT_ERR op=QueryQP",
		"fault on demand (fail nth=2 op=PostSend): cannot allocate memory",
	} {
		if !got[want] {
			t.Errorf("no record of %q: %v", want, got)
		}
	}
}

// TestPostsStayOffTheHeap checks that posts allocate nothing, neither without rules
// nor with rules for other calls.
func TestPostsStayOffTheHeap(t *testing.T) {
	for _, rules := range []string{"", "fail op=QueryQP", "event PORT_ERR after=1h"} {
		a, b := newFaultyPair(t, ib.RC, rules, "")
		connect(t, a, b, brief)
		n := testing.AllocsPerRun(5, func() {
			must.Do(t, a.qp.PostRecv(RecvWR{SGList: []SGE{a.mr.SGE(0, 8)}}))
		})
		if n != 0 {
			t.Errorf("%q: posting a receive allocates %v times", rules, n)
		}
	}
}
