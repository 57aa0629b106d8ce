package mad

import (
	"github.com/softhca/softhca/ib"
)

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

// Decode sets every field from the data of m, without reading its header.
func (r *DREQ) Decode(m *MAD) {
	d := m.Data()
	r.LocalCommID, r.RemoteCommID = m.ids()
	qpn, _ := word24(d[8:])
	r.RemoteQPN = ib.QPN(qpn)
	r.PrivateData = [DREQPrivateData]byte(d[12:])
}

// Put writes the data of m but not its header, which is CMHeader(AttrDREQ,
// tid).
func (r *DREQ) Put(m *MAD) {
	d := m.putIDs(r.LocalCommID, r.RemoteCommID)
	putWord24(d[8:], uint32(r.RemoteQPN), 0)
	copy(d[12:], r.PrivateData[:])
}
