package ring

// Memory is the memory of this process in a pair of rings: the records and the head of the ring
// that it fills, and the tail of the ring that it empties.
type Memory struct {
	owned
	region
	fd int // -1 after CloseFD
}

// View is a read-only mapping of the Memory of the peer.
type View struct {
	shared
	region
}

// region describes a mapping.
type region struct {
	data uint64 // offset of the records
	size uint64 // of the records, a power of two
}

// Size returns the size of the ring in bytes.
func (r *region) Size() int { return int(r.size) }

// Bytes returns the size of the memory in bytes.
func (r *region) Bytes() int { return int(r.data + r.size) }

// place returns the offset of a position.
func (r *region) place(position uint64) uint64 { return r.data + position&(r.size-1) }
