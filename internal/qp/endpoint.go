package qp

import (
	"slices"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/flow"
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

	path     Path // of attr.AV (RC, UC); of attr.AV's port only (UD)
	pkey     ib.PKey
	mtu      int // bytes of attr.PathMTU
	mig      migration
	limit    RateLimit
	pace     flow.Pacer // lower of the path's rate and the rate limit
	timers   timers
	prefixes prefixCache
	ipid     ipidPolicy
}

// destination is what the headers of requests say about where they go. It changes with the
// connection; that of an EE context also with the message. A datagram has its own.
type destination struct {
	qpn   ib.QPN
	deth  roce.DETH
	rdeth roce.RDETH
}

// timer names the timers of an endpoint.
type timer uint8

const (
	timerAck       timer = iota // the retry timer of the verbs
	timerRNR                    // waits for the peer to be ready
	timerProbe                  // a QP with nothing in flight waits for window room
	timerLoss                   // probe timeout, from measured round trips
	timerLanding                // next step of the in-flight estimate behind a gap
	timerPace                   // the rate limit allows the next packet
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
	case e.mig.state == ib.ARMED && p.BTH.MigReq:
		return e.mig.admit(p)
	case e.connected() && !comesBy(&e.path, p.Data):
		return counters.DropAddress, false
	case !e.pkeyMatches(p.BTH.PKey):
		return counters.DropPKey, false
	case onAddressed.has(e.typ) && p.DETH.QKey != e.attr.QKey:
		return counters.DropQKey, false
	}
	return 0, true
}

// take counts and records a packet that passes admit, drops any other, and
// reports which.
func (e *endpoint) take(p *Packet) bool {
	if d, ok := e.admit(p); !ok {
		e.drop(d, p)
		return false
	}
	e.env.Counters.RcvdPkts++
	e.tracePacket(p)
	return true
}

// pkeyMatches checks a packet's P_Key: QP1 takes any of the port's table.
func (e *endpoint) pkeyMatches(k ib.PKey) bool {
	if e.typ != ib.GSI {
		return e.pkey.Matches(k)
	}
	return slices.ContainsFunc(e.port().PKeys, k.Matches)
}

// header starts the scratch packet with the headers common to all packets of this
// endpoint. The opcode says which of them are sent.
func (e *endpoint) header(op roce.Opcode, psn ib.PSN) *roce.Packet {
	p := &e.env.Out.Headers
	p.BTH = roce.BTH{
		Opcode: op, MigReq: e.mig.bit(), PKey: e.pkey, DestQP: e.dest.qpn, PSN: psn,
	}
	p.DETH, p.RDETH = e.dest.deth, e.dest.rdeth
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
	e.seal(seg, e.prefixes.get(&e.path.Path, len(seg)).WithID(uint16(id)))
}

// seal writes the ICRC and counts the packet.
func (e *endpoint) seal(seg []byte, pre roce.Prefix) {
	e.env.Out.Seal(e.env.now, e.num, seg, pre)
}

// record hands a record to the tracer. The caller has checked that there is
// one, which keeps the cost out of the data path.
func (e *endpoint) record(r trace.Record) {
	r.EEC = e.typ == ib.EEC
	e.env.Out.Record(e.env.now, e.num, r)
}

// tracePacket records an arriving packet.
func (e *endpoint) tracePacket(p *Packet) {
	if e.env.Trace == nil {
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
		e.record(trace.Record{Kind: trace.Drop, PSN: p.BTH.PSN, Len: p.Size, Cause: d.String()})
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
	}
}

// raise posts an event of the queue pair, or the corresponding event of the EE
// context.
func (e *endpoint) raise(t ib.EventType) {
	ev := e.owner.event(t)
	if e.env.Trace != nil {
		e.record(trace.Record{Kind: trace.Event, Event: ev.Type})
	}
	e.env.Raise(ev)
}

// prefixCache keeps the ICRC prefixes of the packet sizes last sent on the
// endpoint's path: a message has at most three, and its acknowledgement one.
type prefixCache struct {
	size [4]int32
	pre  [4]roce.Prefix
	turn uint8
}

func (c *prefixCache) get(p *fabric.Path, size int) roce.Prefix {
	for i, s := range c.size {
		if int(s) == size {
			return c.pre[i]
		}
	}
	i := c.turn & 3
	c.turn++
	c.size[i] = int32(size)
	c.pre[i] = roce.NewPrefix(p.Src, p.Dst, p.SrcPort, fabric.RoCEPort, size)
	return c.pre[i]
}
