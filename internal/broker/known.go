package broker

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/gsi"
)

// Connection is a connection that a process established while it was alone, unseen by any
// broker.
type Connection struct {
	LocalID  uint32 // 0 if the peer does not know it yet
	RemoteID uint32
	QPN      ib.QPN // the peer's; its EE context for RD
	Peer     gsi.Address
}

// introduce adds a connection that a member established before it was one.
func (r *router) introduce(slot uint8, k *Connection) {
	c := &connection{
		of: r.members[slot], key: remoteKey{k.RemoteID, k.Peer.Remote}, localID: k.LocalID, qpn: k.QPN, peer: k.Peer,
	}
	if r.remote[c.key] == nil && r.local[c.localID] == nil {
		r.learn(c)
	}
}
