package fault

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/roce"
)

// TestCorruptIsNoIdentification searches for one-byte changes that a receiver
// without the IPv4 ID mistakes for another ID, and checks that corrupt makes
// other changes.
func TestCorruptIsNoIdentification(t *testing.T) {
	s := seal{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), 0xc000, roce.Port, 3, false}
	found := 0
	for size := 64; size < 1024 && found < 3; size += 4 {
		for i := range 255 * size {
			at, mask := i/255, byte(i%255+1)
			if at == unsealed {
				continue
			}
			b := make([]byte, size)
			roce.Seal(b, s.prefix(size).WithID(s.id))
			b[at] ^= mask
			if _, ok := roce.DeriveID(b, s.prefix(size), 0); !ok {
				continue
			}
			found++
			b[at] ^= mask
			l := live(t, fmt.Sprintf("corrupt byte=%d xor=%d", at, mask), 1)
			if _, ok := roce.DeriveID(l.edit(b, &s), s.prefix(size), 0); ok || b[at] == 0 {
				t.Errorf("byte %d of %d changed by %#x passes, or is what it was", at, size, mask)
			}
			break
		}
	}
	if found == 0 {
		t.Error("no such change was found: the test shows nothing")
	}
}
