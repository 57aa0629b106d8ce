package mad

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

// layout has the places of the fields.
func (r *REJ) layout(l layout) {
	l.ids(&r.LocalCommID, &r.RemoteCommID)
	part(l, 8, 0, 2, &r.Message)
	part(l, 8, 8, 7, &r.InfoLength)
	part(l, 8, 16, 16, &r.Reason)
	l.bytes(12, r.Info[:])
	l.bytes(84, r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *REJ) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrREJ, tid).
func (r *REJ) Put(m *MAD) { r.layout(m.writing()) }
