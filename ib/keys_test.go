package ib

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPKeyMatches(t *testing.T) {
	for _, c := range []struct {
		a, b PKey
		want bool
		why  string
	}{
		{PKeyDefault, PKeyDefault, true, "two full members"},
		{PKeyDefault, 0x7fff, true, "a full and a limited member"},
		{0x7fff, 0x7fff, false, "two limited members"},
		{0x8001, 0x0001, true, "a full and a limited member of another partition"},
		{0x8001, 0x8002, false, "different partitions"},
		{0x8001, PKeyDefault, false, "the default partition and another"},
		{0x8000, 0x8000, false, "the invalid key with the full bit"},
		{0x0000, 0x8000, false, "the invalid key"},
	} {
		if c.a.Matches(c.b) != c.want || c.b.Matches(c.a) != c.want {
			t.Errorf("%s: %#04x and %#04x match: %v and %v, want %v", c.why, c.a, c.b, c.a.Matches(c.b), c.b.Matches(c.a), c.want)
		}
	}
}

// TestPKeyModel compares Matches with the rule read field by field.
func TestPKeyModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Uint16Range(0, 3)
		full := rapid.Bool()
		ab, bb := base.Draw(t, "a"), base.Draw(t, "b")
		af, bf := full.Draw(t, "a full"), full.Draw(t, "b full")
		key := func(base uint16, full bool) PKey {
			if full {
				return PKey(base + 32768)
			}
			return PKey(base)
		}
		want := ab == bb && ab > 0 && (af || bf)
		if got := key(ab, af).Matches(key(bb, bf)); got != want {
			t.Fatalf("%d (full %v) matches %d (full %v): %v, want %v", ab, af, bb, bf, got, want)
		}
	})
}

func TestMSNWraps(t *testing.T) {
	if got := MSN(0xffffff).Next(); got != 0 {
		t.Errorf("the MSN after the last is %d, want 0", got)
	}
	if got := MSN(7).Next(); got != 8 {
		t.Errorf("the MSN after 7 is %d", got)
	}
}

func TestQPNString(t *testing.T) {
	if got := QPN(0x11).String(); got != "0x000011" {
		t.Errorf("QPN 0x11 prints as %s", got)
	}
}
