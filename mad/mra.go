package mad

// MRAPrivateData is the size of the private data of an MRA in bytes.
const MRAPrivateData = 222

// MRA tells the sender of a REQ, REP or LAP that it arrived and that the
// answer takes a while (IBA table 107).
//
//	byte     field
//	  0-  3  LocalCommID
//	  4-  7  RemoteCommID
//	  8      Message 2, reserved 6
//	  9      ServiceTimeout 5, reserved 3
//	 10-231  PrivateData
type MRA struct {
	LocalCommID    uint32
	RemoteCommID   uint32
	Message        Which
	ServiceTimeout uint8 // 5 bits: Timeout code of the wait that is asked for
	PrivateData    [MRAPrivateData]byte
}

// Decode sets every field from the data of m, whatever the header of m says.
func (r *MRA) Decode(m *MAD) {
	d := m.Data()
	r.LocalCommID, r.RemoteCommID = m.ids()
	r.Message = Which(d[8] >> 6)
	r.ServiceTimeout = d[9] >> 3
	r.PrivateData = [MRAPrivateData]byte(d[10:])
}

// Put writes the data of m and leaves its header alone; CMHeader(AttrMRA, tid)
// is the one that fits.
func (r *MRA) Put(m *MAD) {
	d := m.putIDs(r.LocalCommID, r.RemoteCommID)
	d[8] = byte(r.Message) << 6
	d[9] = r.ServiceTimeout << 3
	copy(d[10:], r.PrivateData[:])
}
