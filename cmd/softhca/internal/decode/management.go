package decode

import "github.com/softhca/softhca/roce"

// Management returns the management datagram in a packet to QP1, and its line of text.
// If there is none, it returns nil.
func Management(p *roce.Packet) (*MAD, string) {
	m := madOf(p)
	if m == nil {
		return nil, ""
	}
	return m, m.text
}
