package roce

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

const (
	// Port is the UDP port of RoCEv2.
	Port = 4791
	// ICRCLen is the size in bytes of the invariant CRC that ends a packet.
	ICRCLen = 4
	// MinSize is the size in bytes of the shortest packet: BTH and ICRC.
	MinSize = BTHLen + ICRCLen
	// MaxHeaderLen is the largest HeaderLen of the table, in bytes: an RD
	// atomic request.
	MaxHeaderLen = BTHLen + 4 + 8 + 28
)

// Packet is one RoCEv2 packet in pieces. Of the extended headers only those
// that Info.Headers names mean something: Parse leaves the others as they
// were, so that a Packet can be used again and again at no cost.
type Packet struct {
	BTH       BTH
	Info      *OpInfo // row of BTH.Opcode; set by Parse, not read by the builders
	RDETH     RDETH
	DETH      DETH
	XRCETH    XRCETH
	FETH      FETH
	RETH      RETH
	AtomicETH AtomicETH
	AETH      AETH
	AtomicAck uint64  // AtomicAckETH: the value before the atomic operation
	Imm       uint32  // ImmDt, as the big-endian number of its four bytes
	InvRKey   ib.RKey // IETH: the key to invalidate
	Payload   []byte  // without padding; after Parse a part of its input
	ICRC      uint32  // as Prefix.ICRC computes it; set by Parse, not checked there
}

// Parse takes apart the payload of a UDP datagram, from the BTH to the ICRC.
// It does not check the ICRC, which needs the IP header, nor the payload rule
// of the opcode. Payload aliases b, and has no capacity beyond itself; the
// other fields keep nothing of b. It neither allocates nor panics, whatever
// b holds. After FaultVersion and later faults BTH and Info are set, and the
// rest is unchanged.
func (p *Packet) Parse(b []byte) Fault {
	if len(b) < MinSize {
		return FaultShort
	}
	p.BTH.decode((*[BTHLen]byte)(b))
	info := p.BTH.Opcode.Info()
	p.Info = info
	if p.BTH.TVer != 0 {
		return FaultVersion
	}
	if !info.Known {
		return FaultOpcode
	}
	start, end := int(info.HeaderLen), len(b)-ICRCLen
	if start > end || len(b)&3 != 0 {
		return FaultLength
	}
	tail := end - int(p.BTH.PadCnt)
	if tail < start {
		return FaultPad
	}
	p.ICRC = binary.LittleEndian.Uint32(b[end:])
	p.Payload = b[start:tail:tail]
	if info.Headers != 0 {
		p.decodeExtended(b[BTHLen:start], info.Headers)
	}
	return FaultNone
}

// padMask masks PadCnt in the second byte of the BTH.
const padMask = 3 << 4

// ParseHeaders reads the BTH and the extended headers from first, the beginning
// of a UDP payload of which no more may be at hand: a trace record, or a capture
// with a snap length. The pad count is the packet's own, Payload is empty and
// ICRC means nothing. It returns what Parse does, and FaultShort or FaultLength
// when first ends before the headers do. It neither panics nor keeps first.
func (p *Packet) ParseHeaders(first []byte) Fault {
	if len(first) < BTHLen {
		return FaultShort
	}
	n := int(Opcode(first[0]).Info().HeaderLen)
	if len(first) < n {
		first, n = first[:BTHLen], BTHLen
	}
	var buf [MaxHeaderLen + ICRCLen]byte
	copy(buf[:], first[:n])
	buf[1] &^= padMask
	fault := p.Parse(buf[:n+ICRCLen])
	p.BTH.PadCnt = first[1] & padMask >> 4
	p.Payload = nil
	return fault
}

// datagramHeaders are the extended headers that RC and UC packets never have.
const datagramHeaders = HasRDETH | HasDETH | HasXRCETH | HasFETH

// decodeExtended reads the headers h from b, which is as long as they are.
func (p *Packet) decodeExtended(b []byte, h Headers) {
	if h&datagramHeaders != 0 {
		b = p.decodeLeading(b, h)
	}
	if h&HasRETH != 0 {
		p.RETH.decode((*[16]byte)(b))
		b = b[16:]
	}
	if h&HasAETH != 0 {
		p.AETH.decode((*[4]byte)(b))
		b = b[4:]
	}
	switch {
	case h&HasImmDt != 0:
		p.Imm = binary.BigEndian.Uint32(b)
	case h&HasIETH != 0:
		p.InvRKey = ib.RKey(binary.BigEndian.Uint32(b))
	case h&HasAtomicETH != 0:
		p.AtomicETH.decode((*[28]byte)(b))
	case h&HasAtomicAckETH != 0:
		p.AtomicAck = binary.BigEndian.Uint64(b)
	}
}

// decodeLeading reads the datagramHeaders among h and returns what follows.
func (p *Packet) decodeLeading(b []byte, h Headers) []byte {
	if h&HasRDETH != 0 {
		p.RDETH.decode((*[4]byte)(b))
		b = b[4:]
	}
	if h&HasDETH != 0 {
		p.DETH.decode((*[8]byte)(b))
		b = b[8:]
	}
	if h&HasXRCETH != 0 {
		p.XRCETH.decode((*[4]byte)(b))
		b = b[4:]
	}
	if h&HasFETH != 0 {
		p.FETH.decode((*[4]byte)(b))
		b = b[4:]
	}
	return b
}

// PutHeaders writes the BTH and the extended headers of BTH.Opcode to the
// start of dst and returns their size in bytes. BTH.PadCnt is written as it
// is. An opcode that is not assigned has a BTH only. It panics when dst is
// too short, which is a bug of the caller; MaxHeaderLen bytes always do.
func (p *Packet) PutHeaders(dst []byte) int {
	info := p.BTH.Opcode.Info()
	n := int(info.HeaderLen)
	dst = dst[:n]
	p.BTH.put((*[BTHLen]byte)(dst))
	if info.Headers != 0 {
		p.putExtended(dst[BTHLen:], info.Headers)
	}
	return n
}

// putExtended writes the headers h to b, which is as long as they are.
func (p *Packet) putExtended(b []byte, h Headers) {
	if h&datagramHeaders != 0 {
		b = p.putLeading(b, h)
	}
	if h&HasRETH != 0 {
		p.RETH.put((*[16]byte)(b))
		b = b[16:]
	}
	if h&HasAETH != 0 {
		p.AETH.put((*[4]byte)(b))
		b = b[4:]
	}
	switch {
	case h&HasImmDt != 0:
		binary.BigEndian.PutUint32(b, p.Imm)
	case h&HasIETH != 0:
		binary.BigEndian.PutUint32(b, uint32(p.InvRKey))
	case h&HasAtomicETH != 0:
		p.AtomicETH.put((*[28]byte)(b))
	case h&HasAtomicAckETH != 0:
		binary.BigEndian.PutUint64(b, p.AtomicAck)
	}
}

// putLeading writes the datagramHeaders among h and returns what follows.
func (p *Packet) putLeading(b []byte, h Headers) []byte {
	if h&HasRDETH != 0 {
		p.RDETH.put((*[4]byte)(b))
		b = b[4:]
	}
	if h&HasDETH != 0 {
		p.DETH.put((*[8]byte)(b))
		b = b[8:]
	}
	if h&HasXRCETH != 0 {
		p.XRCETH.put((*[4]byte)(b))
		b = b[4:]
	}
	if h&HasFETH != 0 {
		p.FETH.put((*[4]byte)(b))
		b = b[4:]
	}
	return b
}

// Pad returns the bytes of padding after n bytes of payload, 0 to 3: what
// makes a packet a multiple of four bytes.
func Pad(n int) int { return -n & 3 }

// Size returns the bytes of a whole UDP payload: headers, n bytes of payload,
// padding and ICRC.
func Size(op Opcode, n int) int {
	return int(op.Info().HeaderLen) + n + Pad(n) + ICRCLen
}

// Build writes a whole packet but its ICRC, which Seal adds: headers, Payload
// and zero padding. It sets BTH.PadCnt to what Payload needs. It returns the
// size with the ICRC and panics when dst is shorter than that (Size), which
// is a bug of the caller. Payload may be where it belongs in dst already.
func (p *Packet) Build(dst []byte) int {
	pad := Pad(len(p.Payload))
	p.BTH.PadCnt = uint8(pad)
	dst = dst[:Size(p.BTH.Opcode, len(p.Payload))]
	n := int(p.BTH.Opcode.Info().HeaderLen)
	n += copy(dst[n:], p.Payload)
	clear(dst[n : n+pad])
	p.PutHeaders(dst)
	return len(dst)
}

// PSNs returns how many PSNs a request takes on a path whose MTU is mtu bytes: a READ one for
// each packet of its answer, any other request one.
func (p *Packet) PSNs(mtu int) uint32 {
	if p.BTH.Opcode.Info().Kind != KindReadRequest || p.RETH.Length == 0 {
		return 1
	}
	return uint32((uint64(p.RETH.Length)-1)/uint64(mtu)) + 1
}
