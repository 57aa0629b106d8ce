package mad

import "github.com/softhca/softhca/ib"

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

// layout has the places of the fields: in a REQ, or in a LAP, which differs in three bytes.
// The last byte ends with 3 bits that are not of the path.
//
//	byte    field
//	 0- 1   LocalLID
//	 2- 3   RemoteLID
//	 4-19   LocalGID
//	20-35   RemoteGID
//	36-39   FlowLabel 20, reserved 6, PacketRate 6; LAP: FlowLabel 20, reserved 4, TrafficClass 8
//	40      TrafficClass; LAP: HopLimit
//	41      HopLimit; LAP: reserved 2, PacketRate 6
//	42      SL 4, SubnetLocal 1, reserved 3
//	43      LocalAckTimeout 5
func (p *Path) layout(l layout, lap bool) {
	u16(l, 0, &p.LocalLID)
	u16(l, 2, &p.RemoteLID)
	l.bytes(4, p.LocalGID[:])
	l.bytes(20, p.RemoteGID[:])
	part(l, 36, 0, 20, &p.FlowLabel)
	if lap {
		part(l, 36, 24, 8, &p.TrafficClass)
		part(l, 40, 0, 8, &p.HopLimit)
		part(l, 40, 10, 6, &p.PacketRate)
	} else {
		part(l, 36, 26, 6, &p.PacketRate)
		part(l, 40, 0, 8, &p.TrafficClass)
		part(l, 40, 8, 8, &p.HopLimit)
	}
	part(l, 40, 16, 4, &p.SL)
	l.flag(40, 20, &p.SubnetLocal)
	part(l, 40, 24, 5, &p.LocalAckTimeout)
}
