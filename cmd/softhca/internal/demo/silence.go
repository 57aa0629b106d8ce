package demo

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

// silence finds the pauses in which A waits for a timer of the protocol. A busy host
// causes pauses too, and delays the records of lost packets: neither is drawn.
type silence struct {
	sent []*step       // A's packets so far
	last time.Duration // time of A's last packet
	due  time.Duration // earliest end of the pause that A waits for; 0 if A waits for no timer
}

// notable is the minimum duration of a pause that is drawn.
const notable = 200 * time.Millisecond

// before returns the duration of the pause to draw before the step, or 0 if there is none.
func (s *silence) before(r *step) (pause time.Duration) {
	if r.right {
		return 0
	}
	if r.Kind == verbs.TraceFault && s.own(r) {
		if s.due == 0 {
			s.due = s.last + notable
		}
		return 0
	}
	if s.due > 0 && r.At >= s.due && r.At-s.last >= notable {
		pause, s.due = r.At-s.last, 0
	}
	_, isPacket := opposite(r.Kind)
	if isPacket {
		s.last = r.At
	}
	switch {
	case r.Kind == verbs.TracePacketOut:
		s.sent = append(s.sent, r)
	case r.Kind == verbs.TraceFault:
		s.due = r.At + notable
	case r.Kind == verbs.TracePacketIn:
		if wait := rnrWait(r); wait >= notable {
			s.due = r.At + wait
		}
	}
	return pause
}

// own reports whether a rule lost a packet that A sent.
func (s *silence) own(fault *step) bool {
	for _, r := range s.sent {
		if samePacket(&r.TraceRecord, &fault.TraceRecord) {
			return true
		}
	}
	return false
}

// rnrWait returns how long an RNR NAK asks A to wait, and 0 for other packets.
func rnrWait(r *step) time.Duration {
	var pkt roce.Packet
	if pkt.ParseHeaders(r.Header[:]) != roce.FaultNone || pkt.Info.Headers&roce.HasAETH == 0 || !pkt.AETH.Syndrome.IsRNR() {
		return 0
	}
	return ib.RNRTimer(pkt.AETH.Syndrome.Value())
}
