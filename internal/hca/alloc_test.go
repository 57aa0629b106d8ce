package hca_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
)

// TestNoAllocation moves messages of every kind and counts allocations: in
// steady state a message costs none, on the side that sends, on the side that
// receives, and for its acknowledgement.
func TestNoAllocation(t *testing.T) {
	for _, c := range []struct {
		what string
		op   ib.WROpcode
		n    int
	}{
		{"WRITE of one packet", ib.WRRDMAWrite, 64},
		{"WRITE of eight packets", ib.WRRDMAWrite, 32 << 10},
		{"SEND of one packet", ib.WRSend, 64},
		{"SEND of eight packets", ib.WRSend, 32 << 10},
		{"READ of one packet", ib.WRRDMARead, 64},
		{"READ of eight packets", ib.WRRDMARead, 32 << 10},
		{"FETCH&ADD", ib.WRAtomicFetchAdd, 8},
		{"ATOMIC WRITE", ib.WRAtomicWrite, 8},
		{"FLUSH", ib.WRFlush, 0},
	} {
		f := rig.NewFlight(t, c.op, c.n)
		for range 64 { // rings and tables reach their sizes
			f.Trip()
		}
		if n := testing.AllocsPerRun(200, f.Trip); n != 0 {
			t.Errorf("%s: %g allocations per message, want none", c.what, n)
		}
	}
}

// TestAllocationIsSeen checks that the counting notices a trip that allocates.
func TestAllocationIsSeen(t *testing.T) {
	f := rig.NewFlight(t, ib.WRRDMAWrite, 64)
	var kept []byte
	n := testing.AllocsPerRun(100, func() {
		f.Trip()
		kept = make([]byte, 64)
	})
	if n < 1 || len(kept) != 64 {
		t.Errorf("%g allocations counted where each trip makes one", n)
	}
}
