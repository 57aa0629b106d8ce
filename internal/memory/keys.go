package memory

const (
	// indexShift divides a key: the upper 24 bits, the index, select the
	// object; the low 8 bits must match too.
	indexShift = 8
	// quarantine is the number of registrations for which a freed index is
	// not given out again, so that a peer with an old key hits nothing.
	quarantine = 4096
	// maxObjects bounds a table so that at least half of the indices are
	// always free, and a few draws find one.
	maxObjects = 1 << 22
	// maxDraws is the number of times that a free index is looked for. With
	// half of them free, all fail once in 2^64 times; a source that repeats
	// itself makes registering fail instead of never ending.
	maxDraws = 64
	minSlots = 64
)

// kind says what a key leads to.
type kind uint8

const (
	kindNone   kind = iota // nothing any more: the index is in quarantine
	kindRegion             // a memory region
)

// entry is what a key leads to: an object of a kind.
type entry struct {
	kind   kind
	region *Region
}

// slot is a place of the hash table. Key 0 marks an empty one: index 0 is
// never given out.
type slot struct {
	key uint32
	entry
}

// keys maps keys to regions: an open-addressed hash table with linear
// probing, at most half full. The indices are random, so they are their own
// hash, and a peer who could crowd them would have to know them.
type keys struct {
	rand  func() uint32
	slots []slot // a power of two
	used  int    // slots with a key
	drawn uint64 // keys given out so far
	dead  []deadKey
	first int // oldest in dead
}

// deadKey is a key in quarantine.
type deadKey struct {
	key   uint32
	drawn uint64 // keys given out when it was freed
}

// find returns the slot with the index of key, or the empty slot where it
// would be.
func (k *keys) find(key uint32) *slot {
	mask := uint32(len(k.slots) - 1)
	for i := key >> indexShift & mask; ; i = (i + 1) & mask {
		if s := &k.slots[i]; s.key == 0 || (s.key^key)>>indexShift == 0 {
			return s
		}
	}
}

// resolve returns what the whole key leads to.
func (k *keys) resolve(key uint32) entry {
	if s := k.find(key); s.key == key {
		return s.entry
	}
	return entry{}
}

// region returns the region that the key leads to, or nil.
func (k *keys) region(key uint32) *Region {
	if e := k.resolve(key); e.kind == kindRegion {
		return e.region
	}
	return nil
}

// add gives e a fresh key, which it returns; 0 when no free one was found.
func (k *keys) add(e entry) uint32 {
	k.expire()
	if 2*(k.used+1) > len(k.slots) {
		k.grow()
	}
	for range maxDraws {
		key := k.rand()
		if key>>indexShift == 0 {
			continue
		}
		if s := k.find(key); s.key == 0 {
			*s = slot{key, e}
			k.used++
			k.drawn++
			return key
		}
	}
	return 0
}

// retire puts a key into quarantine.
func (k *keys) retire(key uint32) {
	k.find(key).entry = entry{}
	k.dead = append(k.dead, deadKey{key, k.drawn})
}

// expire frees the indices whose quarantine is over.
func (k *keys) expire() {
	for k.first < len(k.dead) && k.drawn-k.dead[k.first].drawn >= quarantine {
		k.remove(k.dead[k.first].key)
		k.first++
	}
	// What is left moves to the front once it is the smaller half, so that
	// every entry moves once on average.
	if k.first > len(k.dead)/2 {
		n := copy(k.dead, k.dead[k.first:])
		k.dead, k.first = k.dead[:n], 0
	}
}

// remove empties a slot and moves later entries of its run up, so that every
// entry stays reachable from its place without marks for deleted ones.
func (k *keys) remove(key uint32) {
	mask := uint32(len(k.slots) - 1)
	hole := key >> indexShift & mask
	for k.slots[hole].key != key {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; k.slots[i].key != 0; i = (i + 1) & mask {
		home := k.slots[i].key >> indexShift & mask
		if (i-home)&mask >= (i-hole)&mask {
			k.slots[hole] = k.slots[i]
			hole = i
		}
	}
	k.slots[hole] = slot{}
	k.used--
}

// grow doubles the table.
func (k *keys) grow() {
	old := k.slots
	k.slots = make([]slot, max(minSlots, 2*len(old)))
	for _, s := range old {
		if s.key != 0 {
			*k.find(s.key) = s
		}
	}
}
