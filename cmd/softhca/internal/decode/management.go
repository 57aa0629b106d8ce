package decode

import "github.com/softhca/softhca/roce"

// Management returns what is told of the management datagram in a packet to QP1,
// and that as a line of text. Without one it returns nil.
func Management(p *roce.Packet) (*MAD, string) {
	m := madOf(p)
	if m == nil {
		return nil, ""
	}
	return m, m.text
}
