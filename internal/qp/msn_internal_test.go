package qp

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// TestMSNFits shows which MSNs are right: those from the last completely acknowledged
// message to the last one begun, also across the wrap.
func TestMSNFits(t *testing.T) {
	for _, c := range []struct {
		msn          ib.MSN
		least, begun uint32
		fits         bool
	}{
		{5, 5, 9, true}, {9, 5, 9, true}, {7, 5, 9, true}, {4, 5, 9, false}, {10, 5, 9, false},
		{0, 0, 0, true}, {1, 0, 0, false}, {0xffffff, 0, 0, false},
		{0xfffffe, 0xfffffe, 0x1000001, true}, {1, 0xfffffe, 0x1000001, true}, {2, 0xfffffe, 0x1000001, false}, {0xfffffd, 0xfffffe, 0x1000001, false},
	} {
		if got := fits(c.msn, c.least, c.begun); got != c.fits {
			t.Errorf("MSN %d fits messages %d to %d: %v, want %v", c.msn, c.least, c.begun, got, c.fits)
		}
	}
}

// TestMSNIsDemanded: after 255 right answers in a row the check applies; one wrong answer
// restarts the count. The check pauses when answers in a row are wrong by the same amount,
// which a stranger's are not.
func TestMSNIsDemanded(t *testing.T) {
	var y msnPolicy
	const least, begun = 1000, 1004
	now := clock.Instant(0)
	row := func(n int) {
		t.Helper()
		for range n {
			if y.refuses(now, least+1, least, begun) {
				t.Fatal("an answer that fits is refused")
			}
		}
	}
	refused := func(why string, off ib.MSN, want bool) {
		t.Helper()
		now = now.Add(challengeTime)
		if y.refuses(now, least+off, least, begun) != want {
			t.Errorf("%s: refused is %v, want %v", why, !want, want)
		}
	}
	row(demandAfter - 1)
	refused("after 254 answers that fit", 9, false)
	row(demandAfter - 1)
	refused("after a row that was broken", 9, false)
	row(demandAfter)
	for i := range ib.MSN(100) {
		refused("guesses", 5000*(i+1), true)
	}
	refused("one", 0x800000, true)
	refused("like the one before", 0x800001, true)
	row(1)
	refused("one, after an answer that fits", 0x800002, true)
	refused("the second", 0x800003, true)
	refused("the third", 0x800004, true)
	refused("a peer that counts in another way", 0x800005, false)

	row(demandAfter)
	for range 100 {
		if !y.refuses(now, least+0x800001, least, begun) {
			t.Fatal("a copy is taken")
		}
	}
}
