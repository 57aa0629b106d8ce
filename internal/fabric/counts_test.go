package fabric

import "testing"

// TestNearNames shows that each count of shared memory has a name of its own.
func TestNearNames(t *testing.T) {
	seen := map[string]bool{"": true, NumNear.String(): true}
	for n := range NumNear {
		if seen[n.String()] {
			t.Errorf("count %d is called %q", n, n)
		}
		seen[n.String()] = true
	}
}

// TestBegin opens a port with the counts of a process that was killed: the port has no peers.
func TestBegin(t *testing.T) {
	var c Counts
	for n := range c.Near {
		c.Near[n].Store(uint64(n) + 1)
	}
	c.Begin()
	for n, v := range c.Stats().Near {
		want := uint64(n) + 1
		if now := NearCount(n); now == NearPeers || now == NearMemory {
			want = 0
		}
		if v != want {
			t.Errorf("%s is %d, want %d", NearCount(n), v, want)
		}
	}
}
