package gsi

import (
	"testing"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// BenchmarkSend measures a MAD on its way out, from the agent into the batch.
func BenchmarkSend(b *testing.B) {
	r := newRig(b, Config{})
	r.g.cfg.Out.Trace = nil
	a := r.agent(mad.ClassCM, 2)
	m := madOf(mad.ClassCM, 2, mad.MethodSend, 1)
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, a.Send(r.now, Address{Remote: rigPeer}, m))
		r.g.Transmit(r.now, 1, r.batch)
		r.batch.Reset()
	}
}

// BenchmarkReceive measures a MAD on its way in, from the parsed packet to the
// agent.
func BenchmarkReceive(b *testing.B) {
	r := newRig(b, Config{})
	r.g.cfg.Out.Trace = nil
	_, err := r.g.Register(AgentConfig{
		Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.MethodSend},
		Receive: func(clock.Instant, *Received) bool { return true },
	})
	must.Do(b, err)
	p, d := r.packet(madOf(mad.ClassCM, 2, mad.MethodSend, 1)), r.datagram()
	p.Info = p.BTH.Opcode.Info()
	b.ReportAllocs()
	for b.Loop() {
		r.g.Receive(r.now, &p, &d)
	}
}
