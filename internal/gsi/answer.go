package gsi

import (
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/mad"
)

// wantsAnswer reports whether the interface answers a MAD of the method that no
// agent takes: Get and Set, as on Linux. Everything else is dropped.
func wantsAnswer(m mad.Method) bool { return m == mad.MethodGet || m == mad.MethodSet }

// statusOfMethod returns the status of the answer to a method that an agent
// does not take. Every class supports Get, for its ClassPortInfo, so for Get
// the attribute is unsupported.
func statusOfMethod(m mad.Method) mad.Status {
	if m == mad.MethodGet {
		return mad.StatusUnsupportedAttribute
	}
	return mad.StatusUnsupportedMethod
}

// refuse answers a Get or Set with a status.
func (g *Interface) refuse(r *Received, h *mad.Header, s mad.Status) (counters.Drop, bool) {
	if !wantsAnswer(h.Method) {
		return counters.DropMADAgent, false
	}
	m := mad.Unsupported(r.MAD, s)
	return g.answer(r, &m, &g.counters.Unsupported)
}

// inform answers a Get of an agent's ClassPortInfo.
func (g *Interface) inform(r *Received, h *mad.Header, a *Agent) (counters.Drop, bool) {
	var m mad.MAD
	answer := *h
	answer.Method, answer.Status = mad.MethodGetResp, mad.StatusOK
	m.PutHeader(answer)
	a.cfg.Info.Put(&m)
	return g.answer(r, &m, &g.counters.Informed)
}

// answer sends the interface's own answers. It uses at most a quarter of the
// queue, so that a flood of requests cannot fill it.
func (g *Interface) answer(r *Received, m *mad.MAD, count *uint64) (counters.Drop, bool) {
	to, err := g.resolve(&r.From)
	if err != nil || to.queue.len() >= to.queue.max/4 || g.enqueue(&to, m) != nil {
		return counters.DropMADAnswer, false
	}
	*count++
	return 0, true
}
