package mad

import "github.com/softhca/softhca/ib"

// DREQPrivateData is the size of the private data of a DREQ in bytes.
const DREQPrivateData = 220

// DREQ asks for the end of a connection, from either side; answered by DREP
// (IBA table 112).
//
//	byte     field
//	  0-  3  LocalCommID
//	  4-  7  RemoteCommID
//	  8- 11  RemoteQPN 24, reserved 8
//	 12-231  PrivateData
type DREQ struct {
	LocalCommID  uint32
	RemoteCommID uint32
	RemoteQPN    ib.QPN // the receiver's; for RD its EE context number
	PrivateData  [DREQPrivateData]byte
}

// layout has the places of the fields.
func (r *DREQ) layout(l layout) {
	l.ids(&r.LocalCommID, &r.RemoteCommID)
	u24(l, 8, &r.RemoteQPN)
	l.bytes(12, r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *DREQ) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrDREQ,
// tid).
func (r *DREQ) Put(m *MAD) { r.layout(m.writing()) }
