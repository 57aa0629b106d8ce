package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestQuarantineEnds: the index of a freed key comes back with
// registration 4097 and not before.
func TestQuarantineEnds(t *testing.T) {
	const freed, registrations = 5, 4096
	next, tries := uint32(freed), 0
	tab := NewTable(func() uint32 {
		// Every registration is offered the freed index first.
		if tries++; tries%2 == 1 {
			return freed<<indexShift | 0x77
		}
		next++
		return next << indexShift
	}, Limits{8, 8})
	must.Do(t, tab.Deregister(register(t, tab, RegionConfig{PD: 1})))
	for i := 1; i <= registrations+1; i++ {
		tries = 0
		r := register(t, tab, RegionConfig{PD: 1})
		if got, want := r.LKey()>>indexShift == freed, i == registrations+1; got != want {
			t.Fatalf("registration %d after the key was freed: reuse is %v", i, got)
		}
		must.Do(t, tab.Deregister(r))
	}
}

// TestKeysChurn registers and deregisters at random in a small space of
// indices, so that runs of the hash table are long, break and wrap. Every live
// key leads to its region, no dead one does, none comes back too early, and
// the table stays bounded.
func TestKeysChurn(t *testing.T) {
	const seed, regions, rounds = 3, 300, 30000
	rng := rand.New(rand.NewPCG(seed, 0))
	tab := NewTable(func() uint32 { return rng.Uint32() & 0x3fff_ff }, Limits{regions, regions}) // 2^14 indices
	var live []*Region
	freed := map[uint32]int{} // index to registrations before it was freed
	registered, reused := 0, 0
	for range rounds {
		if len(live) == regions || len(live) > 0 && rng.IntN(100) < 45 {
			i := rng.IntN(len(live))
			r := live[i]
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			if err := tab.Deregister(r); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			freed[uint32(r.LKey())>>indexShift] = registered
			if _, f := tab.Local(1, r.LKey(), 0, 1, 0); f != FaultKey {
				t.Fatalf("seed %d: dead key %#x: %v", seed, r.LKey(), f)
			}
			continue
		}
		r := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 1), Access: ib.AccessZeroBased})
		registered++
		if at, ok := freed[uint32(r.LKey())>>indexShift]; ok {
			if reused++; registered-at <= 4096 {
				t.Fatalf("seed %d: key %#x comes back after %d registrations", seed, r.LKey(), registered-at)
			}
			delete(freed, uint32(r.LKey())>>indexShift)
		}
		live = append(live, r)
		if registered%500 == 0 {
			checkLive(t, tab, live)
		}
	}
	checkLive(t, tab, live)
	if reused == 0 {
		t.Errorf("seed %d: no index was ever reused in %d registrations", seed, registered)
	}
	if n := len(tab.keys.slots); n > 4*(regions+quarantine) {
		t.Errorf("%d slots for %d regions and %d keys in quarantine", n, regions, quarantine)
	}
	if n := len(tab.keys.slots); 2*tab.keys.used > n {
		t.Errorf("%d of %d slots are used: look-ups are slow", tab.keys.used, n)
	}
	if n := len(tab.keys.dead); n > 2*(regions+quarantine)+2 {
		t.Errorf("the quarantine has %d entries", n)
	}
}

// checkLive checks that every live key names its region, that keys are
// distinct, and that neighbours of a key (same index) name nothing.
func checkLive(t *testing.T, tab *Table, live []*Region) {
	t.Helper()
	seen := map[ib.LKey]bool{}
	for _, r := range live {
		if seen[r.LKey()>>indexShift] {
			t.Fatalf("two regions with index %#x", r.LKey()>>indexShift)
		}
		seen[r.LKey()>>indexShift] = true
		if b, f := tab.Local(1, r.LKey(), 0, 1, 0); f != FaultNone || &b[0] != &r.buf[0] {
			t.Fatalf("key %#x: %v", r.LKey(), f)
		}
		if _, f := tab.Local(1, r.LKey()^1, 0, 1, 0); f != FaultKey {
			t.Fatalf("key %#x with another low byte: %v", r.LKey(), f)
		}
	}
	if tab.Len() != len(live) {
		t.Fatalf("%d regions, want %d", tab.Len(), len(live))
	}
}

// BenchmarkRegister is one registration and its end, with a full quarantine.
func BenchmarkRegister(b *testing.B) {
	tab := NewTable(seeded(), Limits{64, 64})
	cfg := RegionConfig{PD: 1, Buf: make([]byte, 64), Access: allRights}
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, tab.Deregister(register(b, tab, cfg)))
	}
}
