package nasty

import (
	"errors"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestParse reads texts, and writes what they mean.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "7": "7", "seed=7": "7", "0x10": "16", "18446744073709551615": "18446744073709551615",
		"seed=7,without=placement": "7,without=placement", "without=cm,7,without=late": "7,without=late,without=cm", "7,without=cm,without=cm": "7,without=cm",
	} {
		c, err := Parse(text)
		if err != nil || c.String() != want {
			t.Errorf("%q is %q, %v, want %q", text, c, err, want)
		}
		if again, err := Parse(c.String()); err != nil || again != c {
			t.Errorf("%q is read as %v, %v", c, again, err)
		}
	}
	for text, want := range map[string]string{
		"0": `the seed "0" is no`, "x": `the seed "x" is no`, "7,8": "a second seed", "without=cm": "the seed is missing", "7,": `the seed "" is no`,
		"7,without=": `there is no behaviour ""`, "7,with=cm": `there is no "with"`, " 7": `the seed " 7" is no`, "18446744073709551616": "is no number",
		"7,without=x": `there is no behaviour "x" (late, order, `,
	} {
		if c, err := Parse(text); !errors.Is(err, ib.EINVAL) || !strings.Contains(err.Error(), want) || c != (Config{}) {
			t.Errorf("%q: %v, %v, want %q", text, c, err, want)
		}
	}
}

// TestTable checks that each behaviour has all texts, and a name of its own.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for p := range NumParts {
		why, source := p.Permission()
		for _, s := range []string{p.Title(), why, p.Bug()} {
			if len(s) < 20 || !strings.HasSuffix(s, ".") {
				t.Errorf("%v: no sentence: %q", p, s)
			}
		}
		if source == "" || strings.HasSuffix(source, ".") || names[p.String()] || strings.ContainsAny(p.String(), ",= ") {
			t.Errorf("%v: source %q", p, source)
		}
		names[p.String()] = true
	}
}

// TestSeedOf checks that each behaviour of each adapter has a seed of its own, and that leaving one
// out does not change the others.
func TestSeedOf(t *testing.T) {
	c, without := Config{Seed: 7}, Config{Seed: 7}
	without.Without[CM] = true
	seen := map[uint64]bool{0: true}
	for adapter := range 3 {
		for p := range NumParts {
			seed := c.SeedOf(p, adapter)
			if seen[seed] || (without.SeedOf(p, adapter) != seed) != (p == CM) {
				t.Errorf("the seed of %v of adapter %d is %d, without cm %d", p, adapter, seed, without.SeedOf(p, adapter))
			}
			seen[seed] = true
		}
	}
	if without.SeedOf(CM, 0) != 0 || new(Config).SeedOf(Late, 0) != 0 {
		t.Error("a behaviour that is off has a seed")
	}
}

// TestLeftOut checks what is said about the behaviours that are left out.
func TestLeftOut(t *testing.T) {
	c := Config{Seed: 7}
	if c.LeftOut() != "" || c.Nothing() {
		t.Errorf("without any: %q, %v", c.LeftOut(), c.Nothing())
	}
	for p := range NumParts {
		if c.Nothing() {
			t.Errorf("%v is not left out", p)
		}
		c.Without[p] = true
	}
	if c.LeftOut() != Names() || !c.Nothing() {
		t.Errorf("without all: %q, %v", c.LeftOut(), c.Nothing())
	}
}
