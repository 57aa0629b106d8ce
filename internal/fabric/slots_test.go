package fabric

import "testing"

// TestSlots adds each slot to an empty set: it has that one.
func TestSlots(t *testing.T) {
	for added := range 256 {
		var s Slots
		s.Add(uint8(added))
		for slot := range 256 {
			if s.Has(uint8(slot)) != (slot == added) {
				t.Errorf("a set of slot %d has %d: %v", added, slot, s.Has(uint8(slot)))
			}
		}
	}
	if (*Slots)(nil).Has(0) {
		t.Error("no set has slot 0")
	}
}
