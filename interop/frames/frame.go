package frames

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// rocePort is the UDP port of RoCEv2.
const rocePort = 4791

const (
	ethernetLen = 14
	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8
	bthLen      = 12
	icrcLen     = 4
)

// Frame is a RoCE packet as it was on the wire. It owns its memory.
type Frame struct {
	Time     time.Time
	Out      bool // from this host to the guest
	Src, Dst netip.Addr
	SrcPort  uint16
	Raw      []byte // the whole Ethernet frame; nil if the record was full
	Payload  []byte // of the UDP datagram, from the BTH to the ICRC; nil like Raw
	Opcode   uint8  // of the BTH
	DestQP   uint32
	PSN      uint32
	AETH     uint32 // of an answer: syndrome and MSN
	Read     Span64 // of a READ request: the requested memory
	Length   int    // of the UDP payload
	Err      error  // what is wrong with the frame; nil: nothing, its ICRC is right
}

// Span64 is a range of remote memory.
type Span64 struct {
	Addr uint64
	Len  uint32
}

// The opcodes of RC that matter here.
const (
	readRequest       = 0x0C
	readResponseFirst = 0x0D
	readResponseLast  = 0x0F
	readResponseOnly  = 0x10
	acknowledge       = 0x11
	atomicAcknowledge = 0x12
	flush             = 0x1C
	atomicWrite       = 0x1D
)

// operationMask masks the operation of an opcode, without the service.
const operationMask = 0x1F

// fetches reports whether a packet is a request whose answer is a READ response.
func (f *Frame) fetches() bool {
	op := f.Opcode & operationMask
	return op == readRequest || op == flush || op == atomicWrite
}

// answer reports whether a packet has an AETH.
func (f *Frame) answer() bool {
	switch f.Opcode {
	case readResponseFirst, readResponseLast, readResponseOnly, acknowledge, atomicAcknowledge:
		return true
	}
	return false
}

// Parse reads an Ethernet frame. It returns false for one that carries no
// RoCE packet.
func Parse(raw []byte) (Frame, bool) {
	if len(raw) < ethernetLen {
		return Frame{}, false
	}
	f := Frame{Raw: raw}
	ip := raw[ethernetLen:]
	var head int // of the IP header
	var length int
	switch kind := binary.BigEndian.Uint16(raw[12:]); {
	case kind == 0x0800 && len(ip) >= ipv4Len && ip[0]>>4 == 4 && ip[9] == 17:
		head = int(ip[0]&15) * 4
		length = int(binary.BigEndian.Uint16(ip[2:]))
		f.Src, f.Dst = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
		if binary.BigEndian.Uint16(ip[6:])&0x3FFF != 0 {
			return Frame{}, false // a fragment: not RoCE, whose packets are never fragmented
		}
	case kind == 0x86DD && len(ip) >= ipv6Len && ip[0]>>4 == 6 && ip[6] == 17:
		head = ipv6Len
		length = ipv6Len + int(binary.BigEndian.Uint16(ip[4:]))
		f.Src, f.Dst = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
	default:
		return Frame{}, false
	}
	if head < ipv4Len || len(ip) < head+udpLen || binary.BigEndian.Uint16(ip[head+2:]) != rocePort {
		return Frame{}, false
	}
	f.SrcPort = binary.BigEndian.Uint16(ip[head:])
	udp := int(binary.BigEndian.Uint16(ip[head+4:]))
	// A short frame is padded by Ethernet: the headers give its real end.
	if length > len(ip) || udp != length-head || udp < udpLen+bthLen+icrcLen {
		f.Err = fmt.Errorf("%d bytes of IP packet say length %d, UDP length %d", len(ip), length, udp)
		return f, true
	}
	ip = ip[:length]
	f.Payload = ip[head+udpLen:]
	f.Length = len(f.Payload)
	f.Opcode = f.Payload[0]
	f.DestQP = binary.BigEndian.Uint32(f.Payload[4:]) & 0xFFFFFF
	f.PSN = binary.BigEndian.Uint32(f.Payload[8:]) & 0xFFFFFF
	rest := f.Payload[bthLen : f.Length-icrcLen]
	switch {
	case f.answer() && len(rest) >= 4:
		f.AETH = binary.BigEndian.Uint32(rest)
	case f.Opcode == readRequest && len(rest) >= 16:
		f.Read = Span64{binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[12:])}
	}
	if got, want := binary.LittleEndian.Uint32(f.Payload[f.Length-icrcLen:]), icrc(ip, head); got != want {
		f.Err = fmt.Errorf("ICRC %#08x, should be %#08x", got, want)
	}
	return f, true
}

// String returns one line about the frame.
func (f *Frame) String() string {
	text := fmt.Sprintf("%v > %v opcode %#02x QP %#06x PSN %#06x, %d bytes", f.Src, f.Dst, f.Opcode, f.DestQP, f.PSN, f.Length)
	if f.Err != nil {
		text += ": " + f.Err.Error()
	}
	return text
}

// Span returns the time from the first to the last of frames that carry
// packets of RC queue pairs, and at least a microsecond.
func Span(fs []Frame) time.Duration {
	var first, last time.Time
	for i := range fs {
		if fs[i].Err != nil || fs[i].Opcode>>5 != 0 {
			continue
		}
		if first.IsZero() {
			first = fs[i].Time
		}
		last = fs[i].Time
	}
	return max(last.Sub(first), time.Microsecond)
}

// Alone returns for how long at the end only one side has sent: this host if
// out is true, else the guest.
func Alone(fs []Frame, out bool) time.Duration {
	var other time.Time
	for i := range fs {
		if fs[i].Out != out {
			other = fs[i].Time
		}
	}
	if last := len(fs) - 1; last >= 0 && !other.IsZero() {
		return fs[last].Time.Sub(other)
	}
	return 0
}

// Silence returns the longest time between a packet from this host and the
// next one to it, while this host goes on sending.
func Silence(fs []Frame) (longest time.Duration) {
	var since time.Time
	for i := range fs {
		switch f := &fs[i]; {
		case f.Out && since.IsZero():
			since = f.Time
		case !f.Out && !since.IsZero():
			longest = max(longest, f.Time.Sub(since))
			since = time.Time{}
		}
	}
	return longest
}
