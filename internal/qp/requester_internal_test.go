package qp

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestE12_CreditsWrap shows that the credit limit continues past 2^24-1, as the
// MSN of the AETH does, and never decreases.
func TestE12_CreditsWrap(t *testing.T) {
	const last = 1<<24 - 1
	three := ib.CreditCode(3)
	for _, c := range []struct {
		msn  ib.MSN // of the AETH, with three credits
		ssn  uint32 // of the message to be sent
		want bool
	}{
		{last - 10, last - 6, true}, // three and the probe
		{last - 10, last - 5, false},
		{last, last + 1, true}, // the number is not reduced to 24 bits
		{last, 0, true},
		{last, 3, true},
		{last, 4, false},
		{ib.MSN(last).Next(), 4, true},
		{ib.MSN(last).Next(), 5, false},
	} {
		s := creditState{unlimited: true}
		s.update(c.msn, three)
		if got := s.allows(&requests[ib.WRSend], c.ssn); got != c.want {
			t.Errorf("%d messages done and 3 credits: message %d may go: %v, want %v", c.msn, c.ssn, got, c.want)
		}
		s.update(c.msn-5, three) // an old one
		if got := s.allows(&requests[ib.WRSend], c.ssn); got != c.want {
			t.Errorf("after an old count for %d, message %d may go: %v, want %v", c.msn-5, c.ssn, got, c.want)
		}
		if !s.allows(&requests[ib.WRRDMAWrite], c.ssn+100) {
			t.Error("a WRITE waits for credits")
		}
	}
}
