package mad

// APRPrivateData is the size of the private data of an APR in bytes.
const APRPrivateData = 148

// APR answers a LAP (IBA table 116).
//
//	byte     field
//	  0-  3  LocalCommID
//	  4-  7  RemoteCommID
//	  8      InfoLength
//	  9      Status
//	 10- 11  reserved
//	 12- 83  Info
//	 84-231  PrivateData
type APR struct {
	LocalCommID  uint32
	RemoteCommID uint32
	InfoLength   uint8 // bytes of Info that count; a peer may say more than InfoSize
	Status       APRStatus
	Info         [InfoSize]byte // its content depends on the status
	PrivateData  [APRPrivateData]byte
}

// layout has the places of the fields.
func (r *APR) layout(l layout) {
	l.ids(&r.LocalCommID, &r.RemoteCommID)
	u8(l, 8, &r.InfoLength)
	u8(l, 9, &r.Status)
	l.bytes(12, r.Info[:])
	l.bytes(84, r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *APR) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrAPR, tid).
func (r *APR) Put(m *MAD) { r.layout(m.writing()) }

// APRStatus is the outcome that an APR reports.
type APRStatus uint8

// The outcomes.
const (
	APRAccepted APRStatus = iota
	APRInvalidCommID
	APRUnsupported
	APRRejected
	APRRedirect
	APRCurrentPath // the alternate path is the one in use
	APRInvalidQPN
	APRInvalidLID
	APRInvalidGID
	APRInvalidFlowLabel
	APRInvalidTrafficClass
	APRInvalidHopLimit
	APRInvalidPacketRate
	APRInvalidSL
)

var aprStatusNames = [...]string{
	"accepted", "invalid communication id", "unsupported", "rejected", "redirect", "current path",
	"invalid QPN", "invalid LID", "invalid GID", "invalid flow label", "invalid traffic class",
	"invalid hop limit", "invalid packet rate", "invalid SL",
}

// String returns the outcome in words.
func (s APRStatus) String() string { return name(aprStatusNames[:], int(s), "APRStatus") }
