package roce

import (
	"encoding/binary"
	"math/bits"

	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// The ICRC covers the IPv4 identification and flags, which a UDP socket
// neither sets nor shows. A CRC is linear: the identification changes it by the same
// amount whatever else the packet holds, the two bytes as a polynomial times
// a power of x for the bytes that follow them. Multiplied the other way, the
// difference that is left after a CRC with identification 0 is the
// identification itself.

const (
	// idToUDPEnd is the bytes from the identification, with it, to the end of
	// the UDP header.
	idToUDPEnd = ipudp.IPv4Len - 4 + ipudp.UDPLen
	// idToICRC is the bytes from the identification to the ICRC, beyond the
	// length of the packet with its ICRC.
	idToICRC = idToUDPEnd - ICRCLen
	// maxUDPPayload is the longest payload of a UDP datagram over IPv4.
	maxUDPPayload = ipudp.MaxPayload
)

// idEffect is what each value of the first and of the second byte of the
// identification does to the register at the end of the UDP header.
var idEffect = makeIDEffect()

func makeIDEffect() (t [2][256]uint32) {
	for v := range uint32(256) {
		t[0][v] = later.scale(v, idToUDPEnd/4)
		t[1][v] = later.scale(v<<8, idToUDPEnd/4)
	}
	return t
}

// WithID returns the prefix of the same packet with an IPv4 identification,
// given p with identification 0. IPv6 has none: p is returned as it is.
func (p Prefix) WithID(id uint16) Prefix {
	if p.v4 {
		p.reg ^= idEffect[0][id>>8] ^ idEffect[1][id&0xff]
	}
	return p
}

// dfEffect is what the don't-fragment flag, two bytes after the
// identification, does to the register at the end of the UDP header.
var dfEffect = later.scale(0x40<<16, idToUDPEnd/4)

// WithoutDF returns the prefix of the same packet without the don't-fragment
// flag, given p with it. IPv6 has none: p is returned as it is.
func (p Prefix) WithoutDF() Prefix {
	if p.v4 {
		p.reg ^= dfEffect
	}
	return p
}

// DeriveID finds the IPv4 identification that makes the ICRC of a received
// packet right, given the prefix with identification 0. It returns false when
// there is none: the packet is damaged. One of 65536 damaged packets passes,
// with an arbitrary identification; a caller that knows which ones the peer
// uses can tell most of those. It reads the packet once, whatever the
// identification, and costs no more than Check when guess is right. For IPv6,
// which has no identification, it returns 0 and whether the ICRC is right.
// Bytes that cannot be a packet (below MinSize, not a multiple of 4, longer
// than UDP carries) are damaged.
func DeriveID(pkt []byte, p Prefix, guess uint16) (id uint16, ok bool) {
	if len(pkt) < MinSize || len(pkt)&3 != 0 || len(pkt) > maxUDPPayload {
		return 0, false
	}
	if !p.v4 {
		return 0, Check(pkt, p)
	}
	diff := storedICRC(pkt) ^ p.WithID(guess).ICRC(pkt[:len(pkt)-ICRCLen])
	if diff == 0 {
		return guess, true
	}
	word := earlier.scale(diff, (len(pkt)+idToICRC)/4)
	if word>>16 != 0 {
		return 0, false
	}
	return guess ^ bits.ReverseBytes16(uint16(word)), true
}

// MoveID changes the ICRC of a sealed IPv4 packet from one identification to
// another without reading the packet. The length must be a multiple of 4 from
// MinSize to what UDP carries, as every sealed packet's is; it panics on
// others.
func MoveID(pkt []byte, from, to uint16) {
	if from == to {
		return
	}
	if len(pkt) < MinSize || len(pkt)&3 != 0 || len(pkt) > maxUDPPayload {
		panic("roce: MoveID on a packet that is not sealed")
	}
	diff := later.scale(uint32(bits.ReverseBytes16(from^to)), (len(pkt)+idToICRC)/4)
	binary.LittleEndian.PutUint32(pkt[len(pkt)-ICRCLen:], storedICRC(pkt)^diff)
}
