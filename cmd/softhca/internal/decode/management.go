package decode

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Management returns the management datagram in a packet to QP1, and its line of text.
// If there is none, it returns nil.
func Management(p *roce.Packet) (*MAD, string) {
	m := madOf(p)
	if m == nil {
		return nil, ""
	}
	return m, m.text
}

// IsManagement reports whether a packet has a management datagram for QP1.
func IsManagement(p *roce.Packet) bool {
	return p.BTH.Opcode == roce.UDSendOnly && p.BTH.DestQP == ib.QPNGSI && len(p.Payload) == mad.Size
}
