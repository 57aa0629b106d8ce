package flow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// testWindow is the maximum window of these tests, in bytes.
const testWindow = 256 << 10

// stream sends n packets through a window that is always full, loses some, and
// returns the smallest window.
func stream(w *window, n int, lost func(i int) bool) (least int) {
	least = w.Window()
	for i := range n {
		w.loss.sent++
		if lost(i) {
			w.Lost(0, 1, w.Window())
		}
		w.Acknowledged(clock.Instant(i), 0, minPacketCost, minPacketCost, true)
		least = min(least, w.Window())
	}
	return least
}

// every loses one packet in n.
func every(n int) func(int) bool { return func(i int) bool { return i%n == 0 } }

// TestL1_LossIsNoFullBuffer shows which losses shrink a window: a loss of one
// packet in a hundred does not, nor of one in twenty except by chance, but a
// loss of a quarter does, because only an overflowing buffer loses that much.
func TestL1_LossIsNoFullBuffer(t *testing.T) {
	w := newWindow(testWindow)
	for _, n := range []int{100, 20} {
		if least := stream(&w, 100000, every(n)); least != testWindow {
			t.Errorf("one packet of %d is lost, and the window is %d bytes, want %d", n, least, testWindow)
		}
	}
	if least := stream(&w, lossRound, every(11)); least >= testWindow {
		t.Errorf("one packet of eleven is lost in a round, and the window is %d bytes", least)
	}
	w = newWindow(testWindow)
	if stream(&w, 512, every(4)); w.Window() > testWindow*5/8 {
		t.Errorf("a quarter of the packets is lost, and the window is %d bytes, want no more than %d", w.Window(), testWindow*5/8)
	}
	stream(&w, 50000, every(4))
	if w.Window() < minWindow || w.Window() > 2*minWindow {
		t.Errorf("a quarter of the packets is lost for long, and the window is %d bytes, want %d", w.Window(), minWindow)
	}

	// Chance loses more than one of twenty in half of the rounds.
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	w = newWindow(testWindow)
	cuts := 0
	for range 1000 {
		before := w.Window()
		if stream(&w, lossRound, func(int) bool { return r.IntN(20) == 0 }) < before {
			cuts++
		}
	}
	if t.Logf("seed %d: one packet of twenty is lost by chance: of 1000 rounds %d make the window smaller", seed, cuts); cuts > 50 {
		t.Error("want no more than 50")
	}
}

// TestL1_WindowOfGoBack shows that with go-back-N the second loss within a window
// shrinks it.
func TestL1_WindowOfGoBack(t *testing.T) {
	none := func(int) bool { return false }
	w := newWindow(testWindow)
	for range 10 {
		stream(&w, testWindow/minPacketCost, none)
		w.LostAll(0, w.Window())
	}
	if w.Window() != testWindow {
		t.Errorf("everything was sent again once in a window, which is %d bytes, want %d", w.Window(), testWindow)
	}
	stream(&w, testWindow/minPacketCost/2, none)
	if w.LostAll(0, w.Window()); w.Window() != testWindow/2 {
		t.Errorf("everything was sent again twice within a window, which is %d bytes, want %d", w.Window(), testWindow/2)
	}
}

// TestL1_CrowdedWindow shows that a window shrinks a little, down to a batch, when
// gaps come faster than they close, and grows only while it is used.
func TestL1_CrowdedWindow(t *testing.T) {
	const batch = 64 << 10
	w := newWindow(testWindow)
	if w.Marked(batch); w.Window() != testWindow-testWindow/8 {
		t.Errorf("once crowded, the window is %d bytes, want %d", w.Window(), testWindow-testWindow/8)
	}
	for range 100 {
		w.Marked(batch)
	}
	if w.Window() != batch {
		t.Errorf("crowded for long, the window is %d bytes, want %d", w.Window(), batch)
	}
	if w.Acknowledged(0, 0, batch, minPacketCost, false); w.Window() != batch {
		t.Errorf("a window of %d bytes that was never full has grown to %d", batch, w.Window())
	}
	if w.Acknowledged(0, 0, batch, minPacketCost, true); w.Window() != batch+minPacketCost {
		t.Errorf("a window of %d bytes that was used has grown to %d, want a packet more", batch, w.Window())
	}
	w.loss.limit = minWindow
	if w.Marked(batch); w.Window() != minWindow {
		t.Errorf("crowded, a window of less than a batch is %d bytes, want %d", w.Window(), minWindow)
	}
}

// bottleneck is a path with an unbounded queue, for a window that is always full.
type bottleneck struct {
	least  time.Duration
	perSec int // bytes
	now    clock.Instant
}

// round sends one window. Acknowledgements come in steps, or all at once if the
// peer was late.
func (b *bottleneck) round(w *window, late time.Duration) {
	w.BeginRound()
	bytes := w.Window()
	d := max(b.least, time.Duration(bytes*int(time.Second)/b.perSec)) + late
	steps := 16
	if late > 0 {
		steps = 1
	}
	for range steps {
		b.now = b.now.Add(d / time.Duration(steps))
		w.Acknowledged(b.now, 0, bytes/steps, minPacketCost, true)
	}
	w.RoundTrip(d, b.least, d, true)
}

// TestL1_WindowKeepsTheQueueShort shows that a window has as much in flight as its
// path and a burst take, without filling a queue on the path; and that a late peer
// does not shrink it.
func TestL1_WindowKeepsTheQueueShort(t *testing.T) {
	const most = 1 << 20
	for _, c := range []struct {
		name        string
		least       time.Duration
		perSec      int
		lower, most int
	}{
		{"1 Gb/s, 100 us", 100 * time.Microsecond, 125_000_000, 12_500 + burstBytes, 110_000},
		{"10 Gb/s, 100 us", 100 * time.Microsecond, 1_250_000_000, 125_000 + burstBytes, 300_000},
		{"10 Gb/s, 10 ms", 10 * time.Millisecond, 1_250_000_000, most, most},
		{"100 Mb/s, 1 ms", time.Millisecond, 12_500_000, 12_500 + burstBytes, 110_000},
	} {
		w, b := newWindow(most), bottleneck{least: c.least, perSec: c.perSec}
		for range 100 {
			b.round(&w, 0)
		}
		if got := w.Window(); got < c.lower || got > c.most {
			t.Errorf("%s: the window is %d bytes, want %d to %d", c.name, got, c.lower, c.most)
		}
		held := w.Window()
		for i := range 100 {
			late := time.Duration(0)
			if i%4 != 0 {
				late = 5 * time.Millisecond
			}
			b.round(&w, late)
			if w.Window() < held {
				t.Fatalf("%s: the peer was late, and a window of %d bytes is %d", c.name, held, w.Window())
			}
		}
		held = w.Window()
		for range 100 {
			if b.round(&w, 5*time.Millisecond); w.Window() < held {
				t.Fatalf("%s: the peer is always late, and a window of %d bytes is %d", c.name, held, w.Window())
			}
		}
	}

	// The queue came from others: without them the window grows again.
	w, slow := newWindow(most), bottleneck{least: 100 * time.Microsecond, perSec: 12_500_000}
	for range 100 {
		slow.round(&w, 0)
	}
	small := w.Window()
	fast := bottleneck{least: slow.least, perSec: 1_000_000_000_000, now: slow.now}
	for range 10 {
		fast.round(&w, 0)
	}
	if small > most/8 || w.Window() != most {
		t.Errorf("with a queue of others the window is %d bytes, want no more than %d, and without %d, want %d", small, most/8, w.Window(), most)
	}

	// The rate is below the bottleneck's: no queue builds up.
	w = newWindow(most)
	for i := range 100 {
		w.BeginRound()
		w.Acknowledged(clock.Instant(i), 0, minPacketCost, minPacketCost, false)
		w.RoundTrip(time.Second, time.Microsecond, time.Second, false)
	}
	if w.Window() != most {
		t.Errorf("a window that was never full is %d bytes, want %d", w.Window(), most)
	}
}
