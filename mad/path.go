package mad

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// pathLen is the size of a path in a REQ and in a LAP.
const pathLen = 44

// Path is a way between two ports as a REQ or a LAP proposes it. Local is the
// sender of the message, remote its receiver.
type Path struct {
	LocalLID        uint16 // 0xffff for a path across routers, as on RoCE
	RemoteLID       uint16
	LocalGID        ib.GID
	RemoteGID       ib.GID
	FlowLabel       uint32 // 20 bits
	PacketRate      uint8  // 6 bits: static rate code; 0 is that of the port
	TrafficClass    uint8
	HopLimit        uint8
	SL              uint8 // 4 bits
	SubnetLocal     bool  // no router between the ports
	LocalAckTimeout uint8 // 5 bits: Timeout code for the receiver's queue pair
}

// decodeREQ reads the layout of a REQ.
//
//	byte    field
//	 0- 1   LocalLID
//	 2- 3   RemoteLID
//	 4-19   LocalGID
//	20-35   RemoteGID
//	36-39   FlowLabel 20, reserved 6, PacketRate 6
//	40      TrafficClass
//	41      HopLimit
//	42      SL 4, SubnetLocal 1, reserved 3
//	43      LocalAckTimeout 5, not of the path 3
func (p *Path) decodeREQ(b *[pathLen]byte) {
	p.decodeEnds(b)
	p.PacketRate = b[39] & mask6
	p.TrafficClass = b[40]
	p.HopLimit = b[41]
}

func (p *Path) putREQ(b *[pathLen]byte) {
	p.putEnds(b)
	b[39] = p.PacketRate & mask6
	b[40] = p.TrafficClass
	b[41] = p.HopLimit
}

// decodeLAP reads the layout of a LAP, which differs in three bytes.
//
//	byte    field
//	36-38   FlowLabel 20, reserved 4
//	39      TrafficClass
//	40      HopLimit
//	41      reserved 2, PacketRate 6
func (p *Path) decodeLAP(b *[pathLen]byte) {
	p.decodeEnds(b)
	p.TrafficClass = b[39]
	p.HopLimit = b[40]
	p.PacketRate = b[41] & mask6
}

func (p *Path) putLAP(b *[pathLen]byte) {
	p.putEnds(b)
	b[39] = p.TrafficClass
	b[40] = p.HopLimit
	b[41] = p.PacketRate & mask6
}

// decodeEnds reads what both layouts have in the same place.
func (p *Path) decodeEnds(b *[pathLen]byte) {
	p.LocalLID = binary.BigEndian.Uint16(b[0:])
	p.RemoteLID = binary.BigEndian.Uint16(b[2:])
	p.LocalGID = ib.GID(b[4:20])
	p.RemoteGID = ib.GID(b[20:36])
	p.FlowLabel = binary.BigEndian.Uint32(b[36:]) >> 12
	p.SL = b[42] >> 4
	p.SubnetLocal = b[42]>>3&1 != 0
	p.LocalAckTimeout = b[43] >> 3
}

func (p *Path) putEnds(b *[pathLen]byte) {
	binary.BigEndian.PutUint16(b[0:], p.LocalLID)
	binary.BigEndian.PutUint16(b[2:], p.RemoteLID)
	copy(b[4:20], p.LocalGID[:])
	copy(b[20:36], p.RemoteGID[:])
	binary.BigEndian.PutUint32(b[36:], p.FlowLabel&flowLabelMask<<12)
	b[42] = p.SL<<4 | bit(p.SubnetLocal)<<3
	b[43] = p.LocalAckTimeout << 3
}
