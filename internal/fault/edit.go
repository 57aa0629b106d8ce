package fault

import (
	"net/netip"

	"github.com/softhca/softhca/roce"
)

// seal holds the values outside of a packet that its ICRC covers.
type seal struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
	id               uint16
	noDF             bool // IPv4 without "don't fragment"
}

func (s *seal) prefix(n int) roce.Prefix {
	p := roce.NewPrefix(s.src, s.dst, s.srcPort, s.dstPort, n)
	if s.noDF {
		p = p.WithoutDF()
	}
	return p
}

// unsealed is the byte of the BTH that the ICRC does not cover.
const unsealed = 4

// edit changes a packet in place and returns the rest of it.
func (l *Live) edit(b []byte, s *seal) []byte {
	if !l.fits(len(b)) {
		return b // an earlier rule has truncated it
	}
	var at int // the byte that was changed
	if l.Action == Truncate {
		n := int(l.num(Length, 0))
		if l.Has(Reseal) {
			n &^= 3
		}
		b = b[:min(n, len(b))]
		at = len(b) - 1
	} else {
		var mask byte
		at, mask = l.target(len(b))
		b[at] ^= mask
	}
	switch sealed := len(b) >= roce.MinSize && len(b)&3 == 0; {
	case !sealed:
	case l.Has(Reseal):
		roce.Seal(b, s.prefix(len(b)).WithID(s.id))
	case at != unsealed:
		spoil(b, at, s)
	}
	return b
}

// target chooses the byte to change and the bits of it.
func (l *Live) target(size int) (at int, mask byte) {
	switch {
	case l.Has(Bit):
		n := int(l.num(Bit, 0))
		return n / 8, 1 << (n % 8)
	case l.Has(Byte):
		if at = int(l.num(Byte, 0)); at < 0 {
			at += size
		}
	default:
		if at = l.rand.IntN(size); at == unsealed {
			at = 0 // the opcode instead
		}
		if !l.Has(Xor) {
			return at, 1 << l.rand.IntN(8)
		}
	}
	return at, byte(l.num(Xor, 0xff))
}

// spoil changes the byte again while a receiver that cannot see the
// identification would accept the packet as intact, as happens for one change
// in 65536.
func spoil(b []byte, at int, s *seal) {
	for range 255 {
		if _, ok := roce.DeriveID(b, s.prefix(len(b)), 0); !ok {
			return
		}
		b[at]++
	}
}
