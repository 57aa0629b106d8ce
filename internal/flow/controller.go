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
// A round is the time from a packet whose round trip is measured to the end of its answer. limit is
// the number of bytes that may be in flight now, which the peer may have made smaller than the
// window. bounds says that the window has held packets back in this round. sent is the number of
// packets that were sent since the last call with that argument. The methods return how many
// bytes may be in flight from now on.
type Controller interface {
	// Window changes nothing.
	Window() int
	// Acknowledged counts acknowledged bytes, in packets of the given cost.
	Acknowledged(now clock.Instant, sent uint32, bytes int, packet uint32, bounds bool) int
	// Lost counts n lost packets.
	Lost(sent, n uint32, limit int) int
	// LostAll counts a loss of unknown size, after which everything is sent again.
	LostAll(sent uint32, limit int) int
	// Marked counts a sign of congestion without loss: a mark of a switch, or a queue that
	// shows in another way. batch is the size of the sender's bursts in bytes.
	Marked(batch int) int
	// BeginRound starts a round.
	BeginRound()
	// RoundTrip ends a round whose duration is all. The answer to its packet began after d, and was
	// complete after all, which for a READ is longer; least is the minimum of d so far.
	RoundTrip(d, least, all time.Duration, bounds bool) int
}
