package storm

import "github.com/softhca/softhca/internal/cm"

// answers are the events by which the peer of a passive side answers it, and gives it its queue
// pair.
var answers = map[cm.EventType]bool{cm.RTUReceived: true, cm.UserEstablished: true, cm.MRAReceived: true, cm.DREQReceived: true}

// claim notes that the peer has answered a passive side, if it has not before. It returns the
// side that the peer has forgotten if so, nil if there is none: of two with one queue pair, the
// one whose REQ or REP came first.
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

// arrived numbers the REQ or REP that tells the side of its peer's queue pair.
func (s *side) arrived() {
	w := s.host.w
	w.serials++
	s.serial = w.serials
}
