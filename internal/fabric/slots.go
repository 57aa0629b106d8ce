package fabric

// Slots is a set of slots, the upper bytes of QPNs.
type Slots [4]uint64

// Add adds a slot.
func (s *Slots) Add(slot uint8) { s[slot/64] |= 1 << (slot % 64) }

// Has reports whether a slot is in the set. A nil set is empty.
func (s *Slots) Has(slot uint8) bool { return s != nil && s[slot/64]>>(slot%64)&1 != 0 }
