package sim

import (
	"bytes"
	"context"
	"flag"
	"math"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/virtual"
)

var (
	flagSeed    = flag.Uint64("seed", 0, "run only this seed")
	flagProfile = flag.String("profile", "", "run only this profile")
	flagSeeds   = flag.Uint64("seeds", 12, "seeds of each profile")
)

// TestProfiles runs some seeds of every profile.
func TestProfiles(t *testing.T) {
	for _, name := range ProfileNames() {
		if *flagProfile != "" && name != *flagProfile {
			continue
		}
		t.Run(name, func(t *testing.T) {
			first, last := uint64(1), *flagSeeds
			if *flagSeed != 0 {
				first, last = *flagSeed, *flagSeed
			}
			for seed := first; seed <= last; seed++ {
				r, err := Run(Config{Seed: seed, Profile: name})
				must.Do(t, err)
				if r.Violation != nil {
					t.Fatalf("seed %d (%s): %v\n%s", seed, r.Faults, r.Violation, strings.Join(r.Ladder[max(0, len(r.Ladder)-40):], "\n"))
				}
			}
		})
	}
}

// newTestWorld returns a world for a test that makes steps by itself.
func newTestWorld(c Config) *world {
	return newWorld(c, virtual.Config{Seed: c.Seed, Ops: c.Ops, Skip: c.Skip})
}

// TestSameSeedSameRun compares everything that happens in two runs.
func TestSameSeedSameRun(t *testing.T) {
	for _, profile := range []string{"chaos", extended, windowsOfType2, completionEvents, nearby, storms, datagrams} {
		for seed := uint64(1); seed <= 4; seed++ {
			var traces [2]bytes.Buffer
			for i := range traces {
				if _, err := Run(Config{Seed: seed, Profile: profile, Trace: &traces[i]}); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(traces[0].Bytes(), traces[1].Bytes()) {
				t.Fatalf("seed %d of profile %s made two different runs", seed, profile)
			}
			if traces[0].Len() < 10000 {
				t.Fatalf("seed %d of profile %s: a run with a trace of only %d bytes", seed, profile, traces[0].Len())
			}
		}
	}
}

// TestTroublesHappen shows that the chaos profile brings about nearly every
// situation: a simulator that is clean because nothing happens proves nothing.
func TestTroublesHappen(t *testing.T) {
	c := Campaign{Config: Config{Profile: "chaos"}, First: 1, Last: 500, Workers: 2}
	sum, err := c.Run(context.Background())
	if err != nil || sum.Failed != nil {
		t.Fatalf("%v, %+v", err, sum.Failed)
	}
	for i, name := range MarkNames("chaos") {
		// No peer of the simulator sends a response that does not fit its
		// request.
		if sum.Marks[i] == 0 && name != "E24 BAD_RESP_ERR" {
			t.Errorf("500 seeds of chaos never came to %q", name)
		}
	}
}

// TestOwnTroublesHappen shows that the situations in ownMarks occur in their profiles.
func TestOwnTroublesHappen(t *testing.T) {
	for profile, own := range ownMarks {
		c := Campaign{Config: Config{Profile: profile}, First: 1, Last: 100, Workers: 2}
		sum, err := c.Run(context.Background())
		if err != nil || sum.Failed != nil {
			t.Fatalf("%s: %v, %+v", profile, err, sum.Failed)
		}
		for i, name := range own {
			if sum.Marks[len(markNames)+i] == 0 {
				t.Errorf("%d seeds of %s never came to %q", c.Last, profile, name)
			}
		}
	}
}

// TestBadConfig shows that a wrong configuration is refused.
func TestBadConfig(t *testing.T) {
	for _, c := range []Config{{Ops: -1}, {Profile: "nonsense"}} {
		if _, err := Run(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// TestWrongMemoryIsSeen changes bytes behind the back of adapter and model,
// one in each area.
func TestWrongMemoryIsSeen(t *testing.T) {
	for _, name := range []string{"remote", "local"} {
		w := newTestWorld(Config{Seed: 3, Ops: 50, Profile: "clean"})
		w.setUp()
		s := w.pairs[0].ends[0].space
		a := &s.remote
		if name == "local" {
			a = &s.local
		}
		a.buf[len(a.buf)-1] ^= 1
		w.sweep()
		if w.Violation == nil || w.Violation.Check != "memory" {
			t.Errorf("%s: a changed guard byte gave %v, want a memory violation", name, w.Violation)
		}
	}
}

// TestMinimize fails a run at the action that sends for the third time, which
// takes nothing else, and looks for the smallest.
func TestMinimize(t *testing.T) {
	const seed = 5
	c := Config{Seed: seed, Ops: 200, Profile: "chaos", Ladder: 20}
	full := failAtSend(c, 3)
	if full.Violation == nil {
		t.Fatal("the run did not fail")
	}
	m := &minimizer{ctx: context.Background(), check: full.Violation.Check, best: Smallest{Config: c, Result: full}}
	m.run = func(c Config) (*Result, error) { return failAtSend(c, 3), nil }
	s := m.search()
	if n := len(s.Config.Kept()); n != 3 {
		t.Errorf("the smallest run has %d actions, want the 3 that send", n)
	}
	if again := failAtSend(s.Config, 3); again.Violation == nil {
		t.Error("the smallest run does not fail when it is run again")
	}
}

// failAtSend makes a run that reports a failure after n sends of programs.
func failAtSend(c Config, n uint64) *Result {
	w := newTestWorld(c)
	w.setUp()
	for w.Violation == nil && w.Acted < c.Ops {
		w.Step(w, 1<<62)
		if w.did[actSend] == n {
			w.Fail("test", "sent %d times", n)
		}
	}
	return &Result{Seed: c.Seed, Ops: c.Ops, Result: virtual.Result{Violation: w.Violation}}
}

// TestDamageIsAlwaysSeen damages packets in every way and asks the ICRC.
func TestDamageIsAlwaysSeen(t *testing.T) {
	r, err := Run(Config{Seed: 8, Ops: 3000, Profile: "corrupt"})
	if err != nil || r.Violation != nil {
		t.Fatalf("%v, %v", err, r.Violation)
	}
}

// TestEndWithoutPeer runs a seed in which an end that has no peer yet is on the
// adapter of an end that must hear from its own.
func TestEndWithoutPeer(t *testing.T) {
	if r, err := Run(Config{Seed: 403, Ops: 4000, Profile: "lifecycle"}); err != nil || r.Violation != nil {
		t.Fatalf("%v, %v", err, r.Violation)
	}
}

// TestLossCosts shows that the measurement sees the loss.
func TestLossCosts(t *testing.T) {
	r, err := MeasureLoss(0.01)
	must.Do(t, err)
	if r.Lossless <= 0 || r.Lossy <= 0 || r.Ratio >= 1 {
		t.Errorf("%v", r)
	}
}

// TestLossIsTooMuch shows that the measurement ends when the connection does.
func TestLossIsTooMuch(t *testing.T) {
	if r, err := MeasureLoss(0.9); err == nil {
		t.Errorf("with 90 %% of the packets lost: %v", r)
	}
}

// TestPoolIsBounded shows that the network reuses the room of its packets.
func TestPoolIsBounded(t *testing.T) {
	w := newTestWorld(Config{Seed: 1, Ops: 2000, Profile: "clean"})
	w.Simulate()
	if w.Violation != nil {
		t.Fatal(w.Violation)
	}
	if n, left := w.Net.Idle(), w.Net.Len(); n == 0 || n > 4096 || left != 0 {
		t.Errorf("%d packets sent took %d places, and %d are on their way at the end", w.Packets, n, left)
	}
}

// TestRunsAreBounded shows that a run whose queue pairs come and go keeps
// nothing of those that went.
func TestRunsAreBounded(t *testing.T) {
	w := newTestWorld(Config{Seed: 7, Ops: 20000, Profile: "lifecycle"})
	w.Simulate()
	if w.Violation != nil {
		t.Fatal(w.Violation)
	}
	made := 0
	for _, p := range w.pairs {
		made += p.ends[0].gen + p.ends[1].gen
	}
	if n := len(w.routes); n > 2*numPaths*len(w.pairs) || made < 100*len(w.pairs) {
		t.Errorf("%d connections left %d routes of %d pairs", made, n, len(w.pairs))
	}
}

// TestSharedSlots shows that a receive of a shared queue gets a free slot or,
// if destroyed queue pairs have taken them all, the oldest slot.
func TestSharedSlots(t *testing.T) {
	q := &sharedQueue{space: &space{local: newArea(4, 64, guard)}, posted: map[uint64]*receive{}}
	slots := q.space.local.slots
	take := func(id uint64) *slot {
		l := q.free()
		l.owner = id
		q.posted[id] = &receive{id: id, slot: l}
		return l
	}
	for i := range slots {
		if l := take(uint64(10 + i)); l != &slots[i] {
			t.Fatalf("receive %d has a slot that another has", i)
		}
	}
	delete(q.posted, 12) // it completes
	if l := take(20); l != &slots[2] {
		t.Error("a slot is free, and the next receive has another")
	}
	if l := take(21); l != &slots[0] {
		t.Error("no slot is free, and the next receive does not have the oldest")
	}
}

// TestStrayMessageIsSeen shows that a message which arrives whole, but at
// another queue pair than it was sent to, does not pass.
func TestStrayMessageIsSeen(t *testing.T) {
	w := newTestWorld(Config{Seed: 3, Ops: 50, Profile: "clean"})
	w.setUp()
	e, other := w.nodes[0].ud, w.nodes[1].ud
	o := &op{end: e, id: w.nextID(false), code: ib.WRSend}
	o.data = w.text.pattern(o.id, 16)
	v := e.rq[0]
	copy(v.slot.bytes()[grhRoom:], o.data)
	for to, want := range map[*end]string{e: "", other: "message"} {
		w.Violation = nil
		w.text.sent(o, to)
		e.delivered(v, &ib.WC{WRID: v.id, ByteLen: grhRoom + 16})
		if got := w.Violation; (got == nil) != (want == "") || got != nil && got.Check != want {
			t.Errorf("a message for adapter %d that arrives at 0: %v, want check %q", to.node.Index, got, want)
		}
	}
}

// TestLastSeed shows that a campaign ends with its last seed, also if that is
// the last there is.
func TestLastSeed(t *testing.T) {
	c := Campaign{Config: Config{Profile: "clean", Ops: 5}, First: math.MaxUint64 - 2, Last: math.MaxUint64, Workers: 2}
	if sum, err := c.Run(t.Context()); err != nil || sum.Runs != 3 {
		t.Errorf("%d runs, %v: want 3", sum.Runs, err)
	}
}

// BenchmarkBulk measures the packets per second that one processor simulates.
func BenchmarkBulk(b *testing.B) {
	for seed := uint64(1); b.Loop(); seed++ {
		r, err := Run(Config{Seed: seed, Profile: "bulk", Ops: 2000})
		if err != nil || r.Violation != nil {
			b.Fatalf("seed %d: %v %v", seed, err, r.Violation)
		}
		b.ReportMetric(float64(r.Packets), "packets/op")
	}
}
