package qp

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestV15_PlaceOfAUCPeer shows which requests give a UC peer's PSN: those near
// the last one, or elsewhere after a run so long that a stranger could not
// guess it.
func TestV15_PlaceOfAUCPeer(t *testing.T) {
	const far = 5_000_000
	l := place{next: ib.NewPSN(100)}
	step := func(psn uint32, want bool, why string) {
		t.Helper()
		if got := l.counts(ib.NewPSN(psn)); got != want {
			t.Errorf("%s: PSN %d counts: %t", why, psn, got)
		}
	}
	step(100, true, "the next")
	step(100, false, "the same again")
	step(101+replayPSNs, true, "the farthest that may be next")
	step(103+2*replayPSNs, false, "one farther")
	for i := range uint32(places - 1) {
		step(far+i, false, "a row that is too short")
	}
	step(far+places, false, "a gap in the row")
	step(102+replayPSNs, true, "the peer goes on where it was")
	for i := range uint32(places - 1) {
		step(far+i, false, "a row that is too short")
	}
	step(far+places-1, true, "the row is long enough")
	step(far+places+7, true, "near the new place")
	step(103+replayPSNs, false, "the old place")
}
