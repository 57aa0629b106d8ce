package virtual

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

var (
	here  = netip.MustParseAddr("10.0.0.1")
	there = netip.MustParseAddr("10.0.0.2")
)

// recorder is a simulation that records its events.
type recorder struct {
	World
	events []string
}

func openRecorder(c Config) Simulation { return newRecorder(c) }

func newRecorder(c Config) *recorder {
	r := new(recorder)
	r.Init(c, Faults{Latency: time.Millisecond})
	r.Gap = time.Millisecond
	return r
}

func (r *recorder) Simulate()      { r.StepAll(r) }
func (r *recorder) Report(*Result) {}

func (r *recorder) Act(i int, leftOut bool) {
	r.Say(Nobody, "action %d, left out: %v", i, leftOut)
	if i == 3 {
		panic("as the test wants")
	}
}

func (r *recorder) Receive(*Packet) { r.events = append(r.events, "packet") }

func (r *recorder) Advance(a *Adapter) {
	r.events = append(r.events, "timer")
	a.Deadline = clock.Never
}

// TestOrder executes a task, a packet and a timer of the same instant.
func TestOrder(t *testing.T) {
	r := newRecorder(Config{})
	a := r.Add(here)
	a.Deadline = clock.Instant(time.Millisecond)
	r.Ship(a, fabric.Datagram{}, 1, 0)
	r.After(time.Millisecond, func() { r.events = append(r.events, "task") })
	for r.Step(r, a.Deadline-1) {
		t.Fatal("an event happens before its time")
	}
	for r.Step(r, clock.Never) {
	}
	if want := []string{"task", "packet", "timer"}; !slices.Equal(r.events, want) || r.Now != clock.Instant(time.Millisecond) {
		t.Errorf("%v at %v, want %v", r.events, r.Now, want)
	}
}

// TestFailedRun repeats a run that panics: the result has its last lines, and
// names the action.
func TestFailedRun(t *testing.T) {
	r := Run(Config{Ops: 10, Ladder: 3, Skip: map[int]bool{2: true}}, openRecorder)
	v := r.Violation
	if v == nil || v.Check != "panic" || v.Action != 3 || !strings.HasPrefix(v.Detail, "as the test wants") {
		t.Fatalf("%+v", v)
	}
	if n := len(r.Ladder); n < 3 || !strings.HasSuffix(r.Ladder[n-3], "action 2, left out: true") || !strings.Contains(r.Ladder[n-1], "VIOLATION panic") {
		t.Errorf("the last lines are %q", r.Ladder)
	}
}

// TestDamage damages packets in every way: the ICRC shows it each time.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	p := roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, PKey: ib.PKeyDefault}, Payload: make([]byte, 32)}
	for _, d := range []Damage{{Bits: 1}, {Bits: 8}, {Bits: 8, Resize: true}} {
		for range 5000 {
			k := &Packet{Datagram: Forgery(&p, here, there, 49152)}
			whole := len(k.Datagram.Bytes)
			d.do(r, k)
			b := k.Datagram.Bytes
			if !k.Damaged || len(b) != whole && !d.Resize {
				t.Fatalf("%+v: damaged %v, %d of %d bytes", d, k.Damaged, len(b), whole)
			}
			if len(b) >= roce.MinSize && roce.Check(b, roce.NewPrefix(here, there, 49152, fabric.RoCEPort, len(b)).WithID(0)) {
				t.Fatalf("%+v: nothing shows that % x is damaged", d, b)
			}
		}
	}
}

// TestFates draws fates by their shares, and counts the copies that arrive.
func TestFates(t *testing.T) {
	o := Odds{{0.1, Lost}, {0.1, Duplicated}, {0.1, Delayed}, {0.1, Repeated}, {0.3, Whole}, {0.3, Damaged}}
	for v, want := range map[float64]Outcome{0: Lost, 0.15: Duplicated, 0.25: Delayed, 0.35: Repeated, 0.65: Whole, 0.75: Damaged} {
		if got := o.At(v); got != want {
			t.Errorf("at %v a packet is %v, want %v", v, got, want)
		}
	}
	w := new(World)
	w.Init(Config{}, Faults{Odds: o, Late: Delay{Usual: 1}, Again: Delay{Usual: 1}, Damage: Damage{Bits: 1}})
	to := w.Add(here)
	for fate, want := range map[Outcome]int{Whole: 1, Lost: 0, Duplicated: 2, Delayed: 1, Repeated: 2, Damaged: 1} {
		before := w.Net.Len()
		w.Net.Suffer(fate, func(d time.Duration) *Packet { return w.Ship(to, fabric.Datagram{Bytes: make([]byte, 20)}, 1, d) })
		if n := w.Net.Len() - before; n != want {
			t.Errorf("%d copies of a packet that is %v, want %d", n, fate, want)
		}
	}
	if w.Net.Heal(0); w.Net.Odds.At(0) != Whole {
		t.Error("a healed network harms packets")
	}
}

// TestAdapter opens an adapter again: its objects are gone.
func TestAdapter(t *testing.T) {
	w := new(World)
	w.Init(Config{}, Faults{})
	a := w.Add(here)
	for range 2 {
		must.Do(t, a.Open(hca.Config{Caps: Caps(here), Rand: rand.New(rand.NewPCG(1, 1)).Uint32, NodeGUID: 1}, 8<<10))
		if n := a.HCA.Resources().PDs; n != 1 || w.At(here) != a || w.At(there) != nil {
			t.Fatalf("%d protection domains, adapters %v and %v", n, w.At(here), w.At(there))
		}
	}
}
