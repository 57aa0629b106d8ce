package mad

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// classPortLen is the size of the address in a ClassPortInfo.
const classPortLen = 32

// ClassPortInfo says what the agent of a class can do and where to reach it:
// the attribute AttrClassPortInfo (IBA 13.4.8.1). It is at the beginning of the
// data, as in ClassCM; classes with their own header, such as ClassSA, have it
// elsewhere.
//
//	byte     field
//	  0      BaseVersion
//	  1      ClassVersion
//	  2-  3  CapabilityMask
//	  4-  7  CapabilityMask2 27, RespTimeValue 5
//	  8- 39  Redirect
//	 40- 71  Trap
type ClassPortInfo struct {
	BaseVersion     uint8
	ClassVersion    uint8
	CapabilityMask  uint16
	CapabilityMask2 uint32 // 27 bits
	RespTimeValue   uint8  // 5 bits: Timeout code within which the agent answers
	Redirect        ClassPort
	Trap            ClassPort
}

// ClassPort is an address in a ClassPortInfo: where requests are to go
// instead, or where traps go. It is all zero for none.
//
//	byte    field
//	 0-15   GID
//	16-19   TrafficClass 8, SL 4, FlowLabel 20
//	20-21   LID
//	22-23   PKey
//	24-27   HopLimit 8, QPN 24
//	28-31   QKey
type ClassPort struct {
	GID          ib.GID
	TrafficClass uint8
	SL           uint8  // 4 bits
	FlowLabel    uint32 // 20 bits
	LID          uint16
	PKey         ib.PKey
	HopLimit     uint8 // of Trap; reserved in Redirect
	QPN          ib.QPN
	QKey         ib.QKey
}

// Decode sets every field from the data of m, without reading its header.
func (c *ClassPortInfo) Decode(m *MAD) {
	d := m.Data()
	c.BaseVersion = d[0]
	c.ClassVersion = d[1]
	c.CapabilityMask = binary.BigEndian.Uint16(d[2:])
	v := binary.BigEndian.Uint32(d[4:])
	c.CapabilityMask2, c.RespTimeValue = v>>5, uint8(v&mask5)
	c.Redirect.decode((*[classPortLen]byte)(d[8:]))
	c.Redirect.HopLimit = 0
	c.Trap.decode((*[classPortLen]byte)(d[40:]))
}

// Put writes the data of m but not its header.
func (c *ClassPortInfo) Put(m *MAD) {
	d := m.Data()
	clear(d[:])
	d[0] = c.BaseVersion
	d[1] = c.ClassVersion
	binary.BigEndian.PutUint16(d[2:], c.CapabilityMask)
	binary.BigEndian.PutUint32(d[4:], c.CapabilityMask2<<5|uint32(c.RespTimeValue&mask5))
	c.Redirect.put((*[classPortLen]byte)(d[8:]))
	d[8+24] = 0
	c.Trap.put((*[classPortLen]byte)(d[40:]))
}

func (p *ClassPort) decode(b *[classPortLen]byte) {
	p.GID = ib.GID(b[0:16])
	p.TrafficClass = b[16]
	v := binary.BigEndian.Uint32(b[16:])
	p.SL, p.FlowLabel = uint8(v>>20&mask4), v&flowLabelMask
	p.LID = binary.BigEndian.Uint16(b[20:])
	p.PKey = ib.PKey(binary.BigEndian.Uint16(b[22:]))
	v = binary.BigEndian.Uint32(b[24:])
	p.HopLimit, p.QPN = uint8(v>>24), ib.QPN(v)&ib.QPNMask
	p.QKey = ib.QKey(binary.BigEndian.Uint32(b[28:]))
}

func (p *ClassPort) put(b *[classPortLen]byte) {
	copy(b[0:16], p.GID[:])
	binary.BigEndian.PutUint32(b[16:],
		uint32(p.TrafficClass)<<24|uint32(p.SL&mask4)<<20|p.FlowLabel&flowLabelMask)
	binary.BigEndian.PutUint16(b[20:], p.LID)
	binary.BigEndian.PutUint16(b[22:], uint16(p.PKey))
	binary.BigEndian.PutUint32(b[24:], uint32(p.HopLimit)<<24|uint32(p.QPN&ib.QPNMask))
	binary.BigEndian.PutUint32(b[28:], uint32(p.QKey))
}
