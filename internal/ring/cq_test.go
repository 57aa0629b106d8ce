package ring

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
)

// newTestCQ returns a queue whose next index is first, as one that has lived
// that long and was then resized.
func newTestCQ(t testing.TB, a Allocator, n, first uint32) *CQ {
	c, err := NewCQ(a, n, false)
	must.Do(t, err)
	c.prod = first
	c.hdr.Prod.Store(first)
	c.hdr.Cons.Store(first)
	must.Do(t, c.Resize(n))
	return c
}

// drawWC draws a completion of one of three queue pairs.
func drawWC(t *rapid.T) ib.WC {
	seed := rapid.Uint32().Draw(t, "entry")
	return ib.WC{
		WRID: uint64(seed) << 7, QPN: ib.QPN(rapid.IntRange(0, 2).Draw(t, "QPN")), ByteLen: seed, SrcQP: ib.QPN(seed >> 3),
		ImmData: seed * 3, InvRKey: ib.RKey(seed * 5), VendorErr: seed * 7, PKeyIndex: uint16(seed), SLID: uint16(seed >> 5),
		Status: ib.WCStatus(seed), Opcode: ib.WCOpcode(seed >> 1), Flags: ib.WCFlags(seed >> 2), SL: uint8(seed >> 4),
		DLIDPathBits: uint8(seed >> 6), EEC: ib.EECN(seed >> 8),
	}
}

// cqModel is a completion queue as a slice.
type cqModel struct {
	wait   []ib.WC
	size   uint32
	armed  uint32
	failed bool
}

// poll takes up to n entries from both and compares them.
func (m *cqModel) poll(t *rapid.T, c *CQ, n int) {
	out := make([]ib.WC, n)
	got := c.Poll(out)
	want := m.wait[:min(n, len(m.wait))]
	if !slices.Equal(out[:got], want) {
		t.Fatalf("polled %+v, want %+v", out[:got], want)
	}
	m.wait = m.wait[len(want):]
}

func (m *cqModel) resize(t *rapid.T, c *CQ, n uint32) {
	before := *c.hdrCopy()
	switch err := c.Resize(n); {
	case CQSize(n) < uint32(len(m.wait)):
		if !errors.Is(err, ib.EINVAL) || *c.hdrCopy() != before {
			t.Fatalf("resize to %d with %d waiting: %v, and the header from %+v to %+v", n, len(m.wait), err, before, *c.hdrCopy())
		}
	case err != nil:
		t.Fatalf("resize to %d with %d waiting: %v", n, len(m.wait), err)
	default:
		m.size = CQSize(n)
	}
}

// headerWords is a header at one moment.
type headerWords struct {
	prod, cons, lock, armed, flags, mask, stride uint32
	entries                                      uint64
}

func (c *CQ) hdrCopy() *headerWords {
	h := c.hdr
	return &headerWords{h.Prod.Load(), h.Cons.Load(), h.Lock.Load(), h.Armed.Load(), h.Flags.Load(), h.Mask, h.Stride, h.Entries}
}

func (m *cqModel) fire(t *rapid.T, c *CQ, solicited bool) {
	want := m.armed == ArmAny || m.armed == ArmSolicited && solicited
	if got := c.Fire(solicited); got != want {
		t.Fatalf("armed %d, solicited %v: fires %v", m.armed, solicited, got)
	}
	if want {
		m.armed = ArmNone
	}
}

// TestQ5_CQModel compares a completion queue with a slice, from indices that
// soon wrap at 2^32: what is removed is never polled, the rest stays in order.
func TestQ5_CQModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := cqModel{size: uint32(1)<<rapid.IntRange(1, 5).Draw(rt, "log2 slots") - 1}
		first := rapid.SampledFrom([]uint32{0, 1<<32 - 1, 1<<32 - 2, 1<<32 - 9, 1 << 31}).Draw(rt, "first index")
		a := newArena(t)
		c := newTestCQ(t, a.allocator(), m.size, first)
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				wc := drawWC(t)
				room := len(m.wait) < int(m.size)
				if c.Push(0, &wc) != room {
					t.Fatalf("with %d of %d waiting there is room: %v", len(m.wait), m.size, !room)
				}
				if room {
					m.wait = append(m.wait, wc)
				}
			},
			"poll": func(t *rapid.T) { m.poll(t, c, rapid.IntRange(0, 20).Draw(t, "n")) },
			"remove": func(t *rapid.T) {
				n := ib.QPN(rapid.IntRange(0, 3).Draw(t, "QPN"))
				c.Remove(n)
				m.wait = slices.DeleteFunc(slices.Clone(m.wait), func(wc ib.WC) bool { return wc.QPN == n })
			},
			"resize": func(t *rapid.T) { m.resize(t, c, uint32(rapid.IntRange(0, 20).Draw(t, "n"))) },
			"arm": func(t *rapid.T) {
				solicited := rapid.Bool().Draw(t, "solicited only")
				c.Arm(solicited)
				if !solicited {
					m.armed = ArmAny
				} else if m.armed == ArmNone {
					m.armed = ArmSolicited
				}
			},
			"fire": func(t *rapid.T) { m.fire(t, c, rapid.Bool().Draw(t, "solicited")) },
			"fail": func(t *rapid.T) {
				if c.Fail() == m.failed {
					t.Fatalf("failed before: %v, and says the opposite", m.failed)
				}
				m.failed = true
			},
			"": func(t *rapid.T) {
				h := c.hdrCopy()
				if c.Pending() != len(m.wait) || c.Cap() != m.size || c.Failed() != m.failed || h.armed != m.armed || h.lock != 0 {
					t.Fatalf("%d of %d wait, failed %v, header %+v; want %+v", c.Pending(), c.Cap(), c.Failed(), h, m)
				}
				a.check()
			},
		})
		m.poll(rt, c, 20)
		c.Free()
		a.empty()
	})
}

// TestM7_TimedCQ shows that the entries of a timed queue keep their times while entries before
// and between them are removed, and while the queue moves.
func TestM7_TimedCQ(t *testing.T) {
	a := newArena(t)
	c, err := NewCQ(a.allocator(), 7, true)
	must.Do(t, err)
	if c.Header().Stride != 56 || !c.Timed() {
		t.Errorf("the entries of a timed queue have %d bytes, want 56", c.Header().Stride)
	}
	for i := range uint64(7) {
		c.Push(clock.Instant(1000+i), &ib.WC{WRID: i, QPN: ib.QPN(i % 3)})
	}
	var out [7]ib.WC
	var at [7]clock.Instant
	got := c.PollTimes(out[:1], at[:1])
	c.Remove(1)
	must.Do(t, c.Resize(15))
	got += c.PollTimes(out[1:], at[1:])
	a.check()
	for i, want := range []uint64{0, 2, 3, 5, 6} {
		if got != 5 || out[i].WRID != want || at[i] != clock.Instant(1000+want) {
			t.Errorf("entry %d of %d is %d of %d, want %d of %d", i, got, out[i].WRID, at[i], want, 1000+want)
		}
	}
	c.Push(0, &ib.WC{WRID: 9})
	if n := c.Poll(out[:]); n != 1 || out[0].WRID != 9 {
		t.Errorf("a poll that asks for no times gets %d entries, %+v", n, out[0])
	}
	c.Free()
	a.empty()
}

// TestCQEKeepsEveryField shows that an entry has every field of a completion.
func TestCQEKeepsEveryField(t *testing.T) {
	for _, pattern := range []uint64{1<<64 - 1, 0, 0x8182_8384_8586_8788} {
		wc, got := filled(t, pattern), filled(t, ^pattern)
		var e CQE
		e.put(&wc, 41)
		if e.get(&got, 40) || e.get(&got, 42) || e.Valid.Load() != 42 {
			t.Error("an entry is taken for that of another index")
		}
		if !e.get(&got, 41) || got != wc {
			t.Errorf("put %+v, got %+v", wc, got)
		}
	}
}

// filled returns a completion whose fields are full of a pattern and the number
// of the field, so that all fields differ.
func filled(t *testing.T, pattern uint64) (wc ib.WC) {
	v := reflect.ValueOf(&wc).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanUint() {
			t.Fatalf("%s is no number", v.Type().Field(i).Name)
		}
		bits := f.Type().Bits()
		if f.Type() == reflect.TypeFor[ib.EECN]() {
			bits = 24 // all that an EE context number has
		}
		f.SetUint((pattern ^ uint64(i)) & (1<<bits - 1))
	}
	return wc
}

func TestCQNoAllocation(t *testing.T) {
	c := newTestCQ(t, Allocator{}, 4, 0)
	var wc [1]ib.WC
	if n := testing.AllocsPerRun(100, func() {
		c.Push(0, &wc[0])
		c.Push(0, &wc[0])
		c.Poll(wc[:])
		c.Remove(7)
		c.Remove(0)
		c.Arm(false)
		c.Fire(false)
	}); n != 0 {
		t.Errorf("an entry costs %v allocations", n)
	}
}

func BenchmarkPushPoll(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(map[int]string{1: "1", 16: "16"}[n], func(b *testing.B) {
			c := newTestCQ(b, Allocator{}, 64, 0)
			wc, out := ib.WC{WRID: 1, QPN: 2}, make([]ib.WC, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.Push(0, &wc); (i+1)%n == 0 {
					c.Poll(out)
				}
			}
		})
	}
}

// TestCQSize shows that a queue has the sizes of adapters' queues, and no entry beyond them.
func TestCQSize(t *testing.T) {
	for n, want := range map[uint32]uint32{0: 1, 1: 1, 2: 3, 3: 3, 4: 7, 7: 7, 8: 15, 15: 15, 16: 31, 1<<22 - 1: 1<<22 - 1} {
		if got := CQSize(n); got != want {
			t.Errorf("a queue for %d entries has %d, want %d", n, got, want)
		}
	}
	for _, n := range []uint32{1, 3, 4} {
		c := newTestCQ(t, Allocator{}, n, 1<<32-2)
		pushed := uint32(0)
		for c.Push(0, &ib.WC{}) {
			pushed++
		}
		if pushed != CQSize(n) || c.Cap() != CQSize(n) {
			t.Errorf("a queue for %d entries takes %d and says %d, want %d", n, pushed, c.Cap(), CQSize(n))
		}
		c.Free()
	}
}

// TestUnpolled counts the entries in a queue, of one queue pair and of all. Flushed entries do not count.
func TestUnpolled(t *testing.T) {
	c := newTestCQ(t, Allocator{}, 7, 1<<32-3)
	for i, st := range []ib.WCStatus{ib.WCSuccess, ib.WCSuccess, ib.WCRetryExcErr, ib.WCWRFlushErr, ib.WCSuccess, ib.WCRemAccessErr} {
		c.Push(0, &ib.WC{Status: st, QPN: ib.QPN(1 + i%2)})
	}
	c.Poll(make([]ib.WC, 1))
	for of, want := range map[ib.QPN][2]int{0: {2, 2}, 1: {1, 1}, 2: {1, 1}, 3: {0, 0}} {
		if succeeded, failed := c.Unpolled(of); [2]int{succeeded, failed} != want {
			t.Errorf("queue pair %d has %d successes and %d errors that wait: want %v", of, succeeded, failed, want)
		}
	}
	if n := c.Pending(); n != 5 {
		t.Errorf("%d entries wait after counting: want 5", n)
	}
}
