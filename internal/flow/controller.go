package flow

import (
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// Controller is the congestion control of one sender. It derives from what happens to the
// sender's packets how many bytes may be in flight. The window is its one implementation. A
// control by rate, as DCQCN is, allows the bytes that its rate sends in a round trip, and sets a
// Pacer of that rate.
//
// A round is the time from a packet whose round trip is measured to its acknowledgement. limit is
// the number of bytes that may be in flight now, which the peer may have made smaller than the
// Window. bounds says that the Window has held packets back in this round.
type Controller interface {
	// Sent counts n packets, before the control is told what became of them.
	Sent(n uint32)
	// Acknowledged counts acknowledged bytes, in packets of the given cost.
	Acknowledged(now clock.Instant, bytes int, packet uint32, bounds bool)
	// Lost counts n lost packets.
	Lost(n uint32, limit int)
	// LostAll counts a loss of unknown size, after which everything is sent again.
	LostAll(limit int)
	// Marked counts a sign of congestion without loss: a mark of a switch, or a queue that
	// shows in another way. The sender's packets come in batches of so many bytes.
	Marked(batch int)
	// BeginRound starts a round.
	BeginRound()
	// RoundTrip ends a round that took d; the minimum so far is least.
	RoundTrip(d, least time.Duration, bounds bool)
	// Window returns how many bytes may be in flight. Each of the other methods may
	// change it.
	Window() int
}
