package cm

// perMessage is the number of messages that may be sent to an address for each one
// received from it, until the peer has answered once. All messages have the same size.
// The number is QUIC's (RFC 9000, 8.1).
const perMessage = 3

// maxAllowance bounds the allowance that repeated REQs accumulate: a peer's REQ and 15
// repetitions of it.
const maxAllowance = 16 * perMessage

// allowance bounds the messages to the sender of a REQ. A REQ can carry the forged
// address of another host, which the connection's messages would then hit. A message
// that names our communication ID shows that the peer reads what we send, and ends the
// bound; so does data on the queue pair, whose number and PSN only the REP contains.
type allowance struct {
	limited bool
	left    uint8
}

// earn is called for each REQ received for a connection.
func (a *allowance) earn() { a.left = min(a.left+perMessage, maxAllowance) }

// spend takes one message from the allowance, and reports whether there was one.
func (a *allowance) spend() bool {
	switch {
	case !a.limited:
		return true
	case a.left == 0:
		return false
	}
	a.left--
	return true
}
