package nasty

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
)

// TestK2_Parse reads texts, and prints what it reads so that it can be read again.
func TestK2_Parse(t *testing.T) {
	for _, c := range []struct {
		text  string
		seed  uint64
		parts []Part // left out
		err   string
	}{
		{text: ""},
		{text: "7", seed: 7},
		{text: "0x10", seed: 16},
		{text: "seed=7", seed: 7},
		{text: "18446744073709551615", seed: 1<<64 - 1},
		{text: "seed=7,without=placement", seed: 7, parts: []Part{Placement}},
		{text: "without=cm,7,without=late,without=late", seed: 7, parts: []Part{CM, Late}},
		{text: "0", err: "no number of at least 1"},
		{text: "18446744073709551616", err: "no number"},
		{text: "-1", err: "no number"},
		{text: "seed=", err: "no number"},
		{text: "7,8", err: "second seed"},
		{text: "7,", err: "no number"},
		{text: "without=late", err: "the seed is missing"},
		{text: "7,without=", err: "no behaviour"},
		{text: "7,without=loss", err: "late, order, events, placement, losses"},
		{text: "7,with=late", err: "with"},
	} {
		got, err := Parse(c.text)
		if c.err != "" {
			if err == nil || !errors.Is(err, ib.EINVAL) || !strings.Contains(err.Error(), c.err) || got != (Config{}) {
				t.Errorf("%q: %+v, error %v; want an error with %q", c.text, got, err, c.err)
			}
			continue
		}
		want := Config{Seed: c.seed}
		for _, p := range c.parts {
			want.Without[p] = true
		}
		if err != nil || got != want {
			t.Errorf("%q: %+v, error %v; want %+v", c.text, got, err, want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%q is printed as %q, which is %+v, error %v", c.text, got.String(), again, err)
		}
	}
}

// rolls returns the first choices of each behaviour that d has.
func rolls(d *Dice) (all [NumParts][]int) {
	for i := range 64 {
		for p := range NumParts {
			switch {
			case !d.Has(p):
			case i%2 == 0:
				all[p] = append(all[p], d.IntN(p, 1000))
			default:
				all[p] = append(all[p], int(d.Time(p, time.Millisecond)))
			}
		}
	}
	return all
}

// TestK2_Seeds shows that a seed always gives the same choices, that another seed or another
// adapter gives others, and that a behaviour which is left out changes none of the others.
func TestK2_Seeds(t *testing.T) {
	base := Config{Seed: 7}
	want := rolls(base.New(0))
	for p := range NumParts {
		if len(want[p]) != 64 {
			t.Errorf("%v: %d choices, want 64", p, len(want[p]))
		}
		c := base
		c.Without[p] = true
		d := c.New(0)
		got := rolls(d)
		for other := range NumParts {
			switch {
			case other == p && (d.Has(p) || d.OneIn(p, 1)):
				t.Errorf("%v was left out, and the adapter has it", p)
			case other != p && !slices.Equal(got[other], want[other]):
				t.Errorf("without %v, %v chooses otherwise", p, other)
			}
		}
	}
	again, seed, adapter := rolls(base.New(0)), rolls(Config{Seed: 8}.New(0)), rolls(base.New(1))
	for p := range NumParts {
		if !slices.Equal(again[p], want[p]) {
			t.Errorf("%v: the same seed chooses otherwise", p)
		}
		if slices.Equal(seed[p], want[p]) || slices.Equal(adapter[p], want[p]) {
			t.Errorf("%v: another seed, or another adapter, chooses the same", p)
		}
	}
}

// TestK2_TimesAreBounded draws many times: none is negative or above the bound, and some are near it.
func TestK2_TimesAreBounded(t *testing.T) {
	const most = time.Millisecond
	for seed := range uint64(20) {
		d := Config{Seed: seed + 1}.New(0)
		var longest time.Duration
		for range 1000 {
			x := d.Time(Late, most)
			if x < 0 || x > most {
				t.Fatalf("seed %d: a time of %v, at most %v is allowed", seed+1, x, most)
			}
			longest = max(longest, x)
		}
		if longest < most*9/10 {
			t.Errorf("seed %d: the longest of 1000 times is %v, want nearly %v", seed+1, longest, most)
		}
	}
}

// TestK2_Off shows that nothing is nasty without a seed.
func TestK2_Off(t *testing.T) {
	d := Config{}.New(0)
	if d != nil {
		t.Fatal("the zero Config has dice")
	}
	for p := range NumParts {
		if d.Has(p) || d.OneIn(p, 1) {
			t.Errorf("%v happens without a seed", p)
		}
	}
}

// TestK2_EachHasItsPermission checks that the table is complete.
func TestK2_EachHasItsPermission(t *testing.T) {
	names := make(map[string]bool)
	for p := range NumParts {
		why, source := p.Permission()
		for what, text := range map[string]string{"title": p.Title(), "permission": why, "bug": p.Bug()} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%v: the %s is no sentence: %q", p, what, text)
			}
		}
		if p.String() == "" || source == "" || names[p.String()] {
			t.Errorf("behaviour %d: name %q, source %q", p, p, source)
		}
		names[p.String()] = true
	}
}
