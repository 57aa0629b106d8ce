package memory

import "testing"

// TestHalfOfTheIndicesAreFree shows that a table at its largest leaves at
// least half of the indices of keys free, those at rest taken away too, so
// that a few draws find one.
func TestHalfOfTheIndicesAreFree(t *testing.T) {
	const indices = 1 << (32 - indexShift)
	most := NewTable(seeded(), Limits{indices, indices}).max
	if most != (Limits{1 << 21, 1 << 21}) || most.Regions+most.Windows+quarantine > indices/2 {
		t.Errorf("up to %d regions and windows and %d indices at rest, of %d indices; want 2^21 of each and half of the indices free",
			most, quarantine, indices)
	}
}
