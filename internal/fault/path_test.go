package fault

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
)

// TestV15_Path cuts one path of two, at a port with three addresses, in both
// directions unless the rule says otherwise.
func TestV15_Path(t *testing.T) {
	const none = ""
	for _, c := range []struct {
		rule                 string
		first, second, third string // what goes out from there
		toFirst, toSecond    string // what comes in
	}{
		{"drop path=primary", none, "2 3", "4 5", none, "8 9"},
		{"drop path=alternate", "0 1", none, none, "6 7", none},
		{"drop path=primary dir=in", "0 1", "2 3", "4 5", none, "8 9"},
		{"drop path=alternate dir=out", "0 1", none, none, "6 7", "8 9"},
		{"drop path=primary psn=1", "0", "2 3", "4 5", "6 7", "8 9"},
	} {
		x := newBench(t, c.rule, false)
		n := pipe.NewNetwork(pipe.Options{})
		own := []netip.Addr{x.src, netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("10.0.2.1")}
		inner, err := n.Port(own...)
		must.Do(t, err)
		if x.far, err = n.Port(x.dst); err != nil {
			t.Fatal(err)
		}
		x.port = Wrap(inner, Config{Rules: x.port.rules, Now: func() clock.Instant { return 0 }})
		for i, want := range []string{c.first, c.second, c.third} {
			x.fill(own[i], x.dst, 2)
			must.Do(t, x.port.Send(x.batch))
			if got := x.arrived(x.far); got != want {
				t.Errorf("%s: from %v arrive %q, want %q", c.rule, own[i], got, want)
			}
		}
		for i, want := range []string{c.toFirst, c.toSecond} {
			x.fill(x.dst, own[i], 2)
			must.Do(t, x.far.Send(x.batch))
			if got := x.arrived(x.port); got != want {
				t.Errorf("%s: at %v arrive %q, want %q", c.rule, own[i], got, want)
			}
		}
	}
}

// TestExplainsPaths checks the explanation.
func TestExplainsPaths(t *testing.T) {
	rules, err := Parse("drop path=primary after=1s")
	must.Do(t, err)
	const want = "loses each packet in either direction over the primary path, from 1s after the adapter opened"
	if got := rules[0].Explain(); got != want {
		t.Errorf("it is explained as %q, want %q", got, want)
	}
}
