package memory

import "github.com/softhca/softhca/ib"

const (
	// indexShift splits a key: the upper 24 bits, the index, select the object;
	// the low 8 bits must match too.
	indexShift = 8
	// quarantine is the number of new keys during which a freed index is
	// not reused, so that a peer with an old key finds no memory.
	quarantine = 4096
	// maxObjects bounds the regions of a table, and its windows, so that at
	// least half of the indices are always free, and a few draws find one.
	maxObjects = 1 << 21
	// maxDraws is the number of draws for a free index. With half of the
	// indices free, all draws fail once in 2^64 times; with a random source
	// that repeats itself, registration fails instead of looping forever.
	maxDraws = 64
	minSlots = 64
)

// kind is the kind of object that a key names.
type kind uint8

const (
	kindNone   kind = iota // none: the index is in quarantine
	kindRegion             // a memory region
	kindWindow             // a memory window
)

// entry is the object that a key names.
type entry struct {
	kind   kind
	region *Region
	window *Window
}

// slot is a slot of the hash table. Key 0 marks an empty one: index 0 is never
// used.
type slot struct {
	key uint32
	entry
}

// keys maps keys to regions and windows: an open-addressed hash table with linear probing,
// at most half full. The indices are random, so they serve as the hash, and a
// peer cannot provoke collisions without knowing them.
type keys struct {
	rand  func() uint32
	slots []slot // their number is a power of two
	used  int    // slots with a key
	drawn uint64 // number of keys created so far
	dead  []deadKey
	first int // oldest in dead
}

// deadKey is a key in quarantine.
type deadKey struct {
	key   uint32
	drawn uint64 // keys.drawn when it was freed
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

// resolve returns the object of a key, of which all bits must match.
func (k *keys) resolve(key uint32) entry {
	if s := k.find(key); s.key == key {
		return s.entry
	}
	return entry{}
}

// region returns the region that the key names, or nil.
func (k *keys) region(key uint32) *Region {
	if e := k.resolve(key); e.kind == kindRegion {
		return e.region
	}
	return nil
}

// window returns the window with the index of a key, whatever the tag of the key, or nil.
func (k *keys) window(key uint32) *Window {
	if s := k.find(key); s.kind == kindWindow {
		return s.window
	}
	return nil
}

// retag gives a live key another tag, its low 8 bits, and returns the new key.
func (k *keys) retag(key uint32, tag ib.RKey) uint32 {
	s := k.find(key)
	s.key = uint32(ib.RKey(key).Tagged(tag))
	return s.key
}

// add adds e under a new key, which it returns; 0 if it finds no free index.
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
	// The remaining entries move to the front once they are the smaller half,
	// so that each entry moves once on average.
	if k.first > len(k.dead)/2 {
		n := copy(k.dead, k.dead[k.first:])
		k.dead, k.first = k.dead[:n], 0
	}
}

// remove empties a slot and moves later entries of its run into the gap, so
// that look-ups need no markers for deleted entries.
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
