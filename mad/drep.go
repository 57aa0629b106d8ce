package mad

// DREPPrivateData is the size of the private data of a DREP in bytes.
const DREPPrivateData = 224

// DREP agrees to the end of a connection: the answer to a DREQ (IBA table 113).
//
//	byte     field
//	  0-  3  LocalCommID
//	  4-  7  RemoteCommID
//	  8-231  PrivateData
type DREP struct {
	LocalCommID  uint32
	RemoteCommID uint32
	PrivateData  [DREPPrivateData]byte
}

// Decode sets every field from the data of m, without reading its header. It
// has the layout of an RTU.
func (r *DREP) Decode(m *MAD) { (*RTU)(r).Decode(m) }

// Put writes the data of m but not its header, which is CMHeader(AttrDREP,
// tid).
func (r *DREP) Put(m *MAD) { (*RTU)(r).Put(m) }
