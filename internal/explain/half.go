package explain

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// Bounds of what a half keeps. What exceeds them is counted, not explained.
const (
	maxOps  = 1024
	maxGaps = 64
	// maxJump is how far a PSN may be from what is expected to be of the same
	// life of a queue pair.
	maxJump = 1 << 16
	// prompt is how soon after an event what it caused follows at the latest; a
	// retry timer takes longer.
	prompt = time.Millisecond
	// together is how soon the second copy follows that a network makes; adapters
	// that probe a quiet peer wait longer.
	together = 250 * time.Microsecond
	// heedful is how much later than an RNR NAK asks for a request may come again because
	// of it.
	heedful = 20 * time.Millisecond
	// unasked is how late a packet may be that was overtaken.
	unasked = 20 * time.Millisecond
	// overdue is how many times as long as before its last repeats a requester may be
	// silent until it repeats once more; adapters that back off double the time.
	overdue = 3
	// backsOff is how many times as long as before its last repeat an adapter that doubles the
	// time may be silent until it repeats once more.
	backsOff = 2
	// smallestMTU divides the bytes of a READ into as many PSNs as it can have.
	smallestMTU = 256
)

// half is the requests of one side of a reliable conversation, with the answers
// to them.
type half struct {
	seen     bool   // a request was
	first    ib.PSN // the lowest seen
	next     ib.PSN // after the highest seen
	una      ib.PSN // the lowest that is not acknowledged
	ops      []op   // in flight, in the order of their PSNs
	skipped  int    // requests that were not kept in ops
	gaps     []gap
	inside   bool // a message has begun, and not ended
	answers  int  // of any kind
	good     int  // that said something about what is in flight
	msn      int  // of the last answer; -1 before
	stale    int  // answers of a responder that has executed nothing, to what was never sent
	ahead    bool // a NAK asked for a PSN before the first that was sent
	beyond   int  // answers to requests that were not seen
	failed   bool // a NAK ended it
	refusal  refusal
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
	missed   wait // what a NAK asked for was sent again
	timer    uint8
	repeat   struct {
		active bool
		next   ib.PSN
	}
	timeouts int           // since the last good answer
	stuck    ib.PSN        // what the last of them repeated
	silence  time.Duration // before a repeat, the longest since the last good answer
	repeats  int           // since the last message that was completed
	ignored  int           // repeats of what was answered, from again on
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
	spoil bool // a rule of faults lost or changed it
}

// refusal is the NAK that ended a half.
type refusal struct {
	rule   ruleID
	in     instant
	detail string
	psn    ib.PSN
	deed   deed // of a rule of faults, to the NAK
	deaf   int  // repeats of the refused request, as of a requester that did not get it
}

// held is the last request or answer that a rule of faults delayed.
type held struct {
	on      bool
	in      instant
	begun   int // messages of the half up to then
	all     int // up to now
	deepest int // most of them in flight at a time
}

// overcome reports whether the requester had more messages since than it ever has in
// flight: that it did not wait in vain.
func (d *held) overcome() bool { return !d.on || d.all-d.begun > d.deepest }

// note notes a packet of the half that a rule delayed.
func (d *held) note(now instant) { d.on, d.in, d.begun = true, now, d.all }

// late is an answer that came after the requester must have given up: it had repeated its
// request in vain, another repeat was overdue, and it has sent nothing since.
type late struct {
	on    bool
	in    instant
	quiet time.Duration // since the last repeat
	what  string
}

// doubt is an answer that came so long after the last packet of the requester, or the last
// answer, that a requester without retries may have given up. It has sent nothing since.
type doubt struct {
	quiet  time.Duration // before the answer; 0: there is no doubt
	in     instant
	due    bool          // the requester had repeated, and did not repeat again when it was due
	strong bool          // and the answer came later than a busy host explains
	order  bool          // an answer came before an earlier one, which alone costs a retry
	borne  time.Duration // the longest time of quiet after which the requester went on
}

// spoilt is an answer that a rule of faults lost or changed, and that no repeat and no
// other answer has made good so far.
type spoilt struct {
	psn ib.PSN
	own bool // no answer to a later request will do
	in  instant
}

// waits counts the repeats of a request after RNR NAKs, by how they suit the time that
// the RNR NAK before asks for.
type waits struct {
	psn    ib.PSN
	naks   int // RNR NAKs for psn
	heeded int // repeats right after that time
	other  int // repeats before it, or long after: as of a requester that did not get the RNR NAK
}

// again counts a repeat that comes a while after an RNR NAK, which may have been lost.
func (w *waits) again(after, timer time.Duration, lost bool) {
	if lost || after < timer*9/10 || after > timer+max(timer/2, heedful) {
		w.other++
		return
	}
	w.heeded++
}

// gap is PSNs that were skipped.
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
	n       uint32  // PSNs that it takes; those seen so far, until it ended
	whole   bool    // its last packet was seen, or it has one only
	vague   bool    // a READ of which n is a guess, as the path MTU is not known
	inv     instant // of the packet that asks to invalidate invKey; none if it is zero
	invKey  ib.RKey
	rkey    ib.RKey
	va      uint64
	length  int // bytes; of SENDs those seen
	begun   instant
	again   int    // packets of it that came more than once
	rsp     uint32 // PSNs that were answered in order; READ
	ahead   []span // that came before their turn
	rspGap  bool
	skipped bool // a later one was answered before
	refused bool // by a NAK
}

// end returns the PSN after the last one of the message that is known.
func (o *op) end() ib.PSN { return o.first.Add(o.n) }

// answered reports whether only a response of its own ends the message.
func (o *op) answered() bool {
	switch o.kind {
	case roce.KindReadRequest, roce.KindCompareSwap, roce.KindFetchAdd, roce.KindFlush, roce.KindAtomicWrite:
		return true
	default:
		return false
	}
}

// tally counts messages that were completed.
type tally struct {
	messages, bytes int
	total, longest  time.Duration
}

// inFlight reports whether a PSN was sent and is not acknowledged.
func (h *half) inFlight(p ib.PSN) bool {
	return h.seen && p.Diff(h.una) >= 0 && p.Diff(h.next) < 0
}

// reliable follows a packet of RC, XRC or RD.
func (f *Follower) reliable(p *pcapfile.Packet) {
	fl := f.connected(p)
	c := fl.conv
	response := f.pkt.Info.Flags&roce.FlagResponse != 0
	if f.sight.copy {
		if h := &c.halves[1-fl.side]; response && !f.sight.turned && f.sight.deed != spoiled && h.seen {
			h.spoil(f) // a rule of faults may have lost the first only
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
	if f.sight.deed == delayed {
		c.halves[fl.side].held.note(f.now)
	}
}

// resync follows the first RESYNC after a message: the requester abandons it, or
// puts it off until the receiver is ready, and goes on with the PSN that it names.
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
	h.rnr.on, h.nak.on, h.failed, h.inside = false, false, false, false
	h.una, h.next = psn, psn
}

// learnMTU takes the path MTU from a packet that must fill it, and notes one
// that does not.
func (c *conversation) learnMTU(p *roce.Packet) {
	n := len(p.Payload)
	if p.Info.Payload != roce.PayloadMTU || n == 0 {
		return
	}
	if mtu, ok := ib.MTUFor(n); ok && mtu.Bytes() == n && n > c.mtu {
		c.mtu = n
	}
}

// request follows a request of a side.
func (c *conversation) request(f *Follower, side int) {
	h, p := &c.halves[side], &f.pkt
	psn := p.BTH.PSN
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
			c.restart(f, side, psn) // the number was given to another queue pair
			break
		}
		h.gaps = append(h.gaps, gap{from: psn, n: h.first.Distance(psn), in: f.now})
		h.first = psn
		fallthrough
	case d < 0:
		c.again(f, side, n)
		h.sent(f.now)
		return
	}
	h.repeat.active = false
	h.extend(f.now, p, n, c.vague(p))
	h.sent(f.now)
}

// leavesOpen reports whether a requester that gets an error at last may have got another one
// before.
func (d *doubt) leavesOpen() bool { return d.due || d.quiet >= lateAnswer }

// sent notes that the requester is alive.
func (h *half) sent(now instant) {
	h.lastSend, h.late.on = now, false
	h.doubt = doubt{borne: max(h.doubt.borne, h.doubt.quiet)}
}

// restart begins to follow a half with its first request.
func (c *conversation) restart(f *Follower, side int, psn ib.PSN) {
	c.giveUp(f, side)
	h := &c.halves[side]
	*h = half{seen: true, first: psn, next: psn, una: psn, msn: -1, done: h.done, answers: h.answers, ops: h.ops[:0]}
}

// settle corrects the length of a READ that was a guess by the PSN of what
// follows it, and reports whether that explains the PSN.
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

// skip notes a gap before a request.
func (h *half) skip(now instant, n uint32) {
	if len(h.gaps) < maxGaps {
		h.gaps = append(h.gaps, gap{from: h.next, n: n, in: now})
	}
	h.next = h.next.Add(n)
	h.inside = false
}

// extend adds a new request: a message, or more of the last one.
func (h *half) extend(now instant, p *roce.Packet, n uint32, vague bool) {
	psn := h.next
	h.next, h.ignored = psn.Add(n), 0
	flags := p.Info.Flags
	if h.inside && flags&roce.FlagStart == 0 && len(h.ops) > 0 && h.ops[len(h.ops)-1].end() == psn {
		o := &h.ops[len(h.ops)-1]
		o.extend(now, p)
		h.inside = !o.whole
		return
	}
	if len(h.ops) >= maxOps {
		h.skipped++
		h.inside = flags&roce.FlagEnd == 0
		return
	}
	o := begun(now, p)
	h.deferred.begins(o.src)
	o.n, o.vague = n, vague
	h.ops = append(h.ops, o)
	h.held.all++
	h.held.deepest = max(h.held.deepest, len(h.ops))
	h.inside = !o.whole
}

// begun returns the message that a packet begins, which may be in the middle of
// it if the rest was not seen.
func begun(now instant, p *roce.Packet) op {
	o := op{
		kind: p.Info.Kind, src: p.DETH.SrcQP, first: p.BTH.PSN, n: 1, begun: now,
		whole: p.Info.Flags&roce.FlagEnd != 0 || p.Info.Kind == roce.KindReadRequest,
	}
	if o.kind == roce.KindResync {
		o.src = noQPN // it is no message of a queue pair, though it names one
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

// invalidates notes the key that a packet of the message asks to invalidate.
func (o *op) invalidates(now instant, p *roce.Packet) {
	if p.Info.Flags&roce.FlagInv != 0 {
		o.inv, o.invKey = now, p.InvRKey
	}
}

// extend adds a packet to a message that takes one PSN a packet.
func (o *op) extend(now instant, p *roce.Packet) {
	o.n++
	o.whole = p.Info.Flags&roce.FlagEnd != 0
	o.invalidates(now, p)
	if o.kind == roce.KindSend {
		o.length += len(p.Payload)
	}
}

// psns returns how many PSNs a request takes.
func (c *conversation) psns(p *roce.Packet) uint32 {
	if p.Info.Kind != roce.KindReadRequest || p.RETH.Length == 0 {
		return 1
	}
	mtu := uint32(c.mtu)
	if mtu == 0 {
		mtu = uint32(ib.MTU4096.Bytes())
	}
	return min((p.RETH.Length-1)/mtu+1, maxJump)
}

// vague reports whether psns is a guess.
func (c *conversation) vague(p *roce.Packet) bool {
	return c.mtu == 0 && p.Info.Kind == roce.KindReadRequest && p.RETH.Length > smallestMTU
}
