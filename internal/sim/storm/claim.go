package storm

import (
	"github.com/softhca/softhca/internal/cm"
)

// answers are the events by which the peer answers a passive side, which then owns the peer's
// queue pair.
var answers = map[cm.EventType]bool{cm.RTUReceived: true, cm.UserEstablished: true, cm.MRAReceived: true, cm.DREQReceived: true}

// claim records that the peer has answered a passive side for the first time. It returns the
// side that the peer has forgotten thereby, or nil: of two sides with one queue pair, the one
// with the earlier REQ or REP.
func (s *side) claim(on cm.EventType) (older *side) {
	if s.active || s.claimed || !answers[on] {
		return nil
	}
	for _, o := range s.host.sides {
		if o == s || !o.usesQP(s.conn.RemoteQPN(), s.peerAddr) {
			continue
		}
		if older = o; s.serial < o.serial {
			older = s
		}
		older.outdone = true
	}
	s.claimed = true
	return older
}

// arrived numbers the REQ or REP that names the peer's queue pair.
func (s *side) arrived() {
	w := s.host.w
	w.serials++
	s.serial = w.serials
}
