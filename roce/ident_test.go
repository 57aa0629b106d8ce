package roce

import (
	"math/rand/v2"
	"testing"

	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// idSizes are packet sizes up to the longest UDP payload, on both sides of
// the border between the low and the high powers.
var idSizes = []int{16, 20, 64, 1044, 4140, 8168, 8172, 8176, 16384, 40000, maxUDPPayload &^ 3}

func TestDeriveIDFindsEveryID(t *testing.T) {
	r := newRand(t)
	for _, n := range idSizes {
		pkt, zero := samplePaths[0].sealed(r, n, 0)
		before := uint16(0)
		for step := range 300 {
			id := uint16(r.Uint32())
			if step == 0 {
				id = 0
			}
			MoveID(pkt, before, id)
			before = id
			if !Check(pkt, zero.WithID(id)) {
				t.Fatalf("ICRC of %d bytes is wrong after MoveID to %#04x", n, id)
			}
			for _, guess := range []uint16{0, id, id ^ 1, uint16(r.Uint32())} {
				if got, ok := DeriveID(pkt, zero, guess); !ok || got != id {
					t.Fatalf("DeriveID of %d bytes with the guess %#04x gives %#04x %v, want %#04x", n, guess, got, ok, id)
				}
			}
		}
	}
}

func TestWithoutDF(t *testing.T) {
	r := newRand(t)
	for i, path := range samplePaths {
		pkt, zero := path.sealed(r, 64, 0)
		id := uint16(r.Uint32())
		ip := path.headers(len(pkt), id)
		udp := ip[len(ip)-ipudp.UDPLen:]
		if ip = ip[:len(ip)-ipudp.UDPLen]; i == 0 {
			ip[6] = 0
		}
		want, ok := HeaderICRC(ip, udp, pkt)
		if got := zero.WithoutDF().WithID(id).ICRC(pkt[:len(pkt)-ICRCLen]); !ok || got != want {
			t.Errorf("from %v without don't-fragment: ICRC %08x, that of the header is %08x (%t)", path.src, got, want, ok)
		}
	}
}

// damage flips a few bits of a packet, none of them in byte 4.
func damage(r *rand.Rand, pkt []byte) {
	for range 1 + r.IntN(8) {
		at := r.IntN(len(pkt))
		if at != 4 {
			pkt[at] ^= 1 << r.IntN(8)
		}
	}
	pkt[5+r.IntN(len(pkt)-5)] ^= byte(1 + r.IntN(255))
}

// TestDeriveIDRejectsDamage shows that about one of 65536 damaged packets
// passes, as the arithmetic promises, and not more.
func TestDeriveIDRejectsDamage(t *testing.T) {
	r := newRand(t)
	const tries, expected, limit = 200_000, 3, 15
	passed := 0
	good, zero := samplePaths[0].sealed(r, 256, 0x4321)
	pkt := make([]byte, len(good))
	for range tries {
		copy(pkt, good)
		damage(r, pkt)
		if id, ok := DeriveID(pkt, zero, 0); ok && string(pkt) != string(good) {
			passed++
			if id != 0x4321 && !Check(pkt, zero.WithID(id)) {
				t.Fatalf("DeriveID gives %#04x, with which the ICRC is wrong", id)
			}
			if id == 0x4321 {
				t.Fatalf("damaged packet passes with the true identification: % x", pkt)
			}
		}
	}
	if passed > limit {
		t.Errorf("%d of %d damaged packets pass, want about %d", passed, tries, expected)
	}
}

func TestDeriveIDOfIPv6(t *testing.T) {
	r := newRand(t)
	pkt, p := samplePaths[1].sealed(r, 64, 0)
	if id, ok := DeriveID(pkt, p, 0); !ok || id != 0 {
		t.Errorf("good IPv6 packet: %d %v, want 0 true", id, ok)
	}
	MoveID(pkt, 0, 5) // what would be right for IPv4 is damage here
	if _, ok := DeriveID(pkt, p, 0); ok {
		t.Error("IPv6 packet whose ICRC is off by an identification passes")
	}
}

func TestDeriveIDRefusesOddSizes(t *testing.T) {
	r := newRand(t)
	for _, n := range []int{0, 3, 12, 15, 17, 18, 19, 63, 65508, 70000, 1 << 20} {
		var p Prefix
		pkt := make([]byte, n)
		if n >= MinSize {
			pkt, p = samplePaths[0].sealed(r, n, 0)
		}
		if _, ok := DeriveID(pkt, p, 0); ok {
			t.Errorf("DeriveID accepts %d bytes", n)
		}
	}
}

func TestMoveIDPanicsOnWhatIsNoPacket(t *testing.T) {
	for _, n := range []int{0, 12, 18, 65508} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("MoveID of %d bytes does not panic", n)
				}
			}()
			MoveID(make([]byte, n), 1, 2)
		}()
	}
}
