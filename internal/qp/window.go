package qp

import (
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// window is the congestion control of one queue pair: how much of it may be in
// flight, as its own path shows. It is told what is sent, acknowledged and lost,
// and how long a round trip was. Two things make it smaller, and neither is the
// loss of a packet: that more is lost in a round than chance takes, or that most of
// a round trip is spent in a queue. What several queue pairs lose together is
// answered by their peer (peer.go).
type window struct {
	loss lossLimit
	rate int // bytes that leave no more in a queue than it takes to keep the peer busy

	delivered int  // bytes acknowledged, in all
	mark      int  // the same, when the round began
	full      bool // more would have been sent in this round
	together  together
	best      [2]int // the most that a round asked for, of this period and the one before
	rounds    uint8  // of this period
}

// together is how many bytes were acknowledged at the same instant: by a peer, or
// to a program, that had no processor before.
type together struct {
	at    clock.Instant
	bytes int
	most  int // in this round
}

// rateRounds is how many rounds a period has. For so long at least a round counts
// in which more was delivered than in others: a peer that is late now was not then.
const rateRounds = 8

// newWindow returns the window of a queue pair of which nothing is known: all that
// its peer allows.
func newWindow(most int) window {
	return window{loss: lossLimit{limit: most, most: most}, rate: most}
}

// limit returns how many bytes may be in flight.
func (w *window) limit() int { return min(w.loss.limit, w.rate) }

// admits reports whether anything more may be in flight beside so many bytes. The
// last request may exceed the window, which one for a long READ would never fit.
func (w *window) admits(inFlight int) bool { return inFlight < w.limit() }

// acked is told that bytes in flight were acknowledged, in packets of the given
// cost.
func (w *window) acked(now clock.Instant, bytes int, packet uint32) {
	w.delivered += bytes
	if t := &w.together; t.at == now {
		t.bytes += bytes
	} else {
		t.at, t.bytes = now, bytes
	}
	w.together.most = max(w.together.most, w.together.bytes)
	w.loss.acked(bytes, w.full, packet)
}

// begin starts a round: the packet that goes now is timed.
func (w *window) begin() {
	w.mark, w.full, w.together.most = w.delivered, false, 0
}

// wakeTime is what it takes to wake the peer's thread: a round trip that was
// seen of a peer that was awake is shorter by as much.
const wakeTime = 50 * time.Microsecond

// end ends a round, which took so long. What was delivered in it says what the
// least round trip that was seen takes to deliver; beside that a burst may wait
// for the peer, and what comes at once, because the peer could not look before.
func (w *window) end(d, least time.Duration) {
	bytes := int64(w.delivered - w.mark)
	target := int(bytes*int64(least+wakeTime)/int64(d)) + burstBytes + w.together.most
	if w.rounds++; w.rounds > rateRounds {
		w.best, w.rounds = [2]int{0, w.best[0]}, 1
	}
	w.best[0] = max(w.best[0], target)
	switch {
	case target >= w.rate:
		w.rate = min(target, w.loss.most)
	case w.full && d > 2*least:
		w.rate = min(max(w.best[0], w.best[1]), w.rate)
	}
}

// crowded makes the window a little smaller, but not so small that no batch fits
// in.
func (w *window) crowded(batch int) {
	limit := w.limit()
	w.loss.limit = max(min(limit, batch), limit-limit/8)
}

// lossLimit is how many bytes may be in flight, as losses tell. It halves when so
// much is lost that a buffer must have been full: some loss is in the nature of a
// network. And it grows with what is acknowledged.
type lossLimit struct {
	limit, most int    // bytes
	sent, lost  uint32 // packets of this round
	since       int    // bytes acknowledged since sending last went back
}

// A round ends after so many packets, and is not judged as one of less.
const (
	lossRound    = 256
	leastInRound = 128
)

// lossShare is that of the packets which may be lost: one of so many. A network
// that loses as many by chance loses up to lossChance standard deviations more of
// the packets of a round, and now and then as many as that.
const (
	lossShare  = 20
	lossChance = 2.5
)

// tooMany reports whether more of so many packets were lost than may be. The number
// that chance loses has a variance like its mean.
func tooMany(lost, sent uint32) bool {
	more := lossShare*int64(lost) - int64(sent)
	return more > 0 && more*more > lossShare*lossChance*lossChance*int64(sent)
}

// acked grows by one packet of the given cost for each window, if it bounds what
// is in flight.
func (l *lossLimit) acked(bytes int, bounds bool, packet uint32) {
	l.since += bytes
	if l.limit < l.most && bounds {
		l.limit = min(l.most, l.limit+max(1, bytes*int(packet)/l.limit))
	}
}

// lose counts n packets that were lost, while no more than so many bytes may be in
// flight. It reports whether that ended a round.
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

// loseAll counts a loss after which everything is sent again. How much of that
// was lost does not show; the second within a window is too many.
func (l *lossLimit) loseAll(limit int) {
	if l.since < limit {
		l.shrink(limit)
	}
	l.since = 0
}

// shrink allows half of what was allowed.
func (l *lossLimit) shrink(limit int) { l.limit = max(minWindow, limit/2) }
