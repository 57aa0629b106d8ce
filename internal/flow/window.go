package flow

import (
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// window is the congestion control of one queue pair, a Controller: how many bytes its own path
// may have in flight. A single loss does not shrink it; two things do: more losses in a
// round than chance explains, and queueing delay above half of the round trip.
// Losses of several queue pairs at once are handled by their peer (peer.go).
type window struct {
	loss lossLimit
	rate int // window that keeps the peer busy with a minimal queue

	delivered   int // total bytes acknowledged
	mark        int // delivered at the start of the round
	aggregation ackAggregation
	best        [2]int // largest target of a round in this period and in the one before
	rounds      uint8  // rounds so far in this period
}

// ackAggregation measures ACK aggregation: the bytes acknowledged at one instant,
// because the peer, or this program, had no processor before.
type ackAggregation struct {
	at    clock.Instant
	bytes int
	most  int // maximum in this round
}

// rateRounds is the number of rounds of a period. A round with a high target counts
// for at least one more period: the peer was not late then, even if it is now.
const rateRounds = 8

// newWindow returns the window of a new queue pair: all that its peer allows.
func newWindow(most int) window {
	return window{loss: lossLimit{limit: most, most: most}, rate: most}
}

// Window returns how many bytes may be in flight.
func (w *window) Window() int { return min(w.loss.limit, w.rate) }

// Lost counts n lost packets.
func (w *window) Lost(sent, n uint32, limit int) int {
	w.loss.sent += sent
	w.loss.lose(n, limit)
	return w.Window()
}

// LostAll counts a loss after which everything is sent again.
func (w *window) LostAll(sent uint32, limit int) int {
	w.loss.sent += sent
	w.loss.loseAll(limit)
	return w.Window()
}

// Acknowledged counts acknowledged bytes, in packets of the given cost.
func (w *window) Acknowledged(now clock.Instant, sent uint32, bytes int, packet uint32, bounds bool) int {
	w.loss.sent += sent
	w.delivered += bytes
	if t := &w.aggregation; t.at == now {
		t.bytes += bytes
	} else {
		t.at, t.bytes = now, bytes
	}
	w.aggregation.most = max(w.aggregation.most, w.aggregation.bytes)
	w.loss.acked(bytes, bounds, packet)
	return w.Window()
}

// BeginRound starts a round: the packet sent now is timed.
func (w *window) BeginRound() { w.mark, w.aggregation.most = w.delivered, 0 }

// wakeTime is the time to wake the peer's thread. The minimum round trip was
// measured with a thread that was awake, so it lacks this time.
const wakeTime = 50 * time.Microsecond

// RoundTrip ends a round. The target is the number of bytes delivered
// in the minimum round trip at the rate of this round, plus one burst that may
// wait for the peer, plus the largest ACK aggregation, which shows how long the
// peer was not scheduled.
func (w *window) RoundTrip(d, least, all time.Duration, bounds bool) int {
	bytes := int64(w.delivered - w.mark)
	target := int(bytes*int64(least+wakeTime)/int64(all)) + burstBytes + w.aggregation.most
	if w.rounds++; w.rounds > rateRounds {
		w.best, w.rounds = [2]int{0, w.best[0]}, 1
	}
	w.best[0] = max(w.best[0], target)
	switch {
	case target >= w.rate:
		w.rate = min(target, w.loss.most)
	case bounds && d > 2*least:
		w.rate = min(max(w.best[0], w.best[1]), w.rate)
	}
	return w.Window()
}

// Marked makes the window by one eighth smaller, but not below one batch.
func (w *window) Marked(batch int) int {
	limit := w.Window()
	w.loss.limit = max(min(limit, batch), limit-limit/8)
	return w.Window()
}

// lossLimit is the number of bytes that may be in flight, derived from losses. It
// halves when losses exceed the random loss of a network, so that a buffer must
// have overflowed, and grows with acknowledgements.
type lossLimit struct {
	limit, most int    // bytes
	sent, lost  uint32 // packets of this round
	since       int    // bytes acknowledged since the last go-back-N
}

// A round ends after lossRound packets. A shorter round is judged as one of
// leastInRound packets.
const (
	lossRound    = 256
	leastInRound = 128
)

// One packet in lossShare may be lost. On a network with that random loss, a
// round loses up to lossChance standard deviations more, and only rarely above
// that.
const (
	lossShare  = 20
	lossChance = 2.5
)

// tooMany reports whether lost of sent packets exceed the allowed loss. The
// variance of random losses is about their mean.
func tooMany(lost, sent uint32) bool {
	more := lossShare*int64(lost) - int64(sent)
	return more > 0 && more*more > lossShare*lossChance*lossChance*int64(sent)
}

// acked grows the limit by one packet of the given cost per window of
// acknowledged bytes, if it bounds the bytes in flight.
func (l *lossLimit) acked(bytes int, bounds bool, packet uint32) {
	l.since += bytes
	if l.limit < l.most && bounds {
		l.limit = min(l.most, l.limit+max(1, bytes*int(packet)/l.limit))
	}
}

// lose counts n lost packets, when limit bytes may be in flight. It reports
// whether that ended a round.
func (l *lossLimit) lose(n uint32, limit int) (ended bool) {
	l.lost += n
	much := tooMany(l.lost, max(l.sent, leastInRound))
	if much {
		l.shrink(limit)
	}
	if ended = much || l.sent >= lossRound; ended {
		l.sent, l.lost = 0, 0
	}
	return ended
}

// loseAll counts a loss after which everything is retransmitted. The number of
// lost packets is unknown; the second such loss within a window shrinks the
// limit.
func (l *lossLimit) loseAll(limit int) {
	if l.since < limit {
		l.shrink(limit)
	}
	l.since = 0
}

// shrink halves the limit.
func (l *lossLimit) shrink(limit int) { l.limit = max(minWindow, limit/2) }
