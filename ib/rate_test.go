package ib

import "testing"

func TestV17_Rates(t *testing.T) {
	for i, r := range rates {
		if i > 0 && r.mbps <= rates[i-1].mbps {
			t.Errorf("%s is not more than %s", r.name, rates[i-1].name)
		}
		if got, err := ParseRate(r.code.String()); err != nil || got != r.code || !got.Valid() {
			t.Errorf("rate %s is parsed as %v, %v", r.name, got, err)
		}
	}
	for r := range Rate(255) {
		if r.Valid() != (r == RateMax || r >= 2 && r <= 22) {
			t.Errorf("code %d: valid is %v", r, r.Valid())
		}
	}
	if r, err := ParseRate("10.0"); err != nil || r != 3 || r.Mbps() != 10_000 {
		t.Errorf("10.0 Gb/s is %v (%d Mb/s), %v", r, r.Mbps(), err)
	}
	for _, s := range []string{"", "3", "-10", "fast", "1e400", "NaN"} {
		if r, err := ParseRate(s); err == nil {
			t.Errorf("%q is taken for %v", s, r)
		}
	}
	if RateMax.String() != "max" || RateMax.Mbps() != 0 || Rate(1).String() != "Rate(1)" {
		t.Errorf("%v, %d, %v", RateMax, RateMax.Mbps(), Rate(1))
	}
}
