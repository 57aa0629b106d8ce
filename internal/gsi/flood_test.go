package gsi

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// flood delivers n packets like m, each from another address and with another
// transaction ID, and calls between after every hundred. It returns the bytes
// allocated meanwhile.
func (r *rig) flood(m *mad.MAD, n int, between func(i int)) uint64 {
	p, d := r.packet(m), r.datagram()
	p.Info = p.BTH.Opcode.Info()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		binary.BigEndian.PutUint64(m[8:], uint64(i))
		d.Src = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		r.g.Receive(r.now, &p, &d)
		if i%100 == 99 {
			between(i)
		}
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestC12_Floods sends a million unsolicited MADs of each kind. The memory
// grows by at most the queue's bound, answers take at most a quarter of the
// queue, and agents' own MADs and requests work meanwhile.
func TestC12_Floods(t *testing.T) {
	const n = 1_000_000
	info := madOf(mad.ClassPerf, 1, mad.MethodGet, 0)
	h := info.Header()
	h.AttrID = mad.AttrClassPortInfo
	info.PutHeader(h)
	for what, c := range map[string]struct {
		m        *mad.MAD
		answered bool
	}{
		"Gets of an unknown class":   {madOf(mad.ClassSA, 2, mad.MethodGet, 0), true},
		"Sets of an unknown version": {madOf(mad.ClassPerf, 7, mad.MethodSet, 0), true},
		"Gets of ClassPortInfo":      {info, true},
		"Sends of an unknown class":  {madOf(mad.ClassSA, 2, mad.MethodSend, 0), false},
		"responses":                  {madOf(mad.ClassPerf, 1, mad.MethodGetResp, 0), false},
	} {
		r := newRig(t, Config{MaxQueue: 64})
		r.g.cfg.Out.Trace = nil
		a := r.agent(mad.ClassPerf, 1)
		bytes := r.flood(c.m, n/2, func(int) {})
		if r.g.queues[0].count != map[bool]int{true: 16}[c.answered] {
			t.Errorf("%s: %d answers wait", what, r.g.queues[0].count)
		}
		for tid := range uint64(48) {
			if err := a.Send(r.now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodSend, tid)); err != nil {
				t.Fatalf("%s: MAD %d of an agent: %v", what, tid, err)
			}
		}
		r.sent()
		asked := 0
		bytes += r.flood(c.m, n/2, func(i int) {
			if i%10_000 == 9_999 {
				asked += r.conversation(what, a)
			}
		})
		if asked != n/2/10_000 || len(r.g.waiting.byKey) != 0 {
			t.Errorf("%s: %d conversations of %d end as they should", what, asked, n/2/10_000)
		}
		if bytes > 4<<20 {
			t.Errorf("%s: a million packets take %d bytes", what, bytes)
		}
		if got := r.g.Counters(); got.Received < n || c.answered != (r.counters.Drops[counters.DropMADAnswer] > 0) {
			t.Errorf("%s: counted %+v", what, got)
		}
	}
}

// conversation lets an agent send requests to the peer, who answers each second
// attempt. It returns how many requests were answered.
func (r *rig) conversation(what string, a *agent) (answered int) {
	r.t.Helper()
	_, err := a.Request(r.now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodGet, 1<<40), Retry{Timeout: time.Second, Retries: 2},
		func(_ clock.Instant, _ *Received, err error) {
			if err == nil {
				answered++
			}
		})
	must.Do(r.t, err)
	r.sent() // is lost
	r.pass(time.Second)
	out := r.sent()
	if len(out) == 0 {
		r.t.Fatalf("%s: a retry does not leave", what)
	}
	r.deliver(what, answerTo(&out[len(out)-1]))
	return answered
}

// TestC12_NoAllocation counts allocations: in steady state a MAD costs none,
// neither when it is sent nor when it arrives, is answered or dropped.
func TestC12_NoAllocation(t *testing.T) {
	r := newRig(t, Config{})
	r.g.cfg.Out.Trace = nil
	got := 0
	a, err := r.g.Register(AgentConfig{
		Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.MethodSend},
		Receive: func(clock.Instant, *Received) bool { got++; return true },
	})
	must.Do(t, err)
	m := madOf(mad.ClassCM, 2, mad.MethodSend, 1)
	packets := []roce.Packet{r.packet(m), r.packet(madOf(mad.ClassSA, 2, mad.MethodGet, 1)), r.packet(madOf(mad.ClassCM, 2, mad.MethodGetResp, 1))}
	d := r.datagram()
	trip := func() {
		for i := range packets {
			packets[i].Info = packets[i].BTH.Opcode.Info()
			r.g.Receive(r.now, &packets[i], &d)
		}
		must.Do(t, a.Send(r.now, Address{Remote: rigPeer}, m))
		r.g.Transmit(r.now, 1, r.batch)
		r.batch.Reset()
	}
	trip()
	if n := testing.AllocsPerRun(200, trip); n != 0 || got == 0 {
		t.Errorf("%g allocations for a message each way, an answer and a drop; want none", n)
	}
}
