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

// layout has the places of the fields.
func (r *MRA) layout(l layout) {
	l.ids(&r.LocalCommID, &r.RemoteCommID)
	part(l, 8, 0, 2, &r.Message)
	part(l, 8, 8, 5, &r.ServiceTimeout)
	l.bytes(10, r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *MRA) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrMRA, tid).
func (r *MRA) Put(m *MAD) { r.layout(m.writing()) }

// Which says the message that an MRA or a REJ is about, 2 bits.
type Which uint8

// The messages. Other is a LAP, or none in particular: the sender gives up
// after a timeout or no longer knows the connection.
const (
	WhichREQ Which = iota
	WhichREP
	WhichOther
)

var whichNames = [...]string{"REQ", "REP", "other"}

// String returns the name of the message, such as "REQ".
func (w Which) String() string { return name(whichNames[:], int(w), "Which") }
