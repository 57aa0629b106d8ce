package qp

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestMSNFits shows which counts of messages fit: those from the last message that is
// acknowledged whole to the last that was begun, also where the numbers wrap.
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

// TestMSNIsDemanded: 255 answers in a row that fit begin the demand, one that does not begins
// the row anew, and misfits answers in a row that do not fit end the demand.
func TestMSNIsDemanded(t *testing.T) {
	var y msnPolicy
	row := func(n int) {
		t.Helper()
		for range n {
			if y.refuses(true) {
				t.Fatal("an answer that fits is refused")
			}
		}
	}
	row(demandAfter - 1)
	if y.refuses(false) {
		t.Error("after 254 answers that fit, one that does not is refused")
	}
	row(demandAfter - 1)
	if y.refuses(false) {
		t.Error("a row that was broken counts")
	}
	row(demandAfter)
	for i := range misfits - 1 {
		if !y.refuses(false) {
			t.Errorf("misfit %d is taken", i)
		}
	}
	row(1) // the peer is there, and counts as before
	for i := range misfits {
		if !y.refuses(false) {
			t.Errorf("misfit %d after an answer that fits is taken", i)
		}
	}
	if y.refuses(false) {
		t.Error("a peer that counts differently is never believed")
	}
}
