package judge

import (
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/script"
)

// plansFor returns the plans of all scripts.
func plansFor(t *testing.T) []*Plan {
	t.Helper()
	var plans []*Plan
	for _, name := range script.Names() {
		text, err := script.Text(name)
		must.Do(t, err)
		p, err := MakePlan(name, text, true)
		must.Do(t, err)
		plans = append(plans, p)
	}
	return plans
}

// TestEnoughIsJudged counts the scripts that can be played to another adapter.
func TestEnoughIsJudged(t *testing.T) {
	responder, requester := 0, 0
	for _, p := range plansFor(t) {
		t.Logf("%s: %v", p.Script, p)
		if p.Responder {
			responder++
		}
		if p.Requester {
			requester++
		}
	}
	if responder < 80 || requester < 40 {
		t.Errorf("%d scripts of the responder and %d of the requester can be judged, want 80 and 40", responder, requester)
	}
}

// TestShortPacketsAreAskedFor shows that packets which may bring a peer down
// are sent on demand only.
func TestShortPacketsAreAskedFor(t *testing.T) {
	text := "# title: t\n# covers: E7\nmr m\nqp a RC\nwalk a INIT\n    a: RESET -> INIT (modify)\n" +
		"< a RDMA_WRITE_ONLY va=m len=8 cut=12\n    count: drop_malformed +1\n"
	for _, hostile := range []bool{false, true} {
		p, err := MakePlan("t", text, hostile)
		must.Do(t, err)
		if p.Responder != hostile || strings.Contains(p.Reason, "--hostile") == hostile {
			t.Errorf("hostile %t: %v", hostile, p)
		}
	}
	// Cut in the payload, it is only a shorter packet.
	text = strings.NewReplacer("cut=12", "cut=8", "count: drop_malformed +1", "drop a psn=100 (state)").Replace(text)
	p, err := MakePlan("t", text, false)
	if p == nil || !p.Responder {
		t.Errorf("a packet that is cut in its payload is left out: %v (%v)", p, err)
	}
}
