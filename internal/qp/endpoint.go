package qp

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// endpoint is one end of a connection, or of the datagrams of a queue pair: its
// identity, its peer, its path, its attributes and its timers. The requester,
// the completer and the receiver of an end work on the same endpoint.
type endpoint struct {
	env *Env
	num ib.QPN // of an EE context, its own number
	typ ib.QPType
	traits

	owner owner
	dest  destination

	state atomic.Uint32 // ib.QPState; written by the shard's thread only
	attr  ib.QPAttr     // as last set; the current PSNs and state are elsewhere

	path     Path // of attr.AV (RC, UC); only a port and its UDP source port (UD)
	pkey     ib.PKey
	mtu      int // bytes of attr.PathMTU
	mig      migration
	limit    RateLimit
	pace     flow.Pacer         // lower of the path's rate and the rate limit
	socket   *flow.SocketCredit // UC: of the socket that gets the last packet; nil before the first packet
	timers   timers
	prefixes packet.Prefixes
	ipid     ipidPolicy
	track    track
}

// destination is what the headers of requests say about where they go. It changes with the
// connection; that of an EE context, and of an XRC initiator, also with the message. A datagram has its own.
type destination struct {
	qpn   ib.QPN
	deth  roce.DETH
	rdeth roce.RDETH
	xrc   roce.XRCETH
}

// peer returns the number of the peer's queue pair or EE context, 0 if there is none.
// t is the type of the end: the queue pair of an EE context is that of its last request.
func (d *destination) peer(t ib.QPType) ib.QPN {
	if t == ib.EEC {
		return ib.QPN(d.rdeth.EEC)
	}
	return d.qpn
}

// timer names the timers of an endpoint.
type timer uint8

const (
	timerAck       timer = iota // the retry timer of the verbs
	timerRNR                    // waits for the peer to be ready
	timerProbe                  // a QP with nothing in flight waits for window room
	timerLoss                   // probe timeout, from measured round trips
	timerEstimate               // next step of the in-flight estimate behind a gap
	timerPace                   // the rate limit, or the receiver's socket buffer, allows the next packet
	timerChallenge              // waits for the peer's answer to a challenge
	numTimers
)

// timers is the array of an endpoint's instants; clock.Never means not armed.
type timers [numTimers]clock.Instant

func (t *timers) stopAll() {
	for i := range t {
		t[i] = clock.Never
	}
}

// next returns the earliest.
func (t *timers) next() clock.Instant {
	at := clock.Never
	for _, v := range t {
		at = min(at, v)
	}
	return at
}

// State returns the state. Any goroutine may call it.
func (e *endpoint) State() ib.QPState { return ib.QPState(e.state.Load()) }

// behaviour returns what the endpoint does in its state.
func (e *endpoint) behaviour() *behaviour { return behaviourOf(e.State()) }

// connected reports whether the endpoint has one peer.
func (e *endpoint) connected() bool { return onConnected.has(e.typ) }

// reliable reports whether what is sent is acknowledged.
func (e *endpoint) reliable() bool { return onAcknowledged.has(e.typ) }

// admit checks state, service, addresses and keys of an arriving packet, in the
// order of E7 and V14.
func (e *endpoint) admit(p *Packet) (counters.Drop, bool) {
	st := e.behaviour()
	p.sign = signNone
	response := p.Info.Flags&roce.FlagResponse != 0
	switch {
	case response && !st.takesResponses(), !response && !st.takesRequests():
		return counters.DropState, false
	case p.Info.Service != e.service:
		return counters.DropService, false
	case p.Data.Barred != nil && e.forged(p):
		return counters.DropForged, false
	case e.mig.state == ib.ARMED && p.BTH.MigReq:
		return e.mig.admit(p)
	case e.connected() && !comesBy(&e.path, p.Data), !e.connected() && e.path.Port.Num != p.Port:
		return counters.DropAddress, false
	case !e.pkeyMatches(p.BTH.PKey):
		return counters.DropPKey, false
	case onAddressed.has(e.typ) && p.DETH.QKey != e.attr.QKey:
		return counters.DropQKey, false
	}
	return 0, true
}

// forged reports whether a packet is in the name of a process that sends its packets another way.
// QP1 belongs to no slot.
func (e *endpoint) forged(p *Packet) bool {
	from := e.dest.peer(e.typ)
	switch {
	case e.typ == ib.GSI || onDatagrams.has(e.typ) && p.DETH.SrcQP == ib.QPNGSI:
		return false
	case onDatagrams.has(e.typ):
		from = p.DETH.SrcQP
	}
	return p.Data.Barred.Has(uint8(from >> 16))
}

// take counts and records a packet that passes admit, drops any other, and
// reports which.
func (e *endpoint) take(p *Packet) bool {
	if d, ok := e.admit(p); !ok {
		e.drop(d, p)
		return false
	}
	e.env.Counters.RcvdPkts++
	c := e.counts()
	c.RcvdPackets++
	c.RcvdBytes += uint64(len(p.Payload))
	e.tracePacket(p)
	return true
}

// pkeyMatches checks a packet's P_Key: QP1 takes any of the port's table.
func (e *endpoint) pkeyMatches(k ib.PKey) bool {
	if e.typ != ib.GSI {
		return e.pkey.Matches(k)
	}
	return slices.ContainsFunc(e.path.Port.PKeys, k.Matches)
}

// header starts the scratch packet with the headers common to all packets of this
// endpoint. The opcode says which of them are sent.
func (e *endpoint) header(op roce.Opcode, psn ib.PSN) *roce.Packet {
	p := &e.env.Out.Headers
	h := &p.BTH
	*h = roce.BTH{} // then field by field: a literal would be built in a temporary and copied
	h.Opcode, h.MigReq, h.PKey, h.DestQP, h.PSN = op, e.mig.bit(), e.pkey, e.dest.qpn, psn
	p.DETH, p.RDETH, p.XRCETH = e.dest.deth, e.dest.rdeth, e.dest.xrc
	return p
}

// append builds the scratch packet at the end of the batch: headers, room for
// n bytes of payload, pad. It returns the whole segment, nil when the batch
// is full, and its identification; finish completes it.
func (e *endpoint) append(b *fabric.Batch, path *fabric.Path, n uint32) (seg, payload []byte, id int) {
	return e.env.Out.Append(b, path, int(n))
}

// appendBare appends a packet without payload on the endpoint's own path, and
// returns it; nil when there is no room.
func (e *endpoint) appendBare(b *fabric.Batch) []byte {
	seg, _, id := e.append(b, &e.path.Path, 0)
	if seg != nil {
		e.finish(seg, id)
	}
	return seg
}

// finish seals a segment of the endpoint's own path.
func (e *endpoint) finish(seg []byte, id int) {
	pre, ok := e.prefixes.Find(len(seg))
	if !ok {
		pre = e.prefixes.Add(len(seg), packet.Prefix(&e.path.Path, len(seg), 0))
	}
	e.seal(seg, pre.WithID(uint16(id)))
}

// seal writes the ICRC and counts the packet.
func (e *endpoint) seal(seg []byte, pre roce.Prefix) {
	e.env.Out.Seal(e.env.now, e.num, seg, pre)
	e.counts().SentPackets++
}

// record hands a record to the tracer. The caller has checked that there is
// one, which keeps the cost out of the data path.
func (e *endpoint) record(r trace.Record) {
	r.EEC = e.typ == ib.EEC
	if r.Kind != trace.PacketIn {
		r.Peer, r.Local, r.Remote = e.dest.peer(e.typ), e.path.Src, e.path.Dst
	}
	e.env.Out.Record(e.env.now, e.num, r)
}

// tracePacket records an arriving packet.
func (e *endpoint) tracePacket(p *Packet) {
	if e.env.Trace == nil || e.env.Out.Rare {
		return
	}
	r := trace.Record{Kind: trace.PacketIn, PSN: p.BTH.PSN, Len: p.Size}
	p.PutHeaders(r.Header[:])
	e.record(r)
}

// drop counts an arriving packet that has no effect.
func (e *endpoint) drop(d counters.Drop, p *Packet) {
	e.env.Counters.Drops[d]++
	if e.env.Trace != nil {
		e.record(trace.Record{Kind: trace.Drop, From: e.State(), PSN: p.BTH.PSN, Len: p.Size, Cause: d.String()})
	}
}

// countStatus counts a completion with an error.
func (e *endpoint) countStatus(s ib.WCStatus, failed *uint64) {
	switch s {
	case ib.WCSuccess:
	case ib.WCWRFlushErr:
		e.env.Counters.CQEFlush++
	default:
		*failed++
		e.failed(s)
	}
}

// raise posts an event of the queue pair, or the corresponding event of the EE
// context.
func (e *endpoint) raise(t ib.EventType) {
	ev := e.owner.event(t)
	if e.env.Trace != nil {
		e.record(trace.Record{Kind: trace.Event, Event: ev.Type})
	}
	e.env.Late.settle(e.env.now, e.env)
	e.env.Raise(ev)
}

// posting says how a state treats a posted work request.
type posting uint8

const (
	postRefuse  posting = iota // the post fails at once with EINVAL
	postQueue                  // queued; not started in this state
	postProcess                // queued and processed
	postFlush                  // completes with WR_FLUSH_ERR, in order
)

var postingNames = [...]string{"refuse", "queue", "process", "flush"}

// String returns the posting rule in lower case.
func (p posting) String() string {
	if int(p) < len(postingNames) {
		return postingNames[p]
	}
	return fmt.Sprintf("posting(%d)", uint8(p))
}

// sending says which packets the requester may send.
type sending uint8

const (
	sendNothing sending = iota // no request packet
	sendBegun                  // only packets of messages that it has already started
	sendAll
)

var sendingNames = [...]string{"nothing", "begun", "all"}

// String returns the range in lower case.
func (s sending) String() string {
	if int(s) < len(sendingNames) {
		return sendingNames[s]
	}
	return fmt.Sprintf("sending(%d)", uint8(s))
}

// behaviour holds the rules of one QP state for posting, processing and packets
// (Q24).
type behaviour struct {
	postRecv  posting // receive work requests, queued ones and new ones
	postSend  posting // send work requests that are not begun, and new ones
	requests  bool    // the peer's requests are executed and answered; otherwise silently dropped
	responses bool    // the peer's responses are accepted; otherwise silently dropped
	requester sending // which requests this side sends
}

// behaviours is the behaviour of every state: Q4 RESET, Q6 INIT, Q7 RTR, Q8
// RTS, Q11 SQD, Q15 SQE, Q19 and Q20 ERR.
var behaviours = [ib.NumQPStates]behaviour{
	ib.RESET: {postRefuse, postRefuse, false, false, sendNothing},
	ib.INIT:  {postQueue, postRefuse, false, false, sendNothing},
	ib.RTR:   {postProcess, postRefuse, true, false, sendNothing},
	ib.RTS:   {postProcess, postProcess, true, true, sendAll},
	ib.SQD:   {postProcess, postQueue, true, true, sendBegun},
	ib.SQE:   {postProcess, postFlush, true, false, sendNothing},
	ib.ERR:   {postFlush, postFlush, false, false, sendNothing},
}

// behaviourOf returns the row of a state, which must exist.
func behaviourOf(s ib.QPState) *behaviour { return &behaviours[s] }

// takesRequests reports whether arriving requests are executed and answered.
func (b *behaviour) takesRequests() bool { return b.requests }

// takesResponses reports whether arriving responses are accepted.
func (b *behaviour) takesResponses() bool { return b.responses }

// sends reports whether any packet leaves in this state: responses, or requests
// of this side.
func (b *behaviour) sends() bool { return b.requests || b.requester != sendNothing }

// ipLength returns the length of the IP packet that carries a segment.
func ipLength(path *Path, seg []byte) int {
	if path.Src.Is4() {
		return ipudp.IPv4Len + ipudp.UDPLen + len(seg)
	}
	return ipudp.IPv6Len + ipudp.UDPLen + len(seg)
}

// RateLimit is the maximum rate of a queue pair (V17).
type RateLimit struct {
	Rate  uint32 // kbit/s; 0: no limit
	Burst uint32 // bytes that may be sent at once; 0: 64 KiB, or 100 µs at the rate
}

// staticPacer returns the pacer of a static rate. A rate at or above the port's
// has no effect.
func (e *Env) staticPacer(r ib.Rate) flow.Pacer {
	mbps := uint64(r.Mbps())
	if mbps >= uint64(e.Limits.PortMbps) {
		return flow.Pacer{}
	}
	return flow.NewPacer(mbps*1e6, 0)
}

// SetRateLimit changes the maximum rate of the QP. EINVAL in RESET and ERR,
// where nothing is sent, and for an RD queue pair, which sends at the rates of
// its EE contexts.
func (q *QP) SetRateLimit(l RateLimit) error {
	if st := q.State(); st == ib.RESET || st == ib.ERR {
		return fmt.Errorf("a queue pair in %v has no rate limit: %w", st, ib.EINVAL)
	}
	if err := q.rd.rateError(); err != nil {
		return err
	}
	q.ep.limit = l
	q.ep.setPace()
	if q.ep.behaviour().sends() {
		q.Wake() // waiting packets may leave earlier or later
	}
	return nil
}

// setPace makes the endpoint keep to the lower of the rate of its path and its
// limit.
func (e *endpoint) setPace() {
	p := e.env.staticPacer(e.attr.AV.StaticRate)
	if kbps := uint64(e.limit.Rate); kbps != 0 && (p.Rate() == 0 || kbps*1000 < p.Rate()) {
		p = flow.NewPacer(kbps*1000, uint64(e.limit.Burst))
	}
	e.pace.Set(p)
	if e.timers[timerPace] != clock.Never {
		e.timers[timerPace] = e.env.now // the waiting packet may have to go earlier or later
	}
}

// mayPace reports whether the rate allows a packet now; if not, it arms the pace
// timer for when it will.
func (e *endpoint) mayPace(p *flow.Pacer, now clock.Instant) bool {
	if p.Allows(now) {
		return true
	}
	e.timers[timerPace] = min(e.timers[timerPace], p.Next())
	return false
}

// The ICRC covers the IPv4 identification. If the port does not show it, it is
// derived from the ICRC, and one damaged packet in 65536 passes with an
// arbitrary identification. A peer on a UDP socket, such as another adapter of
// this kind, numbers the segments of each run from 0, so only one in 1024 of
// these packets has an identification that such a peer uses; the others are
// detected.
//
// A sender on a UDP socket can choose the identification through the ICRC, and
// strangers can do so in the peer's name. So the policy learns only from packets
// that are likely the peer's: requests at the expected PSN and answers to
// requests in flight. It judges only those too: a duplicate or a packet beyond a
// gap does no harm. The policy demands only the segment index, never a counter,
// which any process of the peer's host can advance on Linux.
//
// The peer may change how it numbers packets at any time, and the connection
// must survive that. The first refused packet ends the demand, so its
// retransmission passes, and the policy learns anew before the next demand. UC
// accepts a request at any PSN, so there a stranger can be at the expected PSN.
// The peer's next packet then is not; it resets what the policy has learnt, and
// is not judged.

const (
	// runSegments bounds the segments of a run.
	runSegments = 64
	// demandAfter is the number of consecutive packets with a segment index
	// after which the policy demands one. A counter yields at most runSegments
	// in a row.
	demandAfter = math.MaxUint8
)

// ipidPolicy checks the identifications of a connected peer's packets. Its zero
// value demands nothing.
type ipidPolicy struct {
	streak uint8 // packets in a row with a segment index, up to demandAfter
}

// learn takes a packet that is likely the peer's into account.
func (y *ipidPolicy) learn(p *Packet) {
	switch {
	case !p.IDDerived:
	case p.ID >= runSegments:
		y.streak = 0
	case y.streak < demandAfter:
		y.streak++
	}
}

// refuses reports whether a packet counts as damaged. A refusal ends the demand
// until the policy has learnt anew.
func (y *ipidPolicy) refuses(p *Packet) bool {
	refused := y.suspects(p)
	if refused {
		y.streak = 0
	}
	return refused
}

// suspects reports whether a packet that is not at the expected PSN would be
// refused there.
func (y *ipidPolicy) suspects(p *Packet) bool {
	return p.IDDerived && p.ID >= runSegments && y.streak == demandAfter
}

// refusesID reports whether the identification of a packet at a PSN that only the peer should know shows
// damage.
func (e *endpoint) refusesID(p *Packet) bool { return e.ipid.refuses(p) }

// suspectsID reports whether refusesID would refuse a packet, without counting it.
func (e *endpoint) suspectsID(p *Packet) bool { return e.ipid.suspects(p) }

// learnID takes the identification of a packet into account that was believed.
func (e *endpoint) learnID(p *Packet) { e.ipid.learn(p) }

// bit returns the MigReq of sent packets.
func (m *migration) bit() bool {
	return m.state == ib.MIGRATED && (m.used || m.ep.env.Settings.MigReq)
}

// comesBy reports whether a packet arrived on a path.
func comesBy(path *Path, d *fabric.Datagram) bool {
	return d.Src == path.Dst && d.Dst == path.Src
}

// follow handles the migration state in a packet at a PSN that only the peer should know, and
// reports whether it may be processed.
func (e *endpoint) follow(now clock.Instant, p *Packet) bool {
	return e.migrated() || e.mig.follow(now, p)
}

// migrated reports whether packets show nothing about migration.
func (e *endpoint) migrated() bool { return e.mig.state == ib.MIGRATED }

// distrusts reports whether the endpoint doubts claims of one of the kinds k.
func (e *endpoint) distrusts(k claims) bool {
	return e.doubted&k != 0 && !e.env.Settings.NoChallenge
}

// counts returns the counters in the table of objects.
func (e *endpoint) counts() *restrack.QPCounts { return &e.track.Row.Counts }

// report writes what changes when the end sends. An end that gets a response has a turn to send after
// it.
func (e *End) report() {
	c, f, sq := e.ep.counts(), &e.req.flight, e.req.queue
	c.SendPSN, c.AckPSN = uint64(f.Next().Value()), uint64(f.Una().Value())
	c.Window, c.InFlight = f.Use()
	c.RTT = uint64(f.RoundTrip())
	c.Outstanding = uint64(sq.Prod() - sq.Cons())
}

// reportReceived writes what changes with each packet that the end receives.
func (e *End) reportReceived() { e.ep.counts().RecvPSN = uint64(e.in.epsn.Value()) }

// completed notes that the send work request with the notes w was completed.
func (e *endpoint) completed(now clock.Instant, w *begunWR) {
	e.counts().Latency[restrack.Bucket(now.Sub(w.at))]++
}
