package mad

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// SIDRREPPrivateData is the size of the private data of a SIDR_REP in bytes.
const SIDRREPPrivateData = 136

// SIDRREP answers a SIDR_REQ (IBA table 120).
//
//	byte     field
//	  0-  3  RequestID
//	  4      Status
//	  5      InfoLength
//	  6-  7  VendorID bits 23 to 8
//	  8- 11  QPN 24, VendorID bits 7 to 0
//	 12- 19  ServiceID
//	 20- 23  QKey
//	 24- 95  Info
//	 96-231  PrivateData
type SIDRREP struct {
	RequestID   uint32 // that of the SIDR_REQ
	Status      SIDRStatus
	InfoLength  uint8  // bytes of Info that count; a peer may say more than InfoSize
	VendorID    uint32 // 24 bits: vendor whose options Header.AttrMod holds; 0 for none
	QPN         ib.QPN // with QKey: of the service, if the status is valid
	ServiceID   ServiceID
	QKey        ib.QKey
	Info        [InfoSize]byte // its content depends on the status
	PrivateData [SIDRREPPrivateData]byte
}

// Decode sets every field from the data of m, without reading its header.
func (r *SIDRREP) Decode(m *MAD) {
	d := m.Data()
	r.RequestID = binary.BigEndian.Uint32(d[0:])
	r.Status = SIDRStatus(d[4])
	r.InfoLength = d[5]
	qpn, vendorLow := word24(d[8:])
	r.QPN = ib.QPN(qpn)
	r.VendorID = uint32(binary.BigEndian.Uint16(d[6:]))<<8 | uint32(vendorLow)
	r.ServiceID = ServiceID(binary.BigEndian.Uint64(d[12:]))
	r.QKey = ib.QKey(binary.BigEndian.Uint32(d[20:]))
	r.Info = [InfoSize]byte(d[24:])
	r.PrivateData = [SIDRREPPrivateData]byte(d[96:])
}

// Put writes the data of m but not its header, which is CMHeader(AttrSIDRREP,
// tid).
func (r *SIDRREP) Put(m *MAD) {
	d := m.Data()
	clear(d[:])
	binary.BigEndian.PutUint32(d[0:], r.RequestID)
	d[4] = byte(r.Status)
	d[5] = r.InfoLength
	binary.BigEndian.PutUint16(d[6:], uint16(r.VendorID>>8))
	putWord24(d[8:], uint32(r.QPN), uint8(r.VendorID))
	binary.BigEndian.PutUint64(d[12:], uint64(r.ServiceID))
	binary.BigEndian.PutUint32(d[20:], uint32(r.QKey))
	copy(d[24:96], r.Info[:])
	copy(d[96:], r.PrivateData[:])
}

// SIDRStatus is the outcome that a SIDR_REP reports.
type SIDRStatus uint8

// The outcomes.
const (
	SIDRValid SIDRStatus = iota
	SIDRUnsupportedService
	SIDRRejected
	SIDRNoQP
	SIDRRedirect
	SIDRUnsupportedVersion
)

var sidrStatusNames = [...]string{
	"valid", "unsupported service id", "rejected", "no QP", "redirect", "unsupported version",
}

// String returns the outcome in words.
func (s SIDRStatus) String() string { return name(sidrStatusNames[:], int(s), "SIDRStatus") }
