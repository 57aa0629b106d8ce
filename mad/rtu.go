package mad

// RTUPrivateData is the size of the private data of an RTU in bytes.
const RTUPrivateData = 224

// RTU says that the active side is ready to use the connection: its answer to
// a REP (IBA table 111).
//
//	byte     field
//	  0-  3  LocalCommID
//	  4-  7  RemoteCommID
//	  8-231  PrivateData
type RTU struct {
	LocalCommID  uint32
	RemoteCommID uint32
	PrivateData  [RTUPrivateData]byte
}

// Decode sets every field from the data of m, whatever the header of m says.
func (r *RTU) Decode(m *MAD) {
	d := m.Data()
	r.LocalCommID, r.RemoteCommID = m.ids()
	r.PrivateData = [RTUPrivateData]byte(d[8:])
}

// Put writes the data of m and leaves its header alone; CMHeader(AttrRTU, tid)
// is the one that fits.
func (r *RTU) Put(m *MAD) {
	d := m.putIDs(r.LocalCommID, r.RemoteCommID)
	copy(d[8:], r.PrivateData[:])
}
