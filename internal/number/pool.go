package number

import "github.com/softhca/softhca/ib"

// Rest is the number of later frees after which a freed number may be used
// again, so that late packets of an old connection find no queue pair (V13).
const Rest = 2048

// Pool draws unpredictable numbers.
type Pool struct {
	slot  uint32               // already shifted
	taken [1 << 16 / 64]uint64 // bit n: number n is in use or in quarantine
	rest  [Rest]uint32         // ring of freed numbers in quarantine
	freed int
}

// NewPool returns the pool of the numbers of a slot.
func NewPool(slot uint8) *Pool { return &Pool{slot: uint32(slot) << 16} }

// bit returns the word of taken that holds the bit of number n, and its mask.
func (t *Pool) bit(n uint32) (word *uint64, mask uint64) {
	n &= 0xffff
	return &t.taken[n/64], 1 << (n % 64)
}

// Draw returns a number that is neither in use nor in quarantine, nor 0 or 1.
// It is in use after Take.
func (t *Pool) Draw(rand func() uint32) (uint32, bool) {
	n := rand() & 0xffff
	for i := range 2 << 16 {
		full := t.slot | n
		if word, mask := t.bit(n); n > 1 && *word&mask == 0 && full != uint32(ib.QPNMulticast) {
			return full, true
		}
		n = (n + 1) & 0xffff
		// Redraw, so as not to search a crowded range in order. Random draws may miss the last
		// free numbers, so the second half of the loop tries all numbers.
		if n&7 == 0 && i < 1<<16 {
			n = rand() & 0xffff
		}
	}
	return 0, false
}

// Take marks a number as in use.
func (t *Pool) Take(n uint32) {
	word, mask := t.bit(n)
	*word |= mask
}

// Free ends the use of a number and begins its quarantine.
func (t *Pool) Free(n uint32) {
	oldest := &t.rest[t.freed%Rest]
	if t.freed >= Rest {
		word, mask := t.bit(*oldest)
		*word &^= mask
	}
	*oldest = n
	t.freed++
}
