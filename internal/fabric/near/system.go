package near

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/fabric/near/ring"
)

// System is what a Port needs in addition to the port that it wraps: a clock, meetings, and the
// wake-ups of peers. Its calls do not block, except Close.
type System interface {
	// Now returns the time.
	Now() time.Time
	// Invite begins to meet the process at a place, for a local address. If they meet, the system
	// calls Port.Met.
	Invite(local netip.Addr, k meeting.Key)
	// Watch makes a wake-up by the peer end the Wait of the wrapped port, and calls Port.Ended with
	// the number when the peer has ended.
	Watch(b Bell, id int32) error
	// Unwatch ends Watch for a peer that has ended.
	Unwatch(b Bell)
	// Rung returns the numbers of peers whose wake-ups wait. The slice is valid until the next call.
	Rung() []int32
	// Close ends all calls of Met and Ended, and waits for those in progress.
	Close() error
}

// Link is what a process that was met shares with this one.
type Link struct {
	Identity meeting.Identity
	Out      *ring.Producer // packets to the process
	In       *ring.Consumer // packets from it
	Bell
}

// Bell wakes the process at the other end of a Link.
type Bell interface {
	// Wake wakes the process. It does not block.
	Wake() error
	// Woken takes the wake-ups from the process. It does not block.
	Woken() error
	// Close ends the link and tells the other process. Nothing may use the rings afterwards.
	Close() error
}
