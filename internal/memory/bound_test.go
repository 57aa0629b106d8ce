package memory

import "testing"

// TestHalfOfTheIndicesAreFree shows that a table at its largest leaves at
// least half of the indices of keys free, those at rest taken away too, so
// that a few draws find one.
func TestHalfOfTheIndicesAreFree(t *testing.T) {
	const indices = 1 << (32 - indexShift)
	if most := NewTable(seeded(), indices).max; most != 1<<22 || most+quarantine > indices/2 {
		t.Errorf("up to %d regions and %d indices at rest, of %d indices; want 2^22 regions and half of the indices free",
			most, quarantine, indices)
	}
}
