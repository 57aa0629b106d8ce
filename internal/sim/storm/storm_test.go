package storm

import (
	"bytes"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
)

var (
	flagSeed  = flag.Uint64("seed", 0, "run only this seed")
	flagSeeds = flag.Uint64("seeds", 80, "seeds")
)

const testOps = 400

// sum is what some runs came to.
type sum struct{ marks, cells []uint64 }

// runAll makes runs, each of which must be clean.
func runAll(t *testing.T, first, last uint64) sum {
	t.Helper()
	all := sum{make([]uint64, len(markNames)), make([]uint64, len(spots))}
	for seed := first; seed <= last; seed++ {
		r := virtual.Run(virtual.Config{Seed: seed, Ops: testOps, Ladder: 200}, Open)
		if v := r.Violation; v != nil {
			t.Fatalf("seed %d (%s): %s: %s, at %v after action %d\n%s", seed, r.Faults, v.Check, v.Detail, v.At, v.Action,
				strings.Join(r.Ladder[max(0, len(r.Ladder)-40):], "\n"))
		}
		for i, n := range r.Marks {
			all.marks[i] += n
		}
		for i, n := range r.Cells {
			all.cells[i] += n
		}
	}
	return all
}

// TestC3_C4_C5_C6_C7_C8_C9_C10_Storms runs storms: every connection ends
// established or reported at both ends, and nothing is left half open. All
// situations come up, and so does every cell of the machines in which anything
// happens: a simulator that is clean because nothing happens proves nothing.
func TestC3_C4_C5_C6_C7_C8_C9_C10_Storms(t *testing.T) {
	if *flagSeed != 0 {
		runAll(t, *flagSeed, *flagSeed)
		return
	}
	all := runAll(t, 1, *flagSeeds)
	for i, name := range MarkNames() {
		if all.marks[i] == 0 {
			t.Errorf("%d seeds never came to %q", *flagSeeds, name)
		}
	}
	var done []string
	cm.Walk(func(r cm.Row) {
		if r.Outcome == cm.Done {
			done = append(done, r.State+": "+r.Input)
		}
	})
	for i, name := range CellNames() {
		if all.cells[i] == 0 && slices.Contains(done, name) {
			t.Errorf("%d seeds never came to %s", *flagSeeds, name)
		}
	}
}

// TestSkip leaves every action but one out, which then does what it did.
func TestSkip(t *testing.T) {
	skip := make(map[int]bool)
	for i := range testOps {
		skip[i] = i != 7
	}
	var trace bytes.Buffer
	r := virtual.Run(virtual.Config{Seed: 2, Ops: testOps, Skip: skip, Ladder: 1, Trace: &trace}, Open)
	if r.Violation != nil || strings.Count(trace.String(), "action ") != 1 || !strings.Contains(trace.String(), "action 7: ") {
		t.Errorf("violation %v; trace:\n%.500s", r.Violation, trace.String())
	}
}

// storming returns a world in the midst of a storm in which a side fits.
func storming(t *testing.T, fit func(*side) bool) (*world, *side) {
	t.Helper()
	w := newWorld(virtual.Config{Seed: 5, Ops: testOps, Ladder: 50})
	w.setUp()
	for w.Acted < w.Config.Ops && w.Violation == nil {
		w.Step(w, 1<<62)
		if s := w.pick(w.Rand, fit); s != nil {
			return w, s
		}
	}
	t.Fatalf("the storm never came to what the test needs: %v", w.Violation)
	return nil, nil
}

// upAtBothEnds fits the active side of a connection of RC.
func upAtBothEnds(s *side) bool {
	return s.active && s.kind == reliable && s.phase == up && s.together()
}

// TestOracle shows that each check can fail: it does behind the back of the
// model what an adapter may not do by itself.
func TestOracle(t *testing.T) {
	together := upAtBothEnds
	overBesideUp := func(s *side) bool { return s.phase == over && s.host.w.pick(s.program.rand, together) != nil }
	for _, c := range []spoiled{
		{"a connection ends and its program is not told", "state", together, func(s *side) {
			s.repeats = repeats{}
			_ = s.conn.SendDREQ(s.host.w.Now, nil)
		}},
		{"a connection that nobody made", "leak", together, func(s *side) {
			p := s.path()
			_ = s.host.HCA.CM().NewConn(nil).SendREQ(s.host.w.Now, &cm.REQParams{Transport: mad.TransportRC, QPN: s.qpn, Path: p})
		}},
		{"a queue pair stays ready when its connection is over", "half open", overBesideUp, func(s *side) {
			s.sock = s.host.w.pick(s.program.rand, together).sock
		}},
		{"data of another connection", "data", together, func(s *side) {
			s.program.talk()
			s.peer.peer = s.peer
		}},
		{"a message that was to be sent is not", "answer", together, func(s *side) {
			s.owe(mad.AttrRTU, "the test")
		}},
		{"a peer that ended long ago without a word", "half open", together, func(s *side) {
			w := s.host.w
			s.peer.host.sides = slices.DeleteFunc(s.peer.host.sides, func(o *side) bool { return o == s.peer })
			s.peer.vanished = true
			s.peer.of(s.try).ended = w.Now
			w.plan.loss = 0
			w.compare()
		}},
		{"a wait without an end", "liveness", func(s *side) bool { return s.phase == calling }, func(s *side) {
			s.limit = s.host.w.Now - 1
		}},
		{"an event that cannot come", "event", together, func(s *side) {
			s.onEvent(&cm.Event{Type: cm.REQError})
		}},
		{"words that nobody said", "private data", together, func(s *side) {
			e := cm.Event{Type: cm.DREQReceived, DREQ: new(mad.DREQ)}
			copy(e.DREQ.PrivateData[:], script(title{s.peer.id, s.try, mad.AttrDREQ}, 3))
			s.host.w.speaker(s.host, &e)
		}},
	} {
		c.notice(t)
	}
}

// spoiled is something that may not happen, and the check that must notice it.
type spoiled struct {
	why, check string
	fit        func(*side) bool
	spoil      func(*side)
}

// notice does it to a side that fits.
func (c *spoiled) notice(t *testing.T) {
	t.Helper()
	w, s := storming(t, c.fit)
	c.spoil(s)
	s.host.pump()
	for range 200 {
		w.Step(w, 1<<62)
	}
	if w.Violation == nil || w.Violation.Check != c.check {
		t.Errorf("%s: %+v, want the check %q", c.why, w.Violation, c.check)
	}
}

// TestPhases compares the oracle's model of a connection with the state
// machine's table: each event of a state is allowed in its phase, and leads to
// the phase of the next state; no other event is allowed.
func TestPhases(t *testing.T) {
	stateOf := make(map[string]cm.State)
	for s := range numStates {
		stateOf[s.String()] = s
	}
	events := make(map[string]cm.EventType)
	for e := cm.REQError; e <= cm.SIDRREPReceived; e++ {
		events[e.String()] = e
	}
	heard := make(map[hearing]bool)
	cm.Walk(func(r cm.Row) {
		in, main := stateOf[r.State]
		on, raised := events[r.Event]
		if !main || in == cm.Listen || !raised { // of alternate paths all is in one phase
			return
		}
		for p := range numPhases {
			if !p.is(in) {
				continue
			}
			next, ok := p.after(on)
			stale := r.Input == cm.MsgREJStale.String() && next == over
			if !ok || !next.is(stateOf[r.Next]) && !(stale && quiet.is(stateOf[r.Next])) {
				t.Errorf("%s in %v leads to %s, and the model says %v, %v", r.Event, p, r.Next, next, ok)
			}
			heard[hearing{p, on, next}] = true
		}
	})
	for _, h := range hearings {
		if h.in != up && !heard[h] {
			t.Errorf("the model says that %v may be heard in %v, and nothing raises it", h.on, h.in)
		}
	}
}

// TestPrivateData reads what was said, and sees what was changed.
func TestPrivateData(t *testing.T) {
	for what := mad.AttrREQ; what <= mad.AttrAPR; what++ {
		for _, n := range []int{0, 1, room[what] - titleLen} {
			want := title{7<<sideBits | 2, 3, what}
			data := make([]byte, room[what])
			copy(data, script(want, n))
			if got, empty, ok := parse(data); got != want || empty || !ok {
				t.Errorf("%v with %d bytes reads as %v, %v, %v", what, n, got, empty, ok)
			}
			for i := range data {
				data[i] ^= 0x40
				if got, _, ok := parse(data); ok && got == want {
					t.Errorf("%v with %d bytes: a change of byte %d is not seen", what, n, i)
				}
				data[i] ^= 0x40
			}
		}
	}
	if _, empty, ok := parse(make([]byte, 100)); !empty || !ok {
		t.Error("nothing said does not read as nothing")
	}
}
