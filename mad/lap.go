package mad

import (
	"github.com/softhca/softhca/ib"
)

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

// Decode sets every field from the data of m, without reading its header.
func (r *LAP) Decode(m *MAD) {
	d := m.Data()
	r.LocalCommID, r.RemoteCommID = m.ids()
	qpn, low := word24(d[12:])
	r.RemoteQPN, r.RemoteResponseTimeout = ib.QPN(qpn), low>>3
	r.Alternate.decodeLAP((*[pathLen]byte)(d[20:]))
	r.PrivateData = [LAPPrivateData]byte(d[64:])
}

// Put writes the data of m but not its header, which is CMHeader(AttrLAP, tid).
func (r *LAP) Put(m *MAD) {
	d := m.putIDs(r.LocalCommID, r.RemoteCommID)
	putWord24(d[12:], uint32(r.RemoteQPN), r.RemoteResponseTimeout<<3)
	r.Alternate.putLAP((*[pathLen]byte)(d[20:]))
	copy(d[64:], r.PrivateData[:])
}
