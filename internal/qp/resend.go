package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// resend follows a peer that sends packets again, so that a message of several packets
// completes, and is acknowledged, only when the peer has sent its last packet.
//
// After a NAK some requesters send everything again, also the packets that the responder
// keeps. If the responder executed the kept end of a message as soon as the missing packet
// came, its ACK would arrive before the peer sent that end again. Such an ACK is legal, but
// Linux rxe cannot use it: it advances the PSN that it expects an ACK for past the end of the
// message, but does not complete the message, as its last packet is still to be sent. When
// that packet, or the ACK of it, is lost, its timer finds nothing unacknowledged and rxe waits
// forever. An ACK that stopped before the end would not help a program that exits after its
// last completion: nothing would acknowledge the end when it comes again. So the end stays
// kept until it comes again. A requester that sends again only what is missing asks for the
// ACK, and that executes the end too.
type resend struct {
	at        ib.PSN // PSN of the latest packet that the peer is known to have sent
	again     bool   // a NAK was sent, and the peer may still have to retransmit packets that it sent before
	selective bool   // the peer retransmits only missing packets
	long      bool   // the last packet executed ended a message of several packets
}

// endsLong reports whether p ends, but does not start, a message.
func endsLong(p *Packet) bool { return p.Info.Flags&(roce.FlagStart|roce.FlagEnd) == roce.FlagEnd }

// selects reports whether p, sent again, shows that the peer sends only what is missing.
// A requester that goes back seldom asks in the middle of a message: Linux rxe does so when
// more than 64 packets have not asked. Its next packet then shows that it goes back.
func selects(p *Packet) bool { return p.BTH.AckReq && p.Info.Flags&roce.FlagEnd == 0 }

// closed notes that p closed the gap of a sent NAK; last is the last executed PSN.
func (s *resend) closed(p *Packet, last ib.PSN) {
	s.at, s.again = last, true
	s.selective = s.selective || selects(p)
}

// executed notes that p arrived in sequence; last is the last executed PSN. kept:
// packets beyond last are buffered, which a go-back-N peer sends again. After a NAK p
// may be late rather than sent again, unless it follows the packet before.
func (s *resend) executed(p *Packet, last ib.PSN, kept bool) {
	if s.again && p.BTH.PSN != s.at.Next() {
		return
	}
	s.at, s.again = last, s.again && kept
}

// duplicate notes that p, which uses n PSNs, is a duplicate; last is the last executed PSN;
// kept is as for executed. It reports whether p is a packet that the peer retransmits
// selectively after a NAK, and for which it requests an ACK. It considers only the latest
// packet and the next one: any other duplicate may be late or forged.
func (s *resend) duplicate(p *Packet, n uint32, last ib.PSN, kept bool) (asks bool) {
	again, follows := p.BTH.PSN == s.at, p.BTH.PSN == s.at.Next()
	switch {
	case !s.again:
	case (again || follows) && p.BTH.AckReq:
		s.selective = s.selective || selects(p)
		asks = s.selective
	case follows: // only a requester that goes back does not ask
		s.selective = false
	}
	if s.at = p.BTH.PSN.Add(n - 1); s.at.Diff(last) > 0 {
		s.at = last
	}
	s.again = s.again && (s.at != last || kept)
	return asks
}

// comesAgain reports whether p, which is at the expected PSN, is the end of a message that
// the peer will send again. asked reports whether the packet that came now asks for an ACK.
func (s *resend) comesAgain(p *Packet, asked bool) bool {
	return s.again && endsLong(p) && !(asked && s.selective)
}

// limit returns the PSN with which to acknowledge the duplicate p; last is the last executed
// PSN. It stops before the end of a message that the peer is about to send again.
func (s *resend) limit(p *Packet, last ib.PSN) ib.PSN {
	if p.BTH.AckReq || p.BTH.PSN == last || !s.long {
		return last
	}
	return last.Prev()
}
