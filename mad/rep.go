package mad

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

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

// Decode sets every field from the data of m, without reading its header.
func (r *REP) Decode(m *MAD) {
	d := m.Data()
	r.LocalCommID, r.RemoteCommID = m.ids()
	r.LocalQKey = ib.QKey(binary.BigEndian.Uint32(d[8:]))
	qpn, vendorHigh := word24(d[12:])
	eecn, vendorMid := word24(d[16:])
	psn, vendorLow := word24(d[20:])
	r.LocalQPN, r.LocalEECN, r.StartingPSN = ib.QPN(qpn), eecn, ib.NewPSN(psn)
	r.VendorID = uint32(vendorHigh)<<16 | uint32(vendorMid)<<8 | uint32(vendorLow)
	r.ResponderResources = d[24]
	r.InitiatorDepth = d[25]
	r.TargetAckDelay = d[26] >> 3
	r.FailoverAccepted = Failover(d[26] >> 1 & mask2)
	r.EndToEndFlowControl = d[26]&1 != 0
	r.RNRRetryCount = d[27] >> 5
	r.SRQ = d[27]>>4&1 != 0
	r.LocalCAGUID = binary.BigEndian.Uint64(d[28:])
	r.PrivateData = [REPPrivateData]byte(d[36:])
}

// Put writes the data of m but not its header, which is CMHeader(AttrREP, tid).
func (r *REP) Put(m *MAD) {
	d := m.putIDs(r.LocalCommID, r.RemoteCommID)
	binary.BigEndian.PutUint32(d[8:], uint32(r.LocalQKey))
	putWord24(d[12:], uint32(r.LocalQPN), uint8(r.VendorID>>16))
	putWord24(d[16:], r.LocalEECN, uint8(r.VendorID>>8))
	putWord24(d[20:], r.StartingPSN.Value(), uint8(r.VendorID))
	d[24] = r.ResponderResources
	d[25] = r.InitiatorDepth
	d[26] = r.TargetAckDelay<<3 | byte(r.FailoverAccepted)&mask2<<1 | bit(r.EndToEndFlowControl)
	d[27] = r.RNRRetryCount<<5 | bit(r.SRQ)<<4
	binary.BigEndian.PutUint64(d[28:], r.LocalCAGUID)
	copy(d[36:], r.PrivateData[:])
}

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
