package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// resend follows a peer that sends packets again, so that an ACK does not
// complete a message whose last packet the peer has not sent again yet.
//
// After a NAK some requesters send everything again, also what the responder
// has kept and executes as soon as the missing packet comes. An ACK up to there is
// legal, but Linux rxe cannot use it: it advances the PSN that
// it expects an ACK for past the end of the message, and does not complete the
// message, as its last packet is still to be sent. When that packet, or the ACK
// of it, is lost, its timer finds nothing unacknowledged and rxe waits forever. So such
// an ACK stops one packet short, and the last packet is acknowledged when it
// comes again. A requester that sends again only what is missing asks for
// the ACK and gets all of it.
type resend struct {
	at        ib.PSN // the latest packet that the peer sent, as far as is known
	again     bool   // a NAK has left, and the peer may not have come to the last packet executed
	selective bool   // the peer sends again only what is missing
	long      bool   // the last packet executed ended a message of several packets
}

// selects reports whether p, sent again, shows that the peer sends only what is
// missing: a requester that goes back does not ask in the middle of a message.
func selects(p *Packet) bool { return p.BTH.AckReq && p.Info.Flags&roce.FlagEnd == 0 }

// closed notes that p closed the gap whose NAK has left, when all up to last was executed.
func (s *resend) closed(p *Packet, last ib.PSN) {
	s.at, s.again = last, true
	s.selective = s.selective || selects(p)
}

// executed notes that p came in its turn, and that all up to last was executed.
// After a NAK p may be late rather than sent again, unless it follows the packet before.
func (s *resend) executed(p *Packet, last ib.PSN) {
	if s.again && p.BTH.PSN != s.at.Next() {
		return
	}
	s.at, s.again = last, false
}

// duplicate notes that p came again when all up to last was executed. After a NAK,
// only a requester that goes back sends a duplicate without asking for an ACK.
func (s *resend) duplicate(p *Packet, last ib.PSN) {
	if s.again {
		s.selective = selects(p) || s.selective && p.BTH.AckReq
	}
	s.at = p.BTH.PSN
	s.again = s.again && s.at != last
}

// limit returns the PSN to acknowledge instead of psn when all up to last was
// executed. asked reports whether a packet that came now asks for it.
func (s *resend) limit(psn, last ib.PSN, asked bool) ib.PSN {
	if psn.Diff(s.at) <= 0 || asked && (s.selective || !s.again) || psn == last && !s.long {
		return psn
	}
	return psn.Prev()
}
