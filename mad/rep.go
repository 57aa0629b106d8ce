package mad

import "github.com/softhca/softhca/ib"

// REPPrivateData is the size of the private data of a REP in bytes.
const REPPrivateData = 196

// REP accepts a REQ: the passive side's answer, answered by RTU, REJ or MRA
// (IBA table 110). Local is its sender, remote its receiver.
//
//	byte     field
//	  0-  3  LocalCommID
//	  4-  7  RemoteCommID
//	  8- 11  LocalQKey
//	 12- 15  LocalQPN 24, VendorID bits 23 to 16
//	 16- 19  LocalEECN 24, VendorID bits 15 to 8
//	 20- 23  StartingPSN 24, VendorID bits 7 to 0
//	 24      ResponderResources
//	 25      InitiatorDepth
//	 26      TargetAckDelay 5, FailoverAccepted 2, EndToEndFlowControl 1
//	 27      RNRRetryCount 3, SRQ 1, reserved 4
//	 28- 35  LocalCAGUID
//	 36-231  PrivateData
type REP struct {
	LocalCommID         uint32 // the sender's handle of the connection; not 0
	RemoteCommID        uint32 // that of the REQ
	LocalQKey           ib.QKey
	LocalQPN            ib.QPN // 0 for XRC
	LocalEECN           uint32 // 24 bits: RD; for XRC the QPN
	StartingPSN         ib.PSN // first PSN that the receiver's queue pair sends
	VendorID            uint32 // 24 bits: vendor whose options Header.AttrMod holds; 0 for none
	ResponderResources  uint8  // incoming READs and atomics that the sender can serve at once
	InitiatorDepth      uint8  // READs and atomics that the sender will have outstanding
	TargetAckDelay      uint8  // 5 bits: Timeout code within which the sender's adapter acknowledges
	FailoverAccepted    Failover
	EndToEndFlowControl bool
	RNRRetryCount       uint8 // 3 bits: of the receiver's queue pair
	SRQ                 bool  // the sender's queue pair has a shared receive queue
	LocalCAGUID         uint64
	PrivateData         [REPPrivateData]byte
}

// layout has the places of the fields.
func (r *REP) layout(l layout) {
	vendor := [...]uint8{uint8(r.VendorID >> 16), uint8(r.VendorID >> 8), uint8(r.VendorID)}
	l.ids(&r.LocalCommID, &r.RemoteCommID)
	u32(l, 8, &r.LocalQKey)
	u24(l, 12, &r.LocalQPN)
	u8(l, 15, &vendor[0])
	u24(l, 16, &r.LocalEECN)
	u8(l, 19, &vendor[1])
	l.psn(20, &r.StartingPSN)
	u8(l, 23, &vendor[2])
	part(l, 24, 0, 8, &r.ResponderResources)
	part(l, 24, 8, 8, &r.InitiatorDepth)
	part(l, 24, 16, 5, &r.TargetAckDelay)
	part(l, 24, 21, 2, &r.FailoverAccepted)
	l.flag(24, 23, &r.EndToEndFlowControl)
	part(l, 24, 24, 3, &r.RNRRetryCount)
	l.flag(24, 27, &r.SRQ)
	u64(l, 28, &r.LocalCAGUID)
	l.bytes(36, r.PrivateData[:])
	if !l.writes {
		r.VendorID = uint32(vendor[0])<<16 | uint32(vendor[1])<<8 | uint32(vendor[2])
	}
}

// Decode sets every field from the data of m, without reading its header.
func (r *REP) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrREP, tid).
func (r *REP) Put(m *MAD) { r.layout(m.writing()) }

// Failover is what the passive side thinks of the alternate path of a REQ, 2
// bits.
type Failover uint8

// The answers.
const (
	FailoverAccepted Failover = iota
	FailoverUnsupported
	FailoverRejected
)

var failoverNames = [...]string{"accepted", "not supported", "rejected"}

// String returns the answer in words.
func (f Failover) String() string { return name(failoverNames[:], int(f), "Failover") }
