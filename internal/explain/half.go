package explain

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// Limits of a half. Items above them are counted, not explained.
const (
	maxOps = 1024
	// maxOpen bounds the messages in flight of all halves; a half may have fewOps beyond it.
	maxOpen = 1 << 18
	fewOps  = 16
	maxGaps = 64
	// maxJump is the maximum distance of a PSN from the expected one within one use of a
	// queue pair number.
	maxJump = 1 << 16
	// maxReaction is the maximum delay between an event and its direct effect; a retry timer
	// takes longer.
	maxReaction = time.Millisecond
	// maxCopyDelay is the maximum delay of a copy that the network makes; adapters that probe
	// a quiet peer wait longer.
	maxCopyDelay = 250 * time.Microsecond
	// maxRNRDelay is the maximum delay of the repeat after the time in an RNR NAK.
	maxRNRDelay = 20 * time.Millisecond
	// maxReorderDelay is the maximum delay of a packet that the network reordered.
	maxReorderDelay = 20 * time.Millisecond
	// overdueFactor times the silence before its last repeats is the longest silence before a
	// requester's next repeat; adapters that back off double the time.
	overdueFactor = 3
	// backoffFactor times the silence before its last repeat is the silence of an adapter that
	// doubles the time before each repeat.
	backoffFactor = 2
	// smallestMTU gives the maximum number of PSNs of a READ.
	smallestMTU = 256
)

// half is the requests of one side of a reliable conversation, with the answers
// to them.
type half struct {
	seen     bool   // a request was seen
	first    ib.PSN // lowest PSN seen
	next     ib.PSN // PSN after the highest seen
	una      ib.PSN // lowest unacknowledged PSN
	ops      []op   // messages in flight, in the order of their PSNs
	skipped  int    // requests that were not kept in ops
	gaps     []gap
	inside   bool      // a message has begun and not ended
	answers  int       // answers of any kind
	good     int       // answers about messages in flight
	msn      int       // MSN of the last answer; -1 before
	stale    int       // answers to PSNs never sent, of a responder that has executed nothing
	ahead    bool      // a NAK named a PSN before the first one sent
	beyond   int       // answers to requests that were not seen
	refusals []refusal // fatal NAKs that nothing refuted, in the order of arrival
	strays   []refusal // fatal NAKs before the first request, likewise
	refuted  refuted
	spoiled  []spoilt
	intact   intact
	held     held
	late     late
	doubt    doubt
	deferred deferred
	lastSend instant
	lastGood instant
	nak      wait // a NAK for a missing PSN
	rnr      wait // an RNR NAK
	waits    waits
	missed   wait // the request that a NAK named was sent again
	acked    wait // requests before psn are acknowledged, except that one of them needs a response
	timer    uint8
	repeat   struct {
		active bool
		next   ib.PSN
	}
	timeouts int           // repeats after a timeout since the last good answer
	stuck    ib.PSN        // PSN of the last of these repeats
	silence  time.Duration // longest silence before a repeat since the last good answer
	repeats  int           // repeats since the last completed message
	ignored  int           // repeats of answered requests, from PSN again on
	again    ib.PSN
	atomic   struct {
		known bool
		again bool // the request came again
		psn   ib.PSN
		value uint64
	}
	done tally
}

// wait is an answer that asks for a repeat.
type wait struct {
	on    bool
	psn   ib.PSN
	in    instant
	spoil bool // a fault rule lost or changed the answer
}

// held is the last request or answer that a fault rule delayed.
type held struct {
	on      bool
	in      instant
	begun   int // messages of the half up to the delayed packet
	all     int // messages up to now
	deepest int // maximum messages in flight
}

// overcome reports whether the requester has sent more messages since the delay than it
// ever has in flight: then it got the delayed answers.
func (d *held) overcome() bool { return !d.on || d.all-d.begun > d.deepest }

// note records a packet of the half that a rule delayed.
func (d *held) note(now instant) { d.on, d.in, d.begun = true, now, d.all }

// late is an answer that came after the requester must have given up: it had repeated its
// request without an answer, another repeat was overdue, and it has sent nothing since.
type late struct {
	on    bool
	in    instant
	quiet time.Duration // since the last repeat
	what  string
}

// doubt is an answer after such a long silence that a requester without retries may have
// given up. The requester has sent nothing since.
type doubt struct {
	quiet  time.Duration // silence before the answer; 0: there is no doubt
	in     instant
	due    bool          // the requester had repeated, and did not repeat again when it was due
	strong bool          // due, and the answer was later than a busy host explains
	order  bool          // an answer came before an earlier one, which alone costs a retry
	borne  time.Duration // longest silence after which the requester continued
}

// spoilt is an answer that a fault rule lost or changed, and that no later answer has
// replaced so far.
type spoilt struct {
	psn ib.PSN
	own bool // an answer to a later request cannot replace it
	in  instant
}

// waits counts the repeats of a request after RNR NAKs, by whether they match the time in
// the last RNR NAK.
type waits struct {
	psn    ib.PSN
	naks   int // RNR NAKs for psn
	heeded int // repeats right after that time
	other  int // earlier or much later repeats: the requester did not get the RNR NAK
}

// again counts a repeat at a time after an RNR NAK, which may have been lost.
func (w *waits) again(after, timer time.Duration, lost bool) {
	if lost || after < timer*9/10 || after > timer+max(timer/2, maxRNRDelay) {
		w.other++
		return
	}
	w.heeded++
}

// gap is a range of PSNs that were skipped.
type gap struct {
	from  ib.PSN
	n     uint32
	in    instant
	asked bool // a NAK named it
}

// op is a message in flight.
type op struct {
	kind    roce.Kind
	src     ib.QPN // RD: the queue pair that sends it
	first   ib.PSN
	n       uint32  // its PSNs; until its end, those seen so far
	whole   bool    // its last packet was seen, or it has only one
	vague   bool    // n of a READ is a guess, because the path MTU is unknown
	inv     instant // of the packet that invalidates invKey; zero if there is none
	invKey  ib.RKey
	rkey    ib.RKey
	srqn    ib.SRQN // XRC: the shared receive queue; 0 for others
	va      uint64
	length  int // bytes; for SENDs those seen
	begun   instant
	again   int    // packets seen more than once
	rsp     uint32 // READ: responses in order
	ahead   []span // READ: responses after a gap
	rspGap  bool
	skipped bool    // a later message was answered before
	altered bool    // a fault rule affected it in another way than by a drop
	refused instant // when a NAK refused it; zero if none did
}

// end returns the PSN after the last known PSN of the message.
func (o *op) end() ib.PSN { return o.first.Add(o.n) }

// answered reports whether the message needs a response of its own.
func (o *op) answered() bool {
	k, ok := o.kind.Answer()
	return ok && k != roce.KindAck
}

// complete reports whether all responses to the message were seen. Messages without
// responses of their own are never complete.
func (o *op) complete() bool { return o.answered() && o.rsp >= o.n }

// tally counts messages that were completed.
type tally struct {
	messages, bytes int
	total, longest  time.Duration
}

// inFlight reports whether a PSN was sent and is not acknowledged.
func (h *half) inFlight(p ib.PSN) bool {
	return h.seen && p.Diff(h.una) >= 0 && p.Diff(h.next) < 0
}

// expects reports whether an answer may have a PSN: it is in flight, or among the responses to
// a READ whose number is unknown because the path MTU is.
func (h *half) expects(p ib.PSN) bool {
	if h.inFlight(p) || len(h.ops) == 0 {
		return h.inFlight(p)
	}
	o := &h.ops[len(h.ops)-1]
	return o.vague && p.InWindow(o.first, uint32(o.length/smallestMTU)+1)
}

// near reports whether a PSN may belong to the requests of the half, some of which the
// capture may have missed.
func (h *half) near(p ib.PSN) bool {
	d := p.Diff(h.next)
	return h.seen && -maxOps <= d && d <= maxOps
}

// reliable processes a packet of RC, XRC or RD.
func (f *Follower) reliable(p *pcapfile.Packet) {
	fl := f.connected(p)
	c := fl.conv
	before := c.open()
	defer func() { f.pending += c.open() - before }()
	response := f.pkt.Info.Flags&roce.FlagResponse != 0
	if f.sight.copy {
		if h := &c.halves[1-fl.side]; response && !f.sight.turned && f.sight.effect != spoiled && h.seen {
			h.spoil(f) // a fault rule may have lost only the first copy
		}
		c.copied(f, fl.side)
		return
	}
	if response {
		c.learnMTU(&f.pkt)
		c.answer(f, 1-fl.side)
		return
	}
	if f.pkt.Info.Kind == roce.KindResync {
		c.resync(f, fl.side)
	}
	c.learnMTU(&f.pkt)
	c.request(f, fl.side)
	if f.sight.effect == delayed {
		c.halves[fl.side].held.note(f.now)
	}
}

// resync processes the first RESYNC after a message: the requester abandons the message,
// or puts it off until the receiver is ready, and continues with the PSN of the RESYNC.
func (c *conversation) resync(f *Follower, side int) {
	h, psn := &c.halves[side], f.pkt.BTH.PSN
	if d := psn.Diff(h.next); !h.seen || d < 0 || d > maxJump {
		return
	}
	c.find(f.now, resync, "at PSN %v", psn)
	if h.rnr.on {
		if i := h.locate(h.rnr.psn); i >= 0 {
			h.deferred.put(&h.ops[i], ib.RNRTimer(h.timer), f.now)
		}
		c.find(f.now, rnrWait, "the message at PSN %v was put off; the timer is %v", h.rnr.psn, ib.RNRTimer(h.timer))
	}
	c.giveUp(f, side)
	h.gaps = h.gaps[:0]
	h.rnr.on, h.nak.on, h.acked.on, h.inside, h.refusals = false, false, false, false, nil
	h.una, h.next = psn, psn
}

// learnMTU takes the path MTU from a packet that must fill it.
func (c *conversation) learnMTU(p *roce.Packet) {
	n := len(p.Payload)
	if p.Info.Payload != roce.PayloadMTU || n == 0 {
		return
	}
	if mtu, ok := ib.MTUFor(n); ok && mtu.Bytes() == n && n > c.mtu {
		c.mtu = n
	}
}

// isProbe reports whether a request behind others is a probe by which an adapter such as softhca
// examines whether its peer is alive: a WRITE of no bytes to nowhere.
func isProbe(p *roce.Packet) bool {
	return p.BTH.Opcode&^(7<<5) == roce.RCRDMAWriteOnly&^(7<<5) && p.RETH == (roce.RETH{}) && len(p.Payload) == 0
}

// request processes a request of a side.
func (c *conversation) request(f *Follower, side int) {
	h, p := &c.halves[side], &f.pkt
	psn := p.BTH.PSN
	if h.seen && psn.Diff(h.next) < 0 && isProbe(p) {
		return // the requester asks for a sign of life
	}
	n := c.psns(p)
	if p.Info.Payload == roce.PayloadMTU && len(p.Payload) > 0 && c.mtu != 0 && len(p.Payload) != c.mtu {
		c.find(f.now, lengthWrong, "%v with %d bytes at PSN %v, others have %d", p.BTH.Opcode, len(p.Payload), psn, c.mtu)
	}
	d := psn.Diff(h.next)
	switch {
	case !h.seen, d > maxJump, d < -maxJump:
		c.restart(f, side, psn)
	case d > 0 && h.settle(psn):
	case d > 0:
		h.skip(f.now, uint32(d))
	case d < 0 && psn.Diff(h.first) < 0:
		if h.una == h.next && p.Info.Flags&roce.FlagStart != 0 && h.first.Diff(psn) > maxGaps {
			c.restart(f, side, psn) // another queue pair has the number now
			break
		}
		h.gaps = append(h.gaps, gap{from: psn, n: h.first.Distance(psn), in: f.now})
		h.first = psn
		fallthrough
	case d < 0:
		h.goesOn(f.now, p, n)
		c.again(f, side, n)
		h.sent(f.now)
		return
	}
	h.goesOn(f.now, p, n)
	h.repeat.active = false
	h.extend(f, n, c.vague(p))
	h.sent(f.now)
}

// leavesOpen reports whether a requester that gets an error at the end may have got another
// error before.
func (d *doubt) leavesOpen() bool { return d.due || d.quiet >= lateAnswer }

// sent records that the requester is alive.
func (h *half) sent(now instant) {
	h.lastSend, h.late.on = now, false
	h.doubt = doubt{borne: max(h.doubt.borne, h.doubt.quiet)}
}

// restart begins to follow a half with its first request.
func (c *conversation) restart(f *Follower, side int, psn ib.PSN) {
	c.giveUp(f, side)
	h := &c.halves[side]
	*h = half{seen: true, first: psn, next: psn, una: psn, msn: -1, done: h.done, answers: h.answers, ops: h.ops[:0], strays: h.strays}
}

// settle corrects the guessed length of a READ from the PSN of the next request, and
// reports whether that explains the PSN.
func (h *half) settle(psn ib.PSN) bool {
	if len(h.ops) == 0 {
		return false
	}
	o := &h.ops[len(h.ops)-1]
	n := psn.Distance(o.first)
	if !o.vague || n > uint32(o.length/smallestMTU)+1 {
		return false
	}
	o.n, o.vague, h.next = n, false, psn
	return true
}

// skip records a gap before a request.
func (h *half) skip(now instant, n uint32) {
	if len(h.gaps) < maxGaps {
		h.gaps = append(h.gaps, gap{from: h.next, n: n, in: now})
	}
	h.next = h.next.Add(n)
	h.inside = false
}

// open returns the number of messages in flight that the conversation remembers.
func (c *conversation) open() int { return len(c.halves[0].ops) + len(c.halves[1].ops) }

// full reports whether there is no room for another message of a half.
func (f *Follower) full(h *half) bool {
	return len(h.ops) >= maxOps || f.pending >= maxOpen && len(h.ops) >= fewOps
}

// extend adds a new request: a message, or a part of the last one.
func (h *half) extend(f *Follower, n uint32, vague bool) {
	now, p, psn := f.now, &f.pkt, h.next
	h.next, h.ignored = psn.Add(n), 0
	flags := p.Info.Flags
	if h.inside && flags&roce.FlagStart == 0 && len(h.ops) > 0 && h.ops[len(h.ops)-1].end() == psn {
		o := &h.ops[len(h.ops)-1]
		o.extend(now, p)
		h.inside = !o.whole
		return
	}
	if f.full(h) {
		h.skipped++
		h.inside = flags&roce.FlagEnd == 0
		return
	}
	o := begun(now, p)
	o.altered = f.sight.altered()
	h.deferred.begins(o.src)
	o.n, o.vague = n, vague
	h.ops = append(h.ops, o)
	h.held.all++
	h.held.deepest = max(h.held.deepest, len(h.ops))
	h.inside = !o.whole
}

// begun returns the message of its first packet seen, which may be in the middle of
// the message.
func begun(now instant, p *roce.Packet) op {
	o := op{
		kind: p.Info.Kind, src: p.DETH.SrcQP, srqn: ib.SRQN(p.XRCETH.SRQN), first: p.BTH.PSN, n: 1, begun: now,
		whole: p.Info.Flags&roce.FlagEnd != 0 || p.Info.Kind == roce.KindReadRequest,
	}
	if o.kind == roce.KindResync {
		o.src = noQPN // a RESYNC is no message of a queue pair, though it names one
	}
	o.invalidates(now, p)
	switch {
	case p.Info.Headers&roce.HasRETH != 0:
		o.rkey, o.va, o.length = p.RETH.RKey, p.RETH.VA, int(p.RETH.Length)
	case p.Info.Headers&roce.HasAtomicETH != 0:
		o.rkey, o.va, o.length = p.AtomicETH.RKey, p.AtomicETH.VA, 8
	default:
		o.length = len(p.Payload)
	}
	return o
}

// moved returns the bytes that the message moves; a FLUSH only names some.
func (o *op) moved() int {
	if o.kind == roce.KindFlush {
		return 0
	}
	return o.length
}

// invalidates records the key that a packet of the message invalidates.
func (o *op) invalidates(now instant, p *roce.Packet) {
	if p.Info.Flags&roce.FlagInv != 0 {
		o.inv, o.invKey = now, p.InvRKey
	}
}

// extend adds a packet to a message with one PSN per packet.
func (o *op) extend(now instant, p *roce.Packet) {
	o.n++
	o.whole = p.Info.Flags&roce.FlagEnd != 0
	o.invalidates(now, p)
	if o.kind == roce.KindSend {
		o.length += len(p.Payload)
	}
}

// psns returns the number of PSNs of a request.
func (c *conversation) psns(p *roce.Packet) uint32 {
	mtu := c.mtu
	if mtu == 0 {
		mtu = ib.MTU4096.Bytes()
	}
	return min(p.PSNs(mtu), maxJump)
}

// vague reports whether psns is a guess.
func (c *conversation) vague(p *roce.Packet) bool {
	return c.mtu == 0 && p.Info.Kind == roce.KindReadRequest && p.RETH.Length > smallestMTU
}
