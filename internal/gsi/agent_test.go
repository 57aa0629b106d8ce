package gsi

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// TestC12_Dispatch shows that each MAD goes to the agent of its class and
// version that takes its method, and to no other.
func TestC12_Dispatch(t *testing.T) {
	r := newRig(t, Config{})
	agents := map[string]*agent{
		"CM 2":   r.agent(mad.ClassCM, 2, mad.MethodSend),
		"PERF 1": r.agent(mad.ClassPerf, 1, mad.MethodGet, mad.MethodSet),
		"PERF 2": r.agent(mad.ClassPerf, 2, mad.MethodGet, mad.MethodTrap, 0x7f),
	}
	for _, c := range []struct {
		class   mad.Class
		version uint8
		method  mad.Method
		want    string // "": none
	}{
		{mad.ClassCM, 2, mad.MethodSend, "CM 2"},
		{mad.ClassCM, 2, mad.MethodTrap, ""},
		{mad.ClassCM, 1, mad.MethodSend, ""},
		{mad.ClassPerf, 1, mad.MethodGet, "PERF 1"},
		{mad.ClassPerf, 1, mad.MethodSet, "PERF 1"},
		{mad.ClassPerf, 1, mad.MethodSend, ""},
		{mad.ClassPerf, 1, 0x41, ""}, // the same bit in the other half of the set
		{mad.ClassPerf, 2, mad.MethodGet, "PERF 2"},
		{mad.ClassPerf, 2, mad.MethodTrap, "PERF 2"},
		{mad.ClassPerf, 2, 0x7f, "PERF 2"},
		{mad.ClassPerf, 2, 0x3f, ""},
		{mad.ClassPerf, 3, mad.MethodSend, ""},
		{mad.ClassSA, 1, mad.MethodReport, ""},
	} {
		m := madOf(c.class, c.version, c.method, 3)
		if c.want == "" {
			r.wantDrop("a MAD for nobody", m, counters.DropMADAgent)
		} else {
			r.deliver(c.want, m)
		}
		for name, a := range agents {
			if got := len(a.got); got != map[bool]int{true: 1}[name == c.want] || got == 1 && a.got[0] != *m {
				t.Errorf("class %v version %d %v: agent %s gets %d", c.class, c.version, c.method, name, got)
			}
			a.got = nil
		}
	}
	r.wantSent("nothing wants an answer", 0)
}

// TestC12_Register shows which registrations are refused, and that closing an
// agent allows another one.
func TestC12_Register(t *testing.T) {
	r := newRig(t, Config{})
	cm := r.agent(mad.ClassCM, 2, mad.MethodSend)
	receive := func(clock.Instant, *Received) bool { return true }
	for what, c := range map[string]struct {
		cfg  AgentConfig
		want error
	}{
		"taken":           {AgentConfig{Class: mad.ClassCM, Version: 2}, ErrTaken},
		"taken, errno":    {AgentConfig{Class: mad.ClassCM, Version: 2}, ib.EEXIST},
		"a response":      {AgentConfig{Class: mad.ClassPerf, Methods: []mad.Method{mad.MethodGetResp}, Receive: receive}, ib.EINVAL},
		"TrapRepress":     {AgentConfig{Class: mad.ClassPerf, Methods: []mad.Method{mad.MethodTrapRepress}, Receive: receive}, ib.EINVAL},
		"without Receive": {AgentConfig{Class: mad.ClassPerf, Methods: []mad.Method{mad.MethodGet}}, ib.EINVAL},
	} {
		if _, err := r.g.Register(c.cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	for v := range uint8(maxAgents - 1) {
		r.agent(mad.ClassDeviceMgmt, v)
	}
	_, err := r.g.Register(AgentConfig{Class: mad.ClassSA})
	if !errors.Is(err, ErrTooManyAgents) || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("agent %d: %v", maxAgents+1, err)
	}
	cm.Close(r.now)
	cm.Close(r.now)
	again := r.agent(mad.ClassCM, 2, mad.MethodSend)
	r.deliver("a message", madOf(mad.ClassCM, 2, mad.MethodSend, 1))
	if len(cm.got) != 0 || len(again.got) != 1 {
		t.Errorf("the closed agent gets %d, its successor %d", len(cm.got), len(again.got))
	}
}

// TestC12_TransactionIDs shows the layout of Linux: the first agent, which is
// the connection manager's, has number 2; numbers of
// agents are not reused.
func TestC12_TransactionIDs(t *testing.T) {
	r := newRig(t, Config{})
	cm := r.agent(mad.ClassCM, 2)
	if got := cm.TID(0x198a00ac); got != 0x00000002ac008a19 {
		t.Errorf("the transaction ID of communication ID 0x198a00ac is %#016x", got)
	}
	cm.Close(r.now)
	if got := r.agent(mad.ClassCM, 2).TID(1); got != 0x0000000301000000 {
		t.Errorf("the next agent's is %#016x", got)
	}
}

// TestC12_Close shows that closing an agent ends its own requests, oldest
// first; that its queued MADs are still sent; and that it cannot be used any
// more.
func TestC12_Close(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.agent(mad.ClassPerf, 1), r.agent(mad.ClassSA, 2)
	to := Address{Remote: rigPeer}
	var ends []uint64
	for tid := range uint64(5) {
		_, err := a.Request(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodGet, tid), Retry{Timeout: time.Duration(10 - tid)},
			func(_ clock.Instant, m *Received, err error) {
				if m != nil || !errors.Is(err, ErrCanceled) {
					t.Errorf("request %d ends with %v, %v", tid, m, err)
				}
				ends = append(ends, tid)
				a.Close(r.now) // again, from within
			})
		must.Do(t, err)
	}
	other := r.request(b, 77, Retry{Timeout: time.Second})
	a.Close(r.now)
	if len(ends) != 5 || ends[0] != 0 || ends[4] != 4 || len(other.ends) != 0 || r.g.waiting.byDue.Len() != 1 {
		t.Errorf("requests %v end, %d of the other agent's, %d wait", ends, len(other.ends), r.g.waiting.byDue.Len())
	}
	m := madOf(mad.ClassPerf, 1, mad.MethodGet, 9)
	must.Fail(t, a.Send(r.now, to, m), ErrAgentClosed, "a Send afterwards")
	if _, err := a.Request(r.now, to, m, Retry{Timeout: 1}, nil); !errors.Is(err, ErrAgentClosed) {
		t.Errorf("a Request afterwards: %v", err)
	}
	r.wantSent("what was sent before", 6)
}

// TestC12_ForeignClass shows that an agent sends MADs of its own class and
// version only.
func TestC12_ForeignClass(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 1)
	base := madOf(mad.ClassPerf, 1, mad.MethodGet, 1)
	base[0] = 2
	for what, m := range map[string]*mad.MAD{
		"class":        madOf(mad.ClassCM, 1, mad.MethodGet, 1),
		"version":      madOf(mad.ClassPerf, 2, mad.MethodGet, 1),
		"base version": base,
	} {
		if err := a.Send(r.now, Address{Remote: rigPeer}, m); !errors.Is(err, ib.EINVAL) {
			t.Errorf("a MAD of another %s: %v", what, err)
		}
	}
}
