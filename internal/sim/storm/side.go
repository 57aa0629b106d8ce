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

// kind is the service that a connection is for.
type kind uint8

const (
	reliable   kind = iota // RC
	unreliable             // UC
	datagrams              // UD, by SIDR
	numKinds
)

// sideBits are the bits of a side's number below that of its action, which
// counts from 1 there: no side is number 0.
const sideBits = 16

// side is one end of a connection, or of a resolution: what its program and
// the oracle know of it.
type side struct {
	host   *host
	starts uint64 // of the host, when the side was made
	id     uint64
	kind   kind
	active bool
	rand   *rand.Rand // of its program's decisions
	conn   *cm.Conn
	asks   terms // of the active side
	born   int   // how many passive sides its requests have led to

	localID  uint32 // by which the oracle finds it
	try      uint32 // which request of the active side this is about, from 1
	tries    []attempt
	peer     *side
	peerAddr netip.Addr
	sock     *socket
	qpn      ib.QPN    // of the socket that this is about
	attr     ib.QPAttr // of the queue pair, as the connection moved it
	serial   uint64    // of the REQ or REP that named the peer's
	claimed  bool      // passive: the peer has answered, and the peer's queue pair is of this side
	outdone  bool      // it is of a later one
	grant    grant     // of a server

	phase     phase
	turn      uint64 // of phases
	destroyed bool   // by its program
	vanished  bool   // with its adapter
	hesitated bool   // an MRA was sent or prepared in this phase
	withdrew  bool   // REJ was the last word on what it had offered
	lap       lapTalk
	alternate mad.Path          // that the LAP in question is about
	lastTry   [numSpeech]uint32 // in which the program last gave private data, by message

	interval time.Duration // after which the manager repeats what it waits for
	retries  uint8         // how often
	ack      uint8         // code of the local ACK timeout, and so of TIMEWAIT
	limit    clock.Instant // when the phase has ended by itself
	since    clock.Instant // when the phase began
	repeats  repeats
	pay      allowance
	exam     *examination // the last one of this connection; nil: none

	sent, rcvd uint32 // messages: the last number of each direction
	pending    int    // sends that are not complete
}

// terms are what an active side asks for.
type terms struct {
	to       *host
	v6       bool
	service  mad.ServiceID
	response uint8
	lifetime uint8
	retries  uint8
	serves   uint8 // READs and atomics that it serves at a time
	depth    uint8 // and has outstanding
	mtu      ib.MTU
}

// guid returns the GUID of whom an active side asks; 0 for a passive one.
func (t *terms) guid() uint64 {
	if t.to == nil {
		return 0
	}
	return t.to.hca.NodeGUID()
}

// grant is what the answer to a resolution names.
type grant struct {
	status mad.SIDRStatus
	qpn    ib.QPN
	qkey   ib.QKey
}

// lapTalk is how far the talk about an alternate path is.
type lapTalk uint8

const (
	lapNone  lapTalk = iota
	lapAsked         // active: LAP is out
	lapOwed          // passive: the program owes an answer
)

// newSide makes a side and gives it its number.
func (h *host) newSide(id uint64, k kind, active bool) *side {
	s := &side{
		host: h, starts: h.starts, id: id, kind: k, active: active, limit: clock.Never,
		rand: rand.New(rand.NewPCG(h.w.cfg.Seed, streamSide+id)),
	}
	h.w.sides[id] = s
	return s
}

// alive reports whether the program still has the connection.
func (s *side) alive() bool { return !s.destroyed && !s.vanished }

// enter begins a phase.
func (s *side) enter(p phase) {
	now := s.host.w.now
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
		s.host.w.mark(markUp)
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

// exchange returns how long the manager waits for an answer, all repetitions
// included.
func (s *side) exchange() time.Duration { return time.Duration(s.retries+1) * s.interval }

// attempt is what came of a request, from one of its ends.
type attempt struct {
	peer  *side         // who the answer came from
	up    bool          // it was connected here
	ended clock.Instant // when it was over; Never before
}

// attempt begins another one.
func (s *side) attempt(try uint32, peer *side) {
	s.try, s.peer = try, peer
	s.claimed, s.outdone = false, false
	s.tries = append(s.tries, attempt{peer: peer, ended: clock.Never})
}

// of returns what came of a request of the active side.
func (s *side) of(try uint32) *attempt {
	if !s.active { // it is about one
		return &s.tries[0]
	}
	return &s.tries[try-1]
}

// end notes that the connection is over here.
func (s *side) end() {
	if len(s.tries) > 0 {
		a := s.of(s.try)
		a.ended = min(a.ended, s.host.w.now)
	}
}

// path returns the way to the peer.
func (s *side) path() cm.Path {
	a := &s.asks
	return cm.Path{
		Local: s.host.address(a.v6), Remote: a.to.address(a.v6), MTU: a.mtu, Lifetime: a.lifetime,
		FlowLabel: uint32(s.id) & 0xfffff,
	}
}
