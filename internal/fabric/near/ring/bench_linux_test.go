//go:build !portable && !ringmodel

package ring

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// benchRing is the size of the ring in benchmarks that do not compare sizes.
const benchRing = 1 << 20

// message is the size of the messages in throughput benchmarks, in bytes.
const message = 1 << 20

// pin keeps the goroutine on the first (0) or the last processor (1) of this process, until undo.
func pin(which int) (undo func()) {
	runtime.LockOSThread()
	var all, one unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 2 {
		return runtime.UnlockOSThread
	}
	for i, left := 0, all.Count(); left > 0; i++ {
		if !all.IsSet(i) {
			continue
		}
		if left--; which == 0 || left == 0 {
			one.Set(i)
			break
		}
	}
	_ = unix.SchedSetaffinity(0, &one) // it only makes the figures steadier
	return func() {
		_ = unix.SchedSetaffinity(0, &all)
		runtime.UnlockOSThread()
	}
}

// laps are the times of parts of a benchmark. Benchmarks report the median, because on a busy
// machine long preemptions distort the mean.
type laps struct {
	last  time.Time
	every int // iterations of a part
	n     int
	times []time.Duration
}

func newLaps(every int) *laps {
	return &laps{last: time.Now(), every: every, times: make([]time.Duration, 0, 1<<20)}
}

// lap ends an iteration.
func (l *laps) lap() {
	if l.n++; l.n%l.every == 0 && len(l.times) < cap(l.times) {
		now := time.Now()
		l.times = append(l.times, now.Sub(l.last))
		l.last = now
	}
}

// median returns the median time of an iteration in nanoseconds.
func (l *laps) median() float64 {
	if len(l.times) == 0 {
		return math.NaN()
	}
	slices.Sort(l.times)
	return float64(l.times[len(l.times)/2]) / float64(l.every)
}

// peers runs a benchmark with a peer on another thread, and with one in another process. Role
// tells the peer what to do (serve).
func peers(b *testing.B, size int, role string, run func(b *testing.B, e *end)) {
	b.Run("threads", func(b *testing.B) {
		e, other := pair(b, size)
		done := make(chan error, 1)
		go func() {
			defer pin(1)()
			done <- other.serve(role)
		}()
		defer pin(0)()
		run(b, e)
		e.p.End()
		must.Do(b, <-done)
	})
	b.Run("processes", func(b *testing.B) {
		e, _, wait := startPeer(b, size, fmt.Sprint(role, " ", size, " 0 0"))
		defer pin(0)()
		run(b, e)
		e.p.End()
		wait()
	})
}

// burst is the number of small or 4 KiB records that benchmarks publish together and release
// together, as a port does.
const burst = 16

// serve polls until the ring ends: it sends all records back ("echo"), or copies them to memory of
// its own ("sink").
func (e *end) serve(role string) error {
	memory := make([]byte, message)
	var r Record
	for at, n := 0, 0; ; n++ {
		if !e.c.Next(&r) {
			e.c.Release()
			if err := e.c.Err(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			continue
		}
		if role == "echo" {
			copy(e.p.Reserve(len(r.Bytes), len(r.Bytes)), r.Bytes)
			e.p.Commit(len(r.Bytes), r.Stride, r.Count, r.Tag)
			e.p.Publish()
		} else {
			if at+len(r.Bytes) > len(memory) {
				at = 0
			}
			at += copy(memory[at:], r.Bytes)
		}
		if len(r.Bytes) > 4096 || n%burst == 0 {
			e.c.Release()
		}
	}
}

// reserve waits for room.
func (e *end) reserve(n int) []byte {
	for {
		if room := e.p.Reserve(n, n); room != nil {
			return room
		}
	}
}

// BenchmarkOneWay measures the time of a small record from one end to the other: half of a round
// trip, both ends polling.
func BenchmarkOneWay(b *testing.B) {
	peers(b, benchRing, "echo", func(b *testing.B, e *end) {
		var r Record
		l := newLaps(100)
		for b.Loop() {
			e.reserve(48)
			e.p.Commit(48, 48, 1, 0)
			e.p.Publish()
			for !e.c.Next(&r) {
			}
			e.c.Release()
			l.lap()
		}
		b.ReportMetric(l.median()/2, "ns/way")
	})
}

// BenchmarkSmall measures small records.
func BenchmarkSmall(b *testing.B) {
	peers(b, benchRing, "sink", func(b *testing.B, e *end) {
		var text [48]byte
		l := newLaps(100 * burst)
		for n := 0; b.Loop(); n++ {
			copy(e.reserve(len(text)), text[:])
			e.p.Commit(len(text), len(text), 1, 0)
			if n%burst == burst-1 {
				e.p.Publish()
			}
			l.lap()
		}
		e.p.Publish()
		b.ReportMetric(1e3/l.median(), "M/s")
	})
}

// BenchmarkMessage measures messages of 1 MiB in records of 4 KiB or 64 KiB, copied into the ring
// and out of it.
func BenchmarkMessage(b *testing.B) {
	for _, size := range []int{1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21} {
		for _, record := range []int{1 << 12, 1 << 16} {
			b.Run(fmt.Sprintf("ring=%dK/record=%dK", size>>10, record>>10), func(b *testing.B) {
				peers(b, size, "sink", func(b *testing.B, e *end) {
					text := make([]byte, message)
					b.SetBytes(message)
					l := newLaps(1)
					for b.Loop() {
						for at := 0; at < message; at += record {
							copy(e.reserve(record), text[at:])
							e.p.Commit(record, 4096, record/4096, 0)
							if record > 4096 || at/record%burst == burst-1 {
								e.p.Publish()
							}
						}
						l.lap()
					}
					b.ReportMetric(8*message/l.median(), "Gb/s")
				})
			})
		}
	}
}

// bare is the ceiling: a ring of slots without records, checks and wake-ups.
type bare struct {
	head  atomic.Uint64
	_     [2 * line]byte
	tail  atomic.Uint64
	_     [2 * line]byte
	bytes []byte
}

// BenchmarkBare measures the same messages through a bare ring between threads.
func BenchmarkBare(b *testing.B) {
	for _, slot := range []int{1 << 12, 1 << 16} {
		b.Run(fmt.Sprintf("slot=%dK", slot>>10), func(b *testing.B) {
			ring := &bare{bytes: make([]byte, benchRing)}
			slots := uint64(benchRing / slot)
			at := func(n uint64) []byte { return ring.bytes[int(n%slots)*slot:][:slot] }
			var done atomic.Bool
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				defer pin(1)()
				memory := make([]byte, message)
				for n := uint64(0); !done.Load(); {
					for end := ring.head.Load(); n < end; n++ {
						copy(memory[int(n)*slot%message:], at(n))
						ring.tail.Store(n + 1)
					}
				}
			}()
			defer pin(0)()
			text := make([]byte, message)
			b.SetBytes(message)
			n := uint64(0)
			l := newLaps(1)
			for b.Loop() {
				for from := 0; from < message; from += slot {
					for n-ring.tail.Load() == slots {
					}
					copy(at(n), text[from:])
					n++
					ring.head.Store(n)
				}
				l.lap()
			}
			b.ReportMetric(8*message/l.median(), "Gb/s")
			done.Store(true)
			<-gone
		})
	}
}

// BenchmarkBareOneWay measures one word each way between two threads: the cost of a cache line
// that moves between processors.
func BenchmarkBareOneWay(b *testing.B) {
	var words bare
	go func() {
		defer pin(1)()
		for n := uint64(0); n < 1<<63; {
			for words.head.Load() == n {
			}
			n = words.head.Load()
			words.tail.Store(n)
		}
	}()
	defer pin(0)()
	n := uint64(0)
	l := newLaps(100)
	for b.Loop() {
		n++
		words.head.Store(n)
		for words.tail.Load() != n {
		}
		l.lap()
	}
	words.head.Store(1 << 63)
	b.ReportMetric(l.median()/2, "ns/way")
}
