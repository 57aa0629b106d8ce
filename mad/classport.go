package mad

import "github.com/softhca/softhca/ib"

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

// layout has the places of the fields.
func (c *ClassPortInfo) layout(l layout) {
	u8(l, 0, &c.BaseVersion)
	u8(l, 1, &c.ClassVersion)
	u16(l, 2, &c.CapabilityMask)
	part(l, 4, 0, 27, &c.CapabilityMask2)
	part(l, 4, 27, 5, &c.RespTimeValue)
	c.Redirect.layout(l.from(8), false)
	c.Trap.layout(l.from(40), true)
}

// layout has the places of the fields.
func (p *ClassPort) layout(l layout, hopLimit bool) {
	l.bytes(0, p.GID[:])
	part(l, 16, 0, 8, &p.TrafficClass)
	part(l, 16, 8, 4, &p.SL)
	part(l, 16, 12, 20, &p.FlowLabel)
	u16(l, 20, &p.LID)
	u16(l, 22, &p.PKey)
	if hopLimit {
		part(l, 24, 0, 8, &p.HopLimit)
	}
	part(l, 24, 8, 24, &p.QPN)
	u32(l, 28, &p.QKey)
}

// Decode sets every field from the data of m, without reading its header.
func (c *ClassPortInfo) Decode(m *MAD) {
	*c = ClassPortInfo{}
	c.layout(m.reading())
}

// Put writes the data of m but not its header.
func (c *ClassPortInfo) Put(m *MAD) { c.layout(m.writing()) }
