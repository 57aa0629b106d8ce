package roce

import (
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// slowICRC computes an ICRC bit by bit from the masked bytes.
func slowICRC(pieces ...[]byte) uint32 {
	const reversedPolynomial = 0xedb88320
	reg := ^uint32(0)
	for _, piece := range pieces {
		for _, c := range piece {
			reg ^= uint32(c)
			for range 8 {
				low := reg & 1
				reg = reg>>1 ^ low*reversedPolynomial
			}
		}
	}
	return ^reg
}

// ones are the bytes that replace the local route header.
var ones = []byte{255, 255, 255, 255, 255, 255, 255, 255}

// samplePath is an IPv4 or IPv6 path and its masked headers, written out.
type samplePath struct {
	src, dst netip.Addr
	headers  func(payload int, id uint16) []byte
}

var samplePaths = []samplePath{
	{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), func(n int, id uint16) []byte {
		return []byte{
			0x45, 0xff, byte((n + 28) >> 8), byte(n + 28), byte(id >> 8), byte(id), 0x40, 0, 0xff, 17, 0xff, 0xff,
			10, 0, 0, 1, 10, 0, 0, 2,
			0xc0, 0x01, 0x12, 0xb7, byte((n + 8) >> 8), byte(n + 8), 0xff, 0xff,
		}
	}},
	{netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("fe80::2"), func(n int, _ uint16) []byte {
		return []byte{
			0x6f, 0xff, 0xff, 0xff, byte((n + 8) >> 8), byte(n + 8), 17, 0xff,
			0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
			0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
			0xc0, 0x01, 0x12, 0xb7, byte((n + 8) >> 8), byte(n + 8), 0xff, 0xff,
		}
	}},
}

// sealed returns a random packet of n bytes on the path, with its ICRC.
func (s samplePath) sealed(r *rand.Rand, n int, id uint16) ([]byte, Prefix) {
	pkt := make([]byte, n)
	fill(r, pkt)
	zero := NewPrefix(s.src, s.dst, 0xc001, Port, n)
	Seal(pkt, zero.WithID(id))
	return pkt, zero
}

func TestICRCAgainstBitByBit(t *testing.T) {
	r := newRand(t)
	for i := range 600 {
		n := MinSize + i
		id := uint16(r.Uint32())
		for _, path := range samplePaths {
			pkt, zero := path.sealed(r, n, id)
			masked := append([]byte(nil), pkt[:n-ICRCLen]...)
			masked[4] = 0xff
			want := slowICRC(ones, path.headers(n, id), masked)
			if got := storedICRC(pkt); got != want {
				t.Fatalf("ICRC of %d bytes from %v is %08x, bit by bit %08x", n, path.src, got, want)
			}
			body := pkt[:n-ICRCLen]
			cut := BTHLen + r.IntN(len(body)-BTHLen+1)
			again := cut + r.IntN(len(body)-cut+1)
			sum := zero.WithID(id).Start(body[:cut]).Update(body[cut:again]).Update(body[again:])
			if sum.ICRC() != want {
				t.Fatalf("ICRC of %d bytes in pieces cut at %d and %d is %08x, want %08x", n, cut, again, sum.ICRC(), want)
			}
		}
	}
}

func TestUpdateMatchesStandardLibrary(t *testing.T) {
	r := newRand(t)
	b := make([]byte, 300)
	fill(r, b)
	for n := range b {
		want := crc32.ChecksumIEEE(b[:n])
		if got := ^updateShort(^uint32(0), b[:n]); got != want {
			t.Errorf("updateShort of %d bytes is %08x, want %08x", n, got, want)
		}
		if got := ^update(^uint32(0), b[:n]); got != want {
			t.Errorf("update of %d bytes is %08x, want %08x", n, got, want)
		}
	}
	if got := updateShort(^uint32(0), ones); got != lrhRegister {
		t.Errorf("register after eight bytes of ones is %08x, want %08x", got, uint32(lrhRegister))
	}
}

func TestPrefixUnmapsAddresses(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	mapped := NewPrefix(netip.AddrFrom16(a.As16()), netip.AddrFrom16(b.As16()), 1, Port, 64)
	if mapped != NewPrefix(a, b, 1, Port, 64) {
		t.Error("v4-mapped addresses give another prefix than the IPv4 addresses")
	}
	if v6 := NewPrefix(netip.IPv6Loopback(), b, 1, Port, 64); v6.WithID(7) != v6 {
		t.Error("WithID changes an IPv6 prefix")
	}
	NewPrefix(netip.Addr{}, netip.Addr{}, 0, 0, -1) // must not panic
}

// TestEverySingleBitIsCovered flips each bit of the vectors: only those of
// byte 4, which switches may change, leave the ICRC right.
func TestEverySingleBitIsCovered(t *testing.T) {
	for _, v := range vectors {
		ip, udp, pkt := v.bytes(t)
		zero, id := prefixOf(ip, udp)
		p := zero.WithID(id)
		for i := range len(pkt) * 8 {
			pkt[i/8] ^= 1 << (i % 8)
			if got, want := Check(pkt, p), i/8 == 4; got != want {
				t.Errorf("%s: with bit %d of byte %d flipped Check says %v, want %v", v.name, i%8, i/8, got, want)
			}
			pkt[i/8] ^= 1 << (i % 8)
		}
	}
}

// TestBurstsNeverPass damages up to 32 bits in a row, which a CRC always finds.
func TestBurstsNeverPass(t *testing.T) {
	r := newRand(t)
	for range 20_000 {
		n := MinSize + 4*r.IntN(280)
		pkt, zero := samplePaths[0].sealed(r, n, 77)
		burst := uint64(r.Uint32()|1) << r.IntN(8)
		at := 5 + r.IntN(n-ICRCLen-8) // beyond byte 4
		for i := range 5 {
			pkt[at+i] ^= byte(burst >> (8 * i))
		}
		if Check(pkt, zero.WithID(77)) {
			t.Fatalf("burst %x at byte %d of %d passes", burst, at, n)
		}
	}
}

func TestMaskedHeaderFields(t *testing.T) {
	for _, v := range vectors {
		ip, udp, pkt := v.bytes(t)
		want, ok := HeaderICRC(ip, udp, pkt)
		if !ok {
			t.Fatalf("%s: headers refused", v.name)
		}
		for i := range len(ip) * 8 {
			ip[i/8] ^= 1 << (i % 8)
			got, ok := HeaderICRC(ip, udp, pkt)
			if masked := maskedBit(ip, i); ok && (got == want) != masked {
				t.Errorf("%s: bit %d of byte %d of the IP header counts: %v, want %v", v.name, i%8, i/8, got != want, !masked)
			}
			ip[i/8] ^= 1 << (i % 8)
		}
		for i := range len(udp) * 8 {
			udp[i/8] ^= 1 << (i % 8)
			if got, _ := HeaderICRC(ip, udp, pkt); (got == want) != (i/8 >= 6) {
				t.Errorf("%s: bit %d of byte %d of the UDP header counts: %v", v.name, i%8, i/8, got != want)
			}
			udp[i/8] ^= 1 << (i % 8)
		}
	}
}

// maskedBit reports whether a bit of an IP header may change on the way.
func maskedBit(ip []byte, bit int) bool {
	at := bit / 8
	if len(ip) == ipudp.IPv4Len {
		return at == 1 || at == 8 || at == 10 || at == 11
	}
	return at == 0 && bit < 4 || at >= 1 && at <= 3 || at == 7
}

func TestHeaderICRCTakesOptionsAndRefusesPieces(t *testing.T) {
	ip, udp, pkt := vectors[3].bytes(t)
	withOption := append(append([]byte{}, ip...), 1, 1, 1, 0)
	withOption[0] = 0x46
	masked := append([]byte{}, withOption...)
	masked[1], masked[8], masked[10], masked[11] = 255, 255, 255, 255
	maskedUDP := append(append([]byte{}, udp[:6]...), 255, 255)
	body := append([]byte{}, pkt[:len(pkt)-ICRCLen]...)
	body[4] = 255
	want := slowICRC(ones, masked, maskedUDP, body)
	if got, ok := HeaderICRC(withOption, udp, pkt); !ok || got != want {
		t.Errorf("with an IPv4 option the ICRC is %08x %v, want %08x", got, ok, want)
	}
	for name, c := range map[string][3][]byte{
		"no IP header":         {nil, udp, pkt},
		"short IP header":      {ip[:19], udp, pkt},
		"options missing":      {withOption[:20], udp, pkt},
		"longer than its IHL":  {append([]byte{0x45}, withOption[1:]...), udp, pkt},
		"61 bytes":             {make([]byte, 61), udp, pkt},
		"version 5":            {append([]byte{0x55}, ip[1:]...), udp, pkt},
		"IPv6 of 44 bytes":     {append([]byte{0x60}, make([]byte, 43)...), udp, pkt},
		"short UDP header":     {ip, udp[:7], pkt},
		"packet without ICRC":  {ip, udp, pkt[:MinSize-1]},
		"no packet whatsoever": {ip, udp, nil},
	} {
		if _, ok := HeaderICRC(c[0], c[1], c[2]); ok {
			t.Errorf("HeaderICRC accepts %s", name)
		}
	}
}

func TestCheckRefusesShortPackets(t *testing.T) {
	p := NewPrefix(netip.IPv6Loopback(), netip.IPv6Loopback(), 1, Port, MinSize)
	for n := range MinSize {
		if Check(make([]byte, n), p) {
			t.Errorf("Check accepts %d bytes", n)
		}
	}
}

func TestPolynomialsAgainstLongMultiplication(t *testing.T) {
	r := newRand(t)
	slow := func(a, b uint32) (sum uint32) {
		for i := 31; i >= 0; i-- { // coefficients of a from x^0 up
			if a>>i&1 == 1 {
				sum ^= b
			}
			low := b & 1
			b = b>>1 ^ low*crc32.IEEE // b times x
		}
		return sum
	}
	for range 10_000 {
		a, b := r.Uint32(), r.Uint32()
		if got, want := polyMul(a, b), slow(a, b); got != want {
			t.Fatalf("%08x times %08x is %08x, want %08x", a, b, got, want)
		}
		if polyDivX(slow(a, polyOne>>1)) != a {
			t.Fatalf("%08x times x divided by x is something else", a)
		}
		n := r.IntN(powersLow * powersHigh)
		if got := earlier.scale(later.scale(a, n), n); got != a {
			t.Fatalf("%08x moved by %d words and back is %08x", a, n, got)
		}
	}
	if got := later.scale(bits.Reverse32(1), 3); got != updateShort(polyOne, make([]byte, 12)) {
		t.Errorf("three words later the register is %08x", got)
	}
}
