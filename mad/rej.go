package mad

import "encoding/binary"

const (
	// REJPrivateData is the size of the private data of a REJ in bytes.
	REJPrivateData = 148
	// InfoSize is the size of the additional information of a REJ, an APR and
	// a SIDR_REP in bytes.
	InfoSize = 72
)

// REJ refuses a REQ, a REP or a LAP, or gives a connection up (IBA table 108).
// LocalCommID is 0 if the sender has no connection for the REQ, RemoteCommID if
// the sender does not know it.
//
//	byte     field
//	  0-  3  LocalCommID
//	  4-  7  RemoteCommID
//	  8      Message 2, reserved 6
//	  9      InfoLength 7, reserved 1
//	 10- 11  Reason
//	 12- 83  Info
//	 84-231  PrivateData
type REJ struct {
	LocalCommID  uint32
	RemoteCommID uint32
	Message      Which
	InfoLength   uint8 // 7 bits: bytes of Info that count; a peer may say more than InfoSize
	Reason       RejReason
	Info         [InfoSize]byte // its content depends on the reason
	PrivateData  [REJPrivateData]byte
}

// Decode sets every field from the data of m, without reading its header.
func (r *REJ) Decode(m *MAD) {
	d := m.Data()
	r.LocalCommID, r.RemoteCommID = m.ids()
	r.Message = Which(d[8] >> 6)
	r.InfoLength = d[9] >> 1
	r.Reason = RejReason(binary.BigEndian.Uint16(d[10:]))
	r.Info = [InfoSize]byte(d[12:])
	r.PrivateData = [REJPrivateData]byte(d[84:])
}

// Put writes the data of m but not its header, which is CMHeader(AttrREJ, tid).
func (r *REJ) Put(m *MAD) {
	d := m.putIDs(r.LocalCommID, r.RemoteCommID)
	d[8] = byte(r.Message) << 6
	d[9] = r.InfoLength << 1
	binary.BigEndian.PutUint16(d[10:], uint16(r.Reason))
	copy(d[12:84], r.Info[:])
	copy(d[84:], r.PrivateData[:])
}
