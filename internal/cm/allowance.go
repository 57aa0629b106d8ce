package cm

// perMessage is how many messages an address gets for each one that came from it, until
// the peer has answered once. All messages have the same size. The number is QUIC's
// (RFC 9000, 8.1).
const perMessage = 3

// maxAllowance bounds what repeated REQs save up: a peer's REQ and 15 repetitions of it.
const maxAllowance = 16 * perMessage

// allowance bounds the messages to the sender of a REQ. Anybody can write another host's
// address into a REQ; the messages of the connection would then hit that host. A message
// that names our communication ID shows that the peer reads what we send, and ends the
// bound; so does data on the queue pair, whose number and PSN only the REP tells.
type allowance struct {
	limited bool
	left    uint8
}

// earn is called for each REQ that comes for a connection.
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
