package mad

import "github.com/softhca/softhca/ib"

// LAPPrivateData is the size of the private data of a LAP in bytes.
const LAPPrivateData = 168

// LAP asks the passive side of a connection to load an alternate path;
// answered by APR, REJ or MRA (IBA table 115). The partition and the MTU
// stay those of the REQ.
//
//	byte     field
//	  0-  3  LocalCommID
//	  4-  7  RemoteCommID
//	  8- 11  reserved
//	 12- 15  RemoteQPN 24, RemoteResponseTimeout 5, reserved 3
//	 16- 19  reserved
//	 20- 63  Alternate; reserved the last 3 bits
//	 64-231  PrivateData
type LAP struct {
	LocalCommID           uint32
	RemoteCommID          uint32
	RemoteQPN             ib.QPN // the receiver's; for RD its EE context number
	RemoteResponseTimeout uint8  // 5 bits: Timeout code within which the receiver must answer
	Alternate             Path
	PrivateData           [LAPPrivateData]byte
}

// layout has the places of the fields.
func (r *LAP) layout(l layout) {
	l.ids(&r.LocalCommID, &r.RemoteCommID)
	u24(l, 12, &r.RemoteQPN)
	part(l, 12, 24, 5, &r.RemoteResponseTimeout)
	r.Alternate.layout(l.from(20), true)
	l.bytes(64, r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *LAP) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrLAP, tid).
func (r *LAP) Put(m *MAD) { r.layout(m.writing()) }
