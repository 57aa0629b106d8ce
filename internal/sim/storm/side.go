package storm

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// kind is the service of a connection.
type kind uint8

const (
	reliable   kind = iota // RC
	unreliable             // UC
	datagrams              // UD, by SIDR
	numKinds
)

// sideBits is the number of bits of a side's number below that of its action,
// which counts from 1, so that no side is number 0.
const sideBits = 16

// side is one end of a connection, or of a resolution: its program, and the state of the oracle.
type side struct {
	host   *host
	starts uint64 // the host's starts when the side was created
	id     uint64
	kind   kind
	active bool
	conn   *cm.Conn
	asks   terms // parameters of the active side
	born   int   // number of passive sides that its requests created

	localID  uint32 // local ID, by which the oracle finds it
	try      uint32 // number of the active side's request, from 1
	tries    []attempt
	peer     *side
	peerAddr netip.Addr
	sock     *socket
	qpn      ib.QPN    // QPN of its socket
	attr     ib.QPAttr // attributes of the queue pair, as the connection set them
	serial   uint64    // serial of the REQ or REP that named the peer's QPN
	claimed  bool      // passive: the peer has answered, so this side owns the peer's queue pair
	outdone  bool      // a later side owns it
	grant    grant     // answer of a server

	phase     phase
	turn      uint64 // number of phases so far
	destroyed bool   // by its program
	vanished  bool   // its adapter restarted
	hesitated bool   // an MRA was sent or prepared in this phase
	withdrew  bool   // it ended with a REJ after it had sent a REP
	lap       lapTalk
	alternate mad.Path // alternate path of the current LAP

	interval time.Duration // retransmission interval of the manager
	retries  uint8         // number of retransmissions
	ack      uint8         // code of the local ACK timeout, and so of TIMEWAIT
	limit    clock.Instant // time by which the phase ends by itself
	since    clock.Instant // when the phase began
	repeats  repeats
	pay      allowance
	exam     *examination // the last one of this connection; nil: none

	rcvd    uint32 // number of the peer's last message
	pending int    // incomplete sends

	program program
}

// terms are the parameters of an active side's request.
type terms struct {
	to       *host
	v6       bool
	service  mad.ServiceID
	response uint8
	lifetime uint8
	retries  uint8
	serves   uint8 // READs and atomics that it accepts at a time
	depth    uint8 // READs and atomics that it may have outstanding
	mtu      ib.MTU
}

// guid returns the GUID of the host that an active side addresses; 0 for a
// passive side.
func (t *terms) guid() uint64 {
	if t.to == nil {
		return 0
	}
	return t.to.HCA.NodeGUID()
}

// grant holds the fields of the answer to a resolution.
type grant struct {
	status mad.SIDRStatus
	qpn    ib.QPN
	qkey   ib.QKey
}

// lapTalk is the state of the negotiation of an alternate path.
type lapTalk uint8

const (
	lapNone  lapTalk = iota
	lapAsked         // active: LAP sent
	lapOwed          // passive: the program must answer
)

// newSide creates a side with its number.
func (h *host) newSide(id uint64, k kind, active bool) *side {
	s := &side{
		host: h, starts: h.starts, id: id, kind: k, active: active, limit: clock.Never,
	}
	s.program = program{side: s, rand: rand.New(rand.NewPCG(h.w.Config.Seed, streamSide+id))}
	h.w.sides[id] = s
	return s
}

// alive reports whether the program still has the connection.
func (s *side) alive() bool { return !s.destroyed && !s.vanished }

// enter starts a phase.
func (s *side) enter(p phase) {
	now := s.host.w.Now
	s.phase, s.hesitated, s.lap = p, false, lapNone
	s.turn++
	s.since = now
	switch p {
	case calling, offered, leaving, resolving:
		s.limit, s.repeats = now.Add(s.exchange()), repeats{}
	case quiet:
		s.limit = now.Add(mad.Timeout(s.ack))
	default:
		s.limit = clock.Never
	}
	if p != up {
		s.exam = nil
	}
	if p == quiet || p == over {
		s.end()
	}
	if p == up {
		s.pay.limited = false
		s.of(s.try).up = true
		s.host.w.Mark("sides connected")
	}
}

// may reports whether a call is allowed now.
func (s *side) may(call cm.Input) bool {
	switch {
	case s.phase == up && call == cm.CallLAP:
		return s.active && s.lap == lapNone
	case s.phase == up && call == cm.CallAPR:
		return s.lap == lapOwed
	case s.phase == up && call == cm.CallMRA:
		return s.lap == lapOwed && !s.hesitated
	case call == cm.CallMRA, call == cm.CallMRALater:
		return s.phase.allows(call) && !s.hesitated
	}
	return s.phase.allows(call)
}

// exchange returns how long the manager waits for an answer, including all
// repetitions.
func (s *side) exchange() time.Duration { return time.Duration(s.retries+1) * s.interval }

// attempt is the outcome of a request at one of its ends.
type attempt struct {
	peer  *side         // side that answered
	up    bool          // it was established here
	ended clock.Instant // time of its end; Never: not ended
}

// attempt starts another attempt.
func (s *side) attempt(try uint32, peer *side) {
	s.try, s.peer = try, peer
	s.claimed, s.outdone = false, false
	s.tries = append(s.tries, attempt{peer: peer, ended: clock.Never})
}

// of returns the attempt with a number.
func (s *side) of(try uint32) *attempt {
	if !s.active { // a passive side has only one
		return &s.tries[0]
	}
	return &s.tries[try-1]
}

// end records the end of the connection here.
func (s *side) end() {
	if len(s.tries) > 0 {
		a := s.of(s.try)
		a.ended = min(a.ended, s.host.w.Now)
	}
}

// path returns the path to the peer.
func (s *side) path() cm.Path {
	a := &s.asks
	return cm.Path{
		Local: s.host.address(a.v6), Remote: a.to.address(a.v6), MTU: a.mtu, Lifetime: a.lifetime,
		FlowLabel: uint32(s.id) & 0xfffff,
	}
}
