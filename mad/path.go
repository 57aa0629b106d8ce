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

// layout has the fields in the order of their bits: of a REQ, or of a LAP, which differs in
// three bytes. The last byte ends with 3 bits that are not of the path.
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
func (p *Path) layout(l *layout, lap bool) {
	number(l, 16, &p.LocalLID)
	number(l, 16, &p.RemoteLID)
	l.bytes(p.LocalGID[:])
	l.bytes(p.RemoteGID[:])
	number(l, 20, &p.FlowLabel)
	if lap {
		l.reserved(4)
	} else {
		l.reserved(6)
		number(l, 6, &p.PacketRate)
	}
	number(l, 8, &p.TrafficClass)
	number(l, 8, &p.HopLimit)
	if lap {
		l.reserved(2)
		number(l, 6, &p.PacketRate)
	}
	number(l, 4, &p.SL)
	l.flag(&p.SubnetLocal)
	l.reserved(3)
	number(l, 5, &p.LocalAckTimeout)
}
