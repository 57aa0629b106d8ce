package mad

import "github.com/softhca/softhca/ib"

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

// layout has the places of the fields.
func (r *SIDRREP) layout(l layout) {
	vendorHigh, vendorLow := uint16(r.VendorID>>8), uint8(r.VendorID)
	u32(l, 0, &r.RequestID)
	u8(l, 4, &r.Status)
	u8(l, 5, &r.InfoLength)
	u16(l, 6, &vendorHigh)
	u24(l, 8, &r.QPN)
	u8(l, 11, &vendorLow)
	u64(l, 12, &r.ServiceID)
	u32(l, 20, &r.QKey)
	l.bytes(24, r.Info[:])
	l.bytes(96, r.PrivateData[:])
	if !l.writes {
		r.VendorID = uint32(vendorHigh)<<8 | uint32(vendorLow)
	}
}

// Decode sets every field from the data of m, without reading its header.
func (r *SIDRREP) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrSIDRREP,
// tid).
func (r *SIDRREP) Put(m *MAD) { r.layout(m.writing()) }

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
