package mad

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
