package gsi

import (
	"testing"

	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/mad"
)

// TestC12_Unsupported shows the answers to requests without an agent, and the
// MADs that get no answer: a Send, a Trap, a Report and every response, of any
// class.
func TestC12_Unsupported(t *testing.T) {
	const silent = 0xffff
	for _, c := range []struct {
		what    string
		class   mad.Class
		version uint8
		method  mad.Method
		status  mad.Status
	}{
		{"unknown class", mad.ClassSA, 2, mad.MethodGet, mad.StatusUnsupportedAttribute},
		{"unknown class", mad.ClassSA, 2, mad.MethodSet, mad.StatusUnsupportedAttribute},
		{"class 0", 0, 0, mad.MethodGet, mad.StatusUnsupportedAttribute},
		{"unknown version", mad.ClassPerf, 2, mad.MethodGet, mad.StatusBadVersion},
		{"unknown version", mad.ClassCM, 1, mad.MethodSet, mad.StatusBadVersion},
		{"unknown attribute", mad.ClassPerf, 1, mad.MethodGet, mad.StatusUnsupportedAttribute},
		{"unknown attribute", mad.ClassCM, 2, mad.MethodGet, mad.StatusUnsupportedAttribute},
		{"unknown method", mad.ClassCM, 2, mad.MethodSet, mad.StatusUnsupportedMethod},
		{"unknown class", mad.ClassSA, 2, mad.MethodSend, silent},
		{"unknown class", mad.ClassSA, 2, mad.MethodTrap, silent},
		{"unknown class", mad.ClassSA, 2, mad.MethodReport, silent},
		{"unknown class", mad.ClassSA, 2, mad.MethodGetResp, silent},
		{"unknown version", mad.ClassPerf, 2, mad.MethodSend, silent},
		{"unknown attribute", mad.ClassPerf, 1, mad.MethodSend, silent},
		{"no method", mad.ClassPerf, 1, 0, silent},
		{"another class's method", mad.ClassPerf, 1, 0x12, silent},
		{"every response", mad.ClassPerf, 1, mad.MethodGetResp, silent},
		{"every response", mad.ClassPerf, 1, mad.MethodTrapRepress, silent},
		{"every response", mad.ClassPerf, 1, 0xff, silent},
	} {
		r := newRig(t, Config{})
		perf := r.agent(mad.ClassPerf, 1, mad.MethodGet, mad.MethodSet, mad.MethodSend)
		perf.refuse = true
		r.agent(mad.ClassCM, 2, mad.MethodSend)
		m := madOf(c.class, c.version, c.method, 0x1122334455667788)
		drop, ok := r.receive(r.packet(m), r.datagram())
		want := map[bool]counters.Drop{true: counters.DropResponse, false: counters.DropMADAgent}[c.method.IsResponse()]
		if c.status == silent {
			if ok || drop != want {
				t.Errorf("%s, %v: taken %v, %v; want %v", c.what, c.method, ok, drop, want)
			}
			r.wantSent(c.what, 0)
			continue
		}
		s := r.wantSent(c.what, 1)[0]
		answer := m.Header()
		answer.Method, answer.Status = mad.MethodGetResp, c.status
		if s.header() != answer || *s.mad.Data() != *m.Data() {
			t.Errorf("%s, %v: answered with %+v, want %+v", c.what, c.method, s.header(), answer)
		}
		if n := r.g.Counters(); !ok || n.Unsupported != 1 || n.Sent != 1 {
			t.Errorf("%s: counted %+v", c.what, n)
		}
	}
}

// TestC12_ClassPortInfo shows that the interface answers a Get of ClassPortInfo
// for every agent with the agent's own description and a matching header,
// without a call of the agent. A Set goes to the agent.
func TestC12_ClassPortInfo(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassPerf, 3, mad.MethodGet, mad.MethodSet)
	m := madOf(mad.ClassPerf, 3, mad.MethodGet, 99)
	h := m.Header()
	h.AttrID = mad.AttrClassPortInfo
	m.PutHeader(h)
	r.deliver("a Get", m)
	s := r.wantSent("a Get", 1)[0]
	var got mad.ClassPortInfo
	got.Decode(&s.mad)
	h.Method = mad.MethodGetResp
	if s.header() != h || got != a.cfg.Info || len(a.got) != 0 || r.g.Counters().Informed != 1 {
		t.Errorf("the answer is %+v %+v", s.header(), got)
	}
	h.Method = mad.MethodSet
	m.PutHeader(h)
	r.deliver("a Set", m)
	if len(a.got) != 1 {
		t.Errorf("the agent gets %d", len(a.got))
	}
}

// TestC12_AnswersGoBack shows where an answer goes: to the queue pair and the
// address that asked, from the address that was asked, with its traffic class.
func TestC12_AnswersGoBack(t *testing.T) {
	r := newRig(t, Config{})
	p, d := r.packet(madOf(mad.ClassSA, 2, mad.MethodGet, 1)), r.datagram()
	p.DETH.SrcQP, d.TClass, p.BTH.PKey = 0x31313, 0x28, 0x7fff
	if _, ok := r.receive(p, d); !ok {
		t.Fatal("dropped")
	}
	s := r.wantSent("a Get", 1)[0]
	want := fabric.Path{Src: rigLocal, Dst: rigPeer, SrcPort: 55410, TClass: 0x28, HopLimit: 64}
	if s.path != want || s.p.BTH.DestQP != 0x31313 || s.p.BTH.PKey != 0xffff {
		t.Errorf("the answer goes %+v with %+v", s.path, s.p.BTH)
	}
}
