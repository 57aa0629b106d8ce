package ib

// FlushType is what a FLUSH waits for: one or both of the types.
type FlushType uint8

// The types, with the values of enum ibv_placement_type.
const (
	FlushGlobal     FlushType = 1 << 0 // earlier WRITEs are visible to every reader at the peer
	FlushPersistent FlushType = 1 << 1 // earlier WRITEs survive a loss of power
)

// FlushLevel selects the memory of a FLUSH.
type FlushLevel uint8

// The levels, with the values of enum ibv_selectivity_level.
const (
	FlushRange  FlushLevel = 0 // the bytes of an address range
	FlushRegion FlushLevel = 1 // the whole region; address and length are ignored
)

// Flush is the part of a work request that only FLUSH has.
type Flush struct {
	Length uint32 // bytes from RemoteAddr on, at most 2^31; 0 flushes nothing, and is answered
	Type   FlushType
	Level  FlushLevel
}

// FlushRights returns the rights that a FLUSH of a type needs, of the queue pair and of the
// region, and false for a type that does not exist.
func FlushRights(t FlushType) (Access, bool) {
	var a Access
	if t&FlushGlobal != 0 {
		a |= AccessFlushGlobal
	}
	if t&FlushPersistent != 0 {
		a |= AccessFlushPersistent
	}
	return a, a != 0 && t&^(FlushGlobal|FlushPersistent) == 0
}
