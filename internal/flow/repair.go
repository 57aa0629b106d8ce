package flow

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// A NAK or silence shows that a packet is missing. The specification's answer
// is go-back-N: send everything again from there. A selective-repeat peer, such
// as an adapter of this kind, buffers packets beyond a gap and needs only the
// missing ones. Peers do not announce their kind, so the sender tests it: it
// retransmits the missing packet and waits. If the answer acknowledges more
// than was retransmitted, the peer is selective-repeat. If not, the peer
// dropped the rest, and the sender goes back, one round trip later than
// without the test. The result applies to the next gap, and to the next
// connection to that address, until the peer shows otherwise.
//
// A probe ends silence: the oldest packet, sent again, requests an
// acknowledgement. It does not count as a retry: only the timer and retry count
// of the verbs end a connection. When that timer expires, the sender sends a
// probe too, so that a peer that was merely late gets nothing else twice.

// Sign is what shows that packets are missing, which decides what the answer to
// their repetition means.
type Sign uint8

// The signs.
const (
	Silence Sign = iota // the peer is silent
	Told                // the peer reports the oldest packet as missing
	Gap                 // an answer arrived, and earlier answers are missing
)

// Oldest describes the oldest packets in flight.
type Oldest struct {
	N     uint32 // how many are missing, as far as known; at least 1
	Data  bool   // their request is answered by data
	Bound bool   // answers beyond the missing ones have arrived
}

// repair is the retransmission of some packets, not of everything after them.
type repair struct {
	sign    Sign
	data    bool          // the retransmitted request is answered by data
	bound   bool          // buffered answers bound the missing part
	certain bool          // the first packet is known to be lost, or the answer to it
	stopped bool          // the answer acknowledged only the retransmission: more is missing, or on its way
	refused bool          // the peer was not ready for the first packet: only the retransmission can be acknowledged
	silent  bool          // the peer left a probe unanswered: nothing new is sent
	first   ib.PSN        // first retransmitted packet,
	until   ib.PSN        // and first one after them
	run     uint32        // number of retransmitted packets
	at      clock.Instant // time of the last retransmission
	part    bool          // the last request asked for a part of an answer
	parts   bool          // requests up to end asked for parts: their answers may end anywhere
	end     ib.PSN
}

// Kind returns what is known of the peer.
func (f *Recovery) Kind(now clock.Instant) Kind { return f.peer.KindAt(now) }

// learn remembers what the peer does, also for other senders to its
// address.
func (f *Recovery) learn(now clock.Instant, k Kind) {
	f.peer = f.peer.Learn(now, k)
	f.share.Remember(f.peer)
}

// Holding reports whether no new packets are sent: the peer is silent, or the
// repair of what it told is pending and its kind is unknown.
func (f *Recovery) Holding(now clock.Instant) bool {
	told := f.Waiting() && f.repair.sign == Told && f.Kind(now) == Unknown
	return (told || f.repair.silent) && f.Outstanding()
}

// Asks reports whether the packet at Next is the last retransmitted one, which
// requests an acknowledgement.
func (f *Recovery) Asks() bool { return f.Sending() && f.next.Next() == f.repair.until }

// possible reports whether selective retransmission is possible for this sign.
// After the peer told of a gap it must not be known to be go-back-N; gaps in the
// answers are on this side, whatever the peer is.
func (f *Recovery) possible(now clock.Instant, s Sign) bool {
	sent := f.next != f.una || f.Sending()
	return sent && f.policy.Selective && (s != Told || f.Kind(now) != GoBackN)
}

// begin makes the oldest n packets that are not acknowledged the next to be
// sent.
func (f *Recovery) begin(n uint32, s Sign, o Oldest) Move {
	p, move := &f.repair, Repeat|Anew
	if !f.Sending() {
		f.goOn, move = f.next, Repeat
	}
	p.certain = s != Silence || p.certain && f.stage != repairNone && p.first == f.una
	p.first = f.una
	if p.until = f.una.Add(n); p.until.Diff(f.goOn) > 0 {
		p.until = f.goOn
	}
	f.stage, p.sign, p.run = repairSending, s, p.until.Distance(f.una)
	p.data, p.bound, p.stopped, p.refused = o.Data, o.Data && o.Bound, false, false
	p.silent = p.silent && s == Silence
	f.cancelRound() // the gap holds the answer back
	f.next = f.una
	f.share.sender.Wake()
	return move
}

// Lost handles a report that the oldest packets are missing, or that one
// is and possibly more.
func (f *Recovery) Lost(now clock.Instant, s Sign, o Oldest) Move {
	f.rtt.Lossy()
	if !f.possible(now, s) {
		f.share.LostAll()
		return f.goBack()
	}
	return f.missing(now, s, o)
}

// missing repeats what is missing. If the packets right after a repair are missing too,
// the next repair is twice as long. If gaps open faster than they close, at one
// per round trip, a smaller window shortens the peer's queue and so the round
// trip.
func (f *Recovery) missing(now clock.Instant, s Sign, o Oldest) Move {
	p, n := &f.repair, o.N
	if f.stage == repairWaiting {
		past := f.una.Diff(p.until)
		if past > 0 {
			f.closed(now, o)
		} else if past == 0 && s == Told && p.sign == Told {
			n = 2 * p.run
		}
		if past >= 0 && f.rtt.Queued() {
			f.share.Marked(ackRun * int(f.packet))
		}
	}
	move := f.begin(n, s, o)
	f.share.Lost(p.run)
	if s == Told && f.Kind(now) == SelectiveRepeat {
		f.startEstimate(now)
	}
	return move
}

// repaired continues with new packets if the last packet of a repair was sent or
// acknowledged.
func (f *Recovery) repaired(now clock.Instant) Move {
	if !f.Sending() {
		return 0
	}
	return f.jump(now)
}

// jump ends the sending of a repair if all of it is sent or acknowledged.
func (f *Recovery) jump(now clock.Instant) Move {
	p := &f.repair
	if f.next.Diff(p.until) < 0 {
		return 0
	}
	f.stage, p.at = repairWaiting, now
	if p.until.Diff(f.una) <= 0 {
		f.stage = repairNone // acknowledgement has overtaken it
	}
	p.until = f.next // a READ uses several PSNs
	f.next = f.goOn
	move := Jump | f.skip()
	f.StartProbe(now)
	return move
}

// Judge evaluates the answer just received, while Waiting. The cause says why packets are
// repeated.
func (f *Recovery) Judge(now clock.Instant, o Oldest) (m Move, cause string) {
	p := &f.repair
	switch past := f.una.Diff(p.until); {
	case past > 0:
		if f.closed(now, o) && f.una.Diff(f.goOn) < 0 {
			m = f.begin(1, Silence, o)
			f.share.Lost(1)
			return m, "more is missing"
		}
	case f.una.Diff(f.goOn) >= 0:
		f.stage = repairNone // everything sent is acknowledged, so the answer shows nothing
	case past < 0, p.stopped, !p.refused && f.rtt.TooSoon(now.Sub(p.at)):
		// The answer precedes the repair, or waits for settled.
	case p.sign == Gap, p.sign == Told && p.data && f.Kind(now) == SelectiveRepeat:
		f.stage = repairNone
	case p.data, p.sign == Silence && f.Kind(now) != SelectiveRepeat:
		// More answers may be on their way: those with data come one by one, and
		// so do those of a peer that was late.
		p.stopped = true
		*f.timers.Probe = now.Add(f.rtt.Settled())
	default:
		return f.wentNoFurther(now, o)
	}
	return 0, ""
}

// closed ends a repair when the peer has acknowledged more than was
// retransmitted. It reports whether that was the answer to the repair: then all
// earlier packets have arrived or are lost.
func (f *Recovery) closed(now clock.Instant, o Oldest) (answered bool) {
	p := &f.repair
	age, late := now.Sub(p.at), p.stopped && !p.data
	f.stage, p.stopped = repairNone, false
	f.stopEstimate()
	switch p.sign {
	case Told:
		f.learn(now, SelectiveRepeat)
		if answered = !f.rtt.TooSoon(age); answered && !p.data {
			f.rtt.Sample(age)
		}
	case Silence:
		nothing := f.una.Diff(f.goOn) >= 0 && f.goOn != p.until // was missing: the peer had everything
		early := (nothing || f.rtt.TooSoon(age)) && f.rtt.Calm()
		if late = !p.certain && (late || early); late {
			f.rtt.Spurious()
		}
		answered = !late && (age >= f.rtt.Smoothed() || f.Kind(now) == SelectiveRepeat && !f.rtt.TooSoon(age))
	case Gap:
	}
	// Retransmitted responses can overtake the original ones.
	if answered = answered && !p.data && !o.Data; answered {
		f.Landed(f.goOn)
	}
	return answered
}

// wentNoFurther handles an answer that acknowledges only what was
// retransmitted. If the peer told of the gap, it has dropped the rest; otherwise the rest
// was lost.
func (f *Recovery) wentNoFurther(now clock.Instant, o Oldest) (m Move, cause string) {
	p := &f.repair
	switch {
	case p.sign == Told && p.run == 1: // with more packets, the answer may be to an earlier copy
		f.learn(now, GoBackN)
		f.share.Lost(1)
		return f.goBack(), "repair went no further"
	case f.Kind(now) == SelectiveRepeat:
		m = f.begin(2*p.run, Silence, o)
		f.share.Lost(p.run)
	default:
		f.share.Lost(f.goOn.Distance(f.una))
		m = f.goBack()
	}
	return m, "probe went no further"
}

// Refused repeats the packet for which the peer was not ready, after its wait. A
// selective-repeat peer holds the packets after it.
func (f *Recovery) Refused(now clock.Instant, o Oldest) Move {
	if !f.possible(now, Told) || f.Kind(now) != SelectiveRepeat {
		return f.goBack()
	}
	move := f.begin(1, Told, o)
	f.repair.refused = true
	f.Landed(f.goOn)
	f.stopEstimate()
	return move
}

// StartProbe arms the probe timeout.
func (f *Recovery) StartProbe(now clock.Instant) {
	if f.policy.Selective && f.policy.Probes {
		wait := f.rtt.Timeout(f.Waiting() && f.repair.certain)
		*f.timers.Probe = now.Add(max(wait, f.policy.ProbeAfter))
	}
}

// Probe fires Timers.Probe: it repeats the oldest packet, to learn whether it has arrived. If this
// side is still retransmitting, has not sent the awaited packet yet, or must not send it (held), the
// peer is not late, and no probe is needed.
func (f *Recovery) Probe(now clock.Instant, o Oldest, held bool) (m Move, cause string) {
	f.StartProbe(now)
	if f.Sending() || f.next == f.una || held {
		f.share.sender.Wake()
		return 0, ""
	}
	if f.repair.stopped {
		return f.wentNoFurther(now, o)
	}
	f.unanswered(now)
	return f.begin(o.N, Silence, o) | Ask, "probe"
}

// unanswered notes that the peer has not answered in time. If the peer has
// answered another sender since, has missed two probes in a row, or has never
// answered, its buffer holds no packets of this one any more, and other
// senders may use the window.
func (f *Recovery) unanswered(now clock.Instant) {
	p := &f.repair
	if f.Waiting() && p.part && f.una.Diff(p.until) < 0 {
		f.whole = true // a request for a part was not answered
	}
	if f.rtt.Doubtful() || f.share.HeardWithin(now, f.rtt.Timeout(false)/2) {
		p.silent = true
		f.Landed(f.sentUpTo())
	}
	f.rtt.Unanswered()
}

// Timeout repeats the oldest packet, or everything, when the retry timer of the verbs expires.
func (f *Recovery) Timeout(now clock.Instant, o Oldest) Move {
	if !f.possible(now, Silence) {
		f.share.LostAll()
		return f.goBack()
	}
	f.unanswered(now)
	return f.begin(o.N, Silence, o)
}

// Again repeats the oldest packet because its answer is doubtful.
func (f *Recovery) Again(now clock.Instant, o Oldest) Move {
	switch {
	case f.next == f.una, f.Sending(): // it is sent anyway
		return 0
	case f.possible(now, Silence):
		return f.begin(o.N, Silence, o)
	default:
		return f.goBack()
	}
}

// Cut returns how many of the n packets of an answer that remain to ask for again: only the
// missing ones, if the peer is known to accept that and has received the original request, which an
// answer to it shows. Otherwise it is n. The request at Next asks for an answer that began at
// first; last is the end of all answers to the same work request.
func (f *Recovery) Cut(now clock.Instant, n uint32, first, last ib.PSN) uint32 {
	p := &f.repair
	m := p.until.Distance(f.next)
	begun := f.next != first || p.bound && m < n
	if p.part = m < n && begun && !f.whole && f.Kind(now) == SelectiveRepeat; !p.part {
		return n
	}
	if !p.parts || last.Diff(p.end) > 0 {
		p.parts, p.end = true, last
	}
	return m
}

// Parts reports whether an answer may end anywhere: a request asked for a part of it.
func (f *Recovery) Parts() bool { return f.repair.parts }

// Answered notes that all answers up to psn have arrived.
func (f *Recovery) Answered(psn ib.PSN) {
	if f.repair.parts && psn.Diff(f.repair.end) >= 0 {
		f.repair.parts = false
	}
}
