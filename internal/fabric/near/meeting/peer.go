package meeting

import (
	"errors"

	"github.com/softhca/softhca/internal/fabric/near/ring"
)

// MaxPeers is the maximum number of peers of a process.
const MaxPeers = 64

// ErrGone is returned if a peer has ended, or has left the meeting.
var ErrGone = errors.New("meeting: the peer has ended")

// Peer is a process that was met, with both rings. One thread at a time may use each ring.
type Peer struct {
	Identity Identity
	Out      *ring.Producer // packets to the peer
	In       *ring.Consumer // packets from the peer

	own    *ring.Memory
	view   *ring.View
	fd     int // the socket of wake-ups
	end    int // of the peer's process; -1 if the kernel gives none
	closed bool
}

// FD returns the descriptor to wait for: it is readable after a wake-up, and when the peer has
// ended.
func (p *Peer) FD() int { return p.fd }

// Process returns a descriptor that is readable when the process of the peer has ended, also if a
// child of it keeps the socket of wake-ups open; -1 if the kernel gives none.
func (p *Peer) Process() int { return p.end }
