package clocks

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

// TestOffsets compares two clocks with different offsets and drifts, in captures with and without directions.
func TestOffsets(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		name  string
		ahead time.Duration
		ppm   float64
		long  time.Duration
		pause time.Duration
	}{
		{"3 s", 3 * time.Second, 0, 2 * time.Second, time.Millisecond},
		{"-250 ms", -250 * time.Millisecond, 0, 2 * time.Second, time.Millisecond},
		{"1 ms", time.Millisecond, 0, 50 * time.Millisecond, 200 * time.Microsecond},
		{"56 years", -56 * year, 0, 2 * time.Second, time.Millisecond},
		{"50 ppm", 3 * time.Second, 50, 10 * time.Minute, 40 * time.Millisecond},
		{"50 ppm for 5 s", 0, 50, 5 * time.Second, time.Millisecond},
		{"-30 ppm", time.Second, -30, 10 * time.Minute, 40 * time.Millisecond},
	} {
		for _, marked := range []bool{false, true} {
			for _, reverse := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, marked %v, reverse %v", c.name, marked, reverse), func(t *testing.T) {
					w := newWorld(t, &host{}, &host{ahead: c.ahead, ppm: c.ppm})
					w.marked = marked
					from, to := 0, 1
					if reverse { // the file of the responder is the first
						from, to = 1, 0
					}
					w.talk(from, to, 0, c.long, c.pause)
					all := w.compare()
					if got := &all[1]; got.Method != Both || got.Reference != 0 || got.Packets != len(w.trips) {
						t.Errorf("the second clock is %+v; want one that is compared by %d packets in both directions", got, len(w.trips))
					}
					if off := (all[1].Offset - c.ahead).Abs(); off > all[1].Error+time.Microsecond {
						t.Errorf("the offset is %v, with the error %v; want %v", all[1].Offset, all[1].Error, c.ahead)
					}
					drift := time.Duration(float64(c.long) * c.ppm / 1e6)
					if off := (all[1].Last - c.ahead - drift).Abs(); off > all[1].Error+10*time.Microsecond {
						t.Errorf("the last offset is %v, want %v", all[1].Last, c.ahead+drift)
					}
					w.near(all, 1)
					w.causal(all)
				})
			}
		}
	}
}

// TestLossInOneDirection has packets of which only the capture of the sender knows.
func TestLossInOneDirection(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: 3 * time.Second})
	for at := time.Duration(0); at < 2*time.Second; at += time.Millisecond {
		w.psn++
		lost := w.rnd.IntN(3) == 0
		if arrived := w.again(0, 1, at, w.psn, !lost); !lost {
			w.send(1, 0, arrived)
		}
	}
	all := w.compare()
	w.near(all, 1)
	w.causal(all)
	if all[1].Method != Both || all[1].Packets != len(w.trips) {
		t.Errorf("the second clock is %+v; want %d packets in both", all[1], len(w.trips))
	}
}

// TestRetransmissions has equal packets: those of which both captures have the same number count, in their
// order; of others nothing shows which one was lost.
func TestRetransmissions(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: -250 * time.Millisecond})
	counted := 0
	for at := time.Duration(0); at < 2*time.Second; at += 10 * time.Millisecond {
		w.psn++
		psn, first := w.psn, w.rnd.IntN(2) == 0
		w.again(0, 1, at, psn, first)
		arrived := w.again(0, 1, at+4*time.Millisecond, psn, true)
		if counted++; first {
			counted += 2
		}
		w.send(1, 0, arrived)
	}
	all := w.compare()
	if all[1].Packets != counted {
		t.Errorf("%d packets were compared, want %d", all[1].Packets, counted)
	}
	w.near(all, 1)
	w.causal(all)
}

// TestOneDirection has packets in one direction only: no packet arrives before it was sent, and the fastest
// takes next to no time.
func TestOneDirection(t *testing.T) {
	for _, marked := range []bool{false, true} {
		for _, from := range []int{0, 1} {
			const slow = 50 * time.Millisecond // at the beginning and at the end
			w := newWorld(t, &host{}, &host{ahead: 3 * time.Second, ppm: 20})
			w.marked = marked
			for at := time.Duration(0); at < 20*time.Second; at += 5 * time.Millisecond {
				w.queue = 0
				if at < time.Second || at >= 19*time.Second {
					w.queue = slow
				}
				w.send(from, 1-from, at)
			}
			all := w.compare()
			off := max((all[1].Offset - w.hosts[1].ahead).Abs(), (all[1].Last - w.hosts[1].ahead - 400*time.Microsecond).Abs())
			w.causal(all)
			if all[1].Method != OneDirection || all[1].Error != 0 || off > 200*time.Microsecond {
				t.Errorf("the second clock is %+v, wrong by %v; want 3s, known of one direction", all[1], off)
			}
		}
	}
}

// TestNothingInCommon has captures without a common packet: no clock is corrected.
func TestNothingInCommon(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: 3 * time.Second}, &host{})
	w.talk(0, 2, 0, time.Second, time.Millisecond)
	w.hosts = append(w.hosts[:2], new(host))
	all := w.compare()
	for i := range all {
		if c := &all[i]; c.Method != None || c.Reference != i || c.Correct(epoch) != epoch {
			t.Errorf("clock %d is %+v; want one that is not compared", i, c)
		}
	}
}

// TestSameClock has captures of one clock: it is not corrected. The same is true of clocks that differ by
// less than packets take.
func TestSameClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, 5 * time.Microsecond} {
		w := newWorld(t, &host{}, &host{ahead: ahead})
		w.talk(0, 1, 0, time.Second, time.Millisecond)
		all := w.compare()
		if c := &all[1]; c.Method != Same || c.Offset != 0 || c.Last != 0 || c.Correct(epoch) != epoch || c.Error > 60*time.Microsecond {
			t.Errorf("%v ahead: the clock is %+v; want one that is not corrected", ahead, c)
		}
		w.causal(all)
	}
}

// TestThreeCaptures has a capture that has packets in common with another one only, which has packets in
// common with the first.
func TestThreeCaptures(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: -time.Hour, ppm: -10}, &host{ahead: 3 * time.Second, ppm: 40})
	w.talk(0, 2, 0, time.Minute, 10*time.Millisecond)
	w.talk(2, 1, 20*time.Second, 90*time.Second, 10*time.Millisecond)
	all := w.compare()
	for i := 1; i < 3; i++ {
		if all[i].Method != Both || all[i].Reference != 0 {
			t.Errorf("clock %d is %+v", i, all[i])
		}
	}
	if off := (all[1].Offset - w.hosts[1].clock(20*time.Second).Sub(w.hosts[0].clock(20*time.Second))).Abs(); off > all[1].Error {
		t.Errorf("clock 1 is %v ahead, with the error %v: wrong by %v", all[1].Offset, all[1].Error, off)
	}
	w.causal(all)
}

// TestManyCaptures has more captures than are compared: the last one is not.
func TestManyCaptures(t *testing.T) {
	var hosts []*host
	for range maxCaptures + 1 {
		hosts = append(hosts, &host{ahead: time.Second})
	}
	hosts[0].ahead = 0
	w := newWorld(t, hosts...)
	for i := 1; i < len(hosts); i++ {
		w.talk(0, i, 0, 20*time.Millisecond, time.Millisecond)
	}
	for i, c := range w.compare()[1:] {
		if compared := c.Method == Both; compared != (i+1 < maxCaptures) {
			t.Errorf("clock %d is %+v", i+1, c)
		}
	}
}

// TestWrongMatches has packets that were matched with those of another time, such as a retransmission of
// which each capture has another copy: they do not move the clock.
func TestWrongMatches(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: time.Second})
	for at := time.Duration(0); at < 4*time.Second; at += time.Millisecond {
		w.talk(0, 1, at, at+1, 1)
		if at%(2*time.Second) == time.Second {
			w.psn++
			p := packet(w.hosts[0].addr, w.hosts[1].addr, w.psn)
			w.hosts[1].capture(p, w.hosts[1].clock(at), pcapfile.Unmarked)
			w.hosts[0].capture(p, w.hosts[0].clock(at+4*time.Millisecond), pcapfile.Unmarked)
		}
	}
	all := w.compare()
	w.near(all, 1)
	w.causal(all)
}

// TestDamagedCapture compares what precedes the damage.
func TestDamagedCapture(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: time.Second})
	w.talk(0, 1, 0, time.Second, time.Millisecond)
	var samples []*Samples
	for _, h := range w.hosts {
		file := w.file(h)
		r, err := pcapfile.NewReader(bytes.NewReader(file[:len(file)*2/3]))
		must.Do(t, err)
		samples = append(samples, Collect(r))
	}
	if c := Compare(samples)[1]; c.Method != Both || (c.Offset-time.Second).Abs() > c.Error {
		t.Errorf("the clock is %+v", c)
	}
}

// TestQueues has hosts whose packets wait in a queue in one direction most of the time.
func TestQueues(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: time.Second, ppm: 50})
	for at := time.Duration(0); at < 60*time.Second; at += 2 * time.Millisecond {
		if at%(8*time.Second) < 7*time.Second {
			w.queue = time.Duration(1000+w.rnd.IntN(5000)) * time.Microsecond
		}
		arrived := w.send(0, 1, at)
		w.queue = 0
		w.send(1, 0, arrived)
	}
	all := w.compare()
	w.near(all, 1)
	w.causal(all)
}

// TestUnsteadyClock has a clock whose rate changes faster than it is measured: still no packet arrives before it
// was sent.
func TestUnsteadyClock(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: time.Second, wobble: 20 * time.Microsecond})
	w.talk(0, 1, 0, 200*time.Second, 10*time.Millisecond)
	w.causal(w.compare())
}

// TestSetClock has a clock that is set during the capture: some seconds later its times are right again.
func TestSetClock(t *testing.T) {
	w := newWorld(t, &host{}, &host{ahead: time.Second})
	w.talk(0, 1, 0, 50*time.Second, 5*time.Millisecond)
	w.hosts[1].ahead = -time.Second
	w.talk(0, 1, 60*time.Second, 100*time.Second, 5*time.Millisecond)
	all := w.compare()
	early, late := epoch.Add(30*time.Second), epoch.Add(90*time.Second)
	for _, c := range []struct{ shown, want time.Time }{{early.Add(time.Second), early}, {late.Add(-time.Second), late}} {
		if off := all[1].Correct(c.shown).Sub(c.want); off.Abs() > all[1].Error {
			t.Errorf("the clock shows %v: corrected it is wrong by %v", c.shown, off)
		}
	}
}

// TestHostileTimes has captures with any times: they end neither the program nor the order of knots.
func TestHostileTimes(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	anyTime := func() int64 {
		switch rnd.IntN(4) {
		case 0:
			return math.MinInt64 + rnd.Int64N(3)
		case 1:
			return math.MaxInt64 - rnd.Int64N(3)
		case 2:
			return rnd.Int64N(1000)
		default:
			return int64(rnd.Uint64())
		}
	}
	for range 500 {
		var captures []*Samples
		for range 3 {
			s := &Samples{limit: math.MaxUint64}
			for sum := range uint64(rnd.IntN(40)) {
				s.add(sample{sum: sum, at: anyTime(), pair: uint32(rnd.IntN(2)), forth: rnd.IntN(2) == 0, way: pcapfile.Direction(rnd.IntN(3))})
			}
			s.group()
			captures = append(captures, s)
		}
		for _, c := range Compare(captures) {
			c.Correct(epoch)
			for _, line := range c.chain {
				if !slices.IsSortedFunc(line.knots, func(a, b knot) int { return cmp.Compare(a.at, b.at) }) {
					t.Fatalf("the knots %v are out of order", line.knots)
				}
			}
		}
	}
}
