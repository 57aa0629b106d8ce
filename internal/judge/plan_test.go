package judge

import (
	"testing"

	"github.com/softhca/softhca/internal/script"
)

// plansFor returns the plans of all scripts.
func plansFor(t *testing.T) []*Plan {
	t.Helper()
	var plans []*Plan
	for _, name := range script.Names() {
		text, err := script.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := MakePlan(name, text)
		if err != nil {
			t.Fatal(err)
		}
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
