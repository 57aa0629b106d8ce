package qp

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// TestE9_OldResources shows that a READ that is kept from long ago, more than
// half of the sequence space back, is not taken for one that lies between a
// duplicate and the expected PSN, and that of two results with the same PSN
// the newer answers.
func TestE9_OldResources(t *testing.T) {
	at := ib.NewPSN
	for _, c := range []struct {
		old, epsn, dup, want uint32
	}{
		{0, 0x10, 0x08, 0x0f},                        // the READ is behind both
		{0x09, 0x10, 0x08, 0x08},                     // it is between: acknowledged up to it
		{0, 1<<23 + 0x10, 1<<23 + 0x08, 1<<23 + 0xf}, // far behind: of no interest
		{0, 0xfffff0, 0xffffe0, 0xffffef},            // nearly once round
		{0xfffff8, 0x08, 0xfffff0, 0xfffff7},         // between, across the wrap
	} {
		q := &QP{}
		q.resp.epsn = at(c.epsn)
		q.resp.res.add(resource{kind: roce.KindReadRequest, first: at(c.old), last: at(c.old)})
		if got := q.lastExecuted(at(c.dup)); got != at(c.want) {
			t.Errorf("a duplicate at %06x with a READ kept at %06x and %06x expected is acknowledged up to %v, want %06x",
				c.dup, c.old, c.epsn, got, c.want)
		}
	}
	var s resources
	s.add(resource{first: at(5), last: at(5), value: 1})
	s.add(resource{first: at(5), last: at(5), value: 2}) // 2^24 PSNs later
	if e, _ := s.find(at(5)); e == nil || e.value != 2 {
		t.Errorf("of two results with one PSN the older answers: %+v", e)
	}
}
