package ib

import (
	"testing"

	"pgregory.net/rapid"
)

// anyPSN draws PSNs, often ones near the wrap and near the half.
func anyPSN() *rapid.Generator[PSN] {
	return rapid.Custom(func(t *rapid.T) PSN {
		corner := rapid.SampledFrom([]uint32{0, 1 << 22, 1 << 23, 1<<24 - 1}).Draw(t, "corner")
		near := corner + rapid.Uint32Range(0, 4).Draw(t, "offset") - 2
		wide := rapid.Uint32().Draw(t, "anywhere")
		return NewPSN(rapid.SampledFrom([]uint32{near, wide}).Draw(t, "psn"))
	})
}

func TestPSNDiffInvertsAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPSN().Draw(t, "p")
		d := rapid.Int32Range(-PSNWindow, PSNWindow-1).Draw(t, "d")
		q := p.Add(uint32(d))
		if got := q.Diff(p); got != d {
			t.Fatalf("(%v + %d).Diff(%v) = %d", p, d, p, got)
		}
		if got, want := q.Distance(p), uint32(d)&psnMask; got != want {
			t.Fatalf("(%v + %d).Distance(%v) = %d, want %d", p, d, p, got, want)
		}
	})
}

func TestPSNStaysIn24Bits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPSN().Draw(t, "p")
		n := rapid.Uint32().Draw(t, "n")
		for _, q := range []PSN{p, NewPSN(n), p.Add(n), p.Next(), p.Prev()} {
			if q.Value() > 1<<24-1 {
				t.Fatalf("PSN %#x has more than 24 bits", q.Value())
			}
		}
		if p.Next().Prev() != p || p.Prev().Next() != p || p.Next() != p.Add(1) {
			t.Fatalf("Next and Prev of %v do not undo each other", p)
		}
	})
}

func TestPSNDiffIsAntisymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := anyPSN().Draw(t, "p"), anyPSN().Draw(t, "q")
		d := p.Diff(q)
		if d < -PSNWindow || d >= PSNWindow {
			t.Fatalf("%v.Diff(%v) = %d leaves the half space", p, q, d)
		}
		// The point half the space away is behind from both sides.
		if want := -d; d != -PSNWindow && q.Diff(p) != want {
			t.Fatalf("%v.Diff(%v) = %d, want %d", q, p, q.Diff(p), want)
		}
		if (d == 0) != (p == q) {
			t.Fatalf("%v.Diff(%v) = %d", p, q, d)
		}
	})
}

func TestPSNInWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := anyPSN().Draw(t, "start")
		n := rapid.Uint32Range(0, 1<<24).Draw(t, "n")
		i := rapid.Uint32Range(0, 1<<24-1).Draw(t, "i")
		if got, want := start.Add(i).InWindow(start, n), i < n; got != want {
			t.Fatalf("PSN %d after %v in a window of %d: %v, want %v", i, start, n, got, want)
		}
	})
}

func TestPSNWraps(t *testing.T) {
	last := NewPSN(0xffffff)
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"bits above 24 are cut", NewPSN(0x12345678).Value(), uint32(0x345678)},
		{"the PSN after the last is 0", last.Next(), NewPSN(0)},
		{"the PSN before 0 is the last", NewPSN(0).Prev(), last},
		{"0 is one ahead of the last", NewPSN(0).Diff(last), int32(1)},
		{"the last is one behind 0", last.Diff(NewPSN(0)), int32(-1)},
		{"half the space away is behind", NewPSN(PSNWindow).Diff(NewPSN(0)), int32(-PSNWindow)},
		{"one less than half is ahead", NewPSN(PSNWindow - 1).Diff(NewPSN(0)), int32(PSNWindow - 1)},
		{"six digits", NewPSN(0xabc).String(), "0x000abc"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}
