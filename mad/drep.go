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

// Decode sets every field from the data of m, whatever the header of m says.
// It has the layout of an RTU.
func (r *DREP) Decode(m *MAD) { (*RTU)(r).Decode(m) }

// Put writes the data of m and leaves its header alone;
// CMHeader(AttrDREP, tid) is the one that fits.
func (r *DREP) Put(m *MAD) { (*RTU)(r).Put(m) }
