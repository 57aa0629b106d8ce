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

// layout has the places of the fields.
func (r *RTU) layout(l layout) {
	l.ids(&r.LocalCommID, &r.RemoteCommID)
	l.bytes(8, r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *RTU) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrRTU, tid).
func (r *RTU) Put(m *MAD) { r.layout(m.writing()) }
