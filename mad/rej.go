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

// layout has the fields in the order of their bits.
func (r *REJ) layout(l *layout) {
	l.ids(&r.LocalCommID, &r.RemoteCommID)
	number(l, 2, &r.Message)
	l.reserved(6)
	number(l, 7, &r.InfoLength)
	l.reserved(1)
	number(l, 16, &r.Reason)
	l.bytes(r.Info[:])
	l.bytes(r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *REJ) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrREJ, tid).
func (r *REJ) Put(m *MAD) { r.layout(m.writing()) }
