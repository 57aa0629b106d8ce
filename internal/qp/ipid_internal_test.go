package qp

import (
	"math/rand/v2"
	"testing"
)

// derived is a packet with a derived identification.
func derived(id uint16) *Packet { return &Packet{ID: id, IDDerived: true} }

// take handles a packet of the peer as a queue pair does and reports whether it
// was accepted.
func (y *ipidPolicy) take(p *Packet) bool {
	if y.refuses(p) {
		return false
	}
	y.learn(p)
	return true
}

// TestIPIDPolicyDemandsTheSegmentIndex shows that the IPv4 ID reveals damaged
// packets of a peer that numbers its segments, every time.
func TestIPIDPolicyDemandsTheSegmentIndex(t *testing.T) {
	var y ipidPolicy
	for round := range 10 {
		for i := range demandAfter {
			if !y.take(derived(uint16(i % runSegments))) {
				t.Fatalf("round %d: segment index %d is refused", round, i%runSegments)
			}
		}
		if y.take(derived(runSegments)) {
			t.Fatalf("round %d: identification %d of a peer that numbers its segments is taken", round, runSegments)
		}
	}
}

// TestIPIDPolicyKnowsWhatThePortSees shows that the policy neither demands nor
// learns anything if the port sees the IPv4 ID.
func TestIPIDPolicyKnowsWhatThePortSees(t *testing.T) {
	var y ipidPolicy
	for i := range 10 * demandAfter {
		if !y.take(&Packet{ID: uint16(i % runSegments)}) {
			t.Fatal("a segment index is refused")
		}
	}
	if y != (ipidPolicy{}) {
		t.Error("something was learnt from identifications that the port saw")
	}
	for range demandAfter {
		y.learn(derived(0))
	}
	if !y.take(&Packet{ID: 40000}) {
		t.Error("an identification that the port saw is refused")
	}
}

// TestIPIDPolicyNeverDemandsACounter shows that a peer with an IPv4 ID counter
// loses no packet when the counter passes the segment indices, jumps or goes
// back.
func TestIPIDPolicyNeverDemandsACounter(t *testing.T) {
	var y ipidPolicy
	for i := range 8 << 16 {
		if !y.take(derived(uint16(i + 65000))) {
			t.Fatalf("identification %d of a counter is refused", uint16(i+65000))
		}
	}
}

// TestIPIDPolicyFailsNoConnection lets a peer change its IPv4 IDs arbitrarily:
// a refused packet passes when it is retransmitted with any ID, and refusals
// are rare.
func TestIPIDPolicyFailsNoConnection(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var y ipidPolicy
	refused, since := 0, demandAfter
	for range 2000 {
		limit := []int{1, runSegments, runSegments + 1, 1 << 16}[r.IntN(4)]
		for range r.IntN(3 * demandAfter) {
			if y.take(derived(uint16(r.IntN(limit)))) {
				since++
				continue
			}
			if since < demandAfter {
				t.Fatalf("refused, %d packets after the last time", since)
			}
			refused, since = refused+1, 0
			if !y.take(derived(uint16(1<<16 - 1))) {
				t.Fatal("refused again when it was sent again")
			}
			since++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused: the test shows nothing")
	}
}
