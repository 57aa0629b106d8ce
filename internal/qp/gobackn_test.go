package qp_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

// Times of the model of rxe.
const (
	rxeStep    = 10 * time.Microsecond // between two packets
	rxeTransit = 50 * time.Microsecond // one way
	rxeTimeout = 67 * time.Millisecond
	rxeUnacked = 128 // PSNs that it sends without an acknowledgement
	rxeUnasked = 64  // packets in a row that do not request an ACK; the next one does
)

// rxeState is how far a message has come.
type rxeState uint8

const (
	rxePosted     rxeState = iota // no packet of it was sent, or none since the requester went back
	rxeProcessing                 // a part was sent
	rxePending                    // all of it was
)

// rxeWQE is a WRITE of a few packets.
type rxeWQE struct {
	state       rxeState
	first, last uint32
	sent        uint32 // packets
	n           uint32
}

// flying is a packet on the wire.
type flying struct {
	at       clock.Instant
	p        roce.Packet
	response bool
}

// rxe models how the requester and the completer of Linux rxe recover from loss: after
// a sequence NAK or a timeout it sends again everything from the oldest
// PSN that is not acknowledged. An ACK counts for the oldest message alone, which it
// completes only if all of that was sent; but it advances the acknowledged PSN
// even if not, and the timer restarts only while packets are not acknowledged.
type rxe struct {
	s       *rig.Solo
	rng     *rand.Rand
	loss    float64
	late    float64
	wqes    []rxeWQE // not completed
	index   int      // of the message that is being sent
	psn     uint32   // next to send
	acked   uint32   // next that an ACK is expected for
	retry   bool     // it goes back before the next packet
	started bool     // it went back, and nothing was acknowledged since
	timer   clock.Instant
	fired   bool
	wire    []flying
	held    [2]*flying // overtaken by the next packet of its direction
	in      []roce.Packet
	drop    func(p *roce.Packet) bool // loses a packet on purpose
	pace    time.Duration             // between packets that are sent again
	next    clock.Instant             // when the next packet may go
	unasked int                       // packets since the last that requested an ACK
	exits   ib.MSN                    // messages after which the responder's program exits; 0: it never does
	gone    bool                      // it has
	done    int
	retries int
}

func newRxe(t *testing.T, seed uint64) *rxe {
	return &rxe{
		s: rig.NewSolo(t, rig.SoloConfig{}), rng: rand.New(rand.NewPCG(seed, 1)),
		psn: rig.PeerPSN, acked: rig.PeerPSN, timer: clock.Never,
		drop: func(*roce.Packet) bool { return false },
	}
}

// post appends a WRITE of n packets.
func (r *rxe) post(n uint32) { r.wqes = append(r.wqes, rxeWQE{n: n}) }

// carry puts a packet on the wire.
func (r *rxe) carry(p roce.Packet, response bool) {
	if r.drop(&p) || r.rng.Float64() < r.loss {
		return
	}
	f := flying{r.s.Now.Add(rxeTransit), p, response}
	dir := 0
	if response {
		dir = 1
	}
	if h := r.held[dir]; h != nil {
		r.held[dir] = nil
		h.at = f.at
		r.wire = append(r.wire, f, *h)
		return
	}
	if r.rng.Float64() < r.late {
		f.at = r.s.Now.Add(10 * time.Millisecond)
		r.held[dir] = &f
		return
	}
	r.wire = append(r.wire, f)
}

// goBack prepares a retransmission.
func (r *rxe) goBack() {
	r.index, r.psn, r.retry = 0, r.acked, false
	r.retries++
	for i := range r.wqes {
		w := &r.wqes[i]
		if w.state == rxePosted {
			break
		}
		w.sent = 0
		if i == 0 {
			w.sent = r.acked - w.first
		}
		w.state = rxePosted
	}
}

// request sends the next packet and reports whether there was one.
func (r *rxe) request() bool {
	if r.retry {
		r.goBack()
	}
	if r.index == len(r.wqes) || int32(r.psn-r.acked) > rxeUnacked {
		return false
	}
	if r.s.Now < r.next {
		return true
	}
	w := &r.wqes[r.index]
	if w.sent >= w.n {
		r.s.T.Errorf("the peer sends a message of %d packets once more though all of it is acknowledged", w.n)
		w.sent = w.n - 1
	}
	start, end := w.sent == 0, w.sent == w.n-1
	op := roce.RCRDMAWriteMiddle
	switch {
	case start && end:
		op = roce.RCRDMAWriteOnly
	case start:
		op = roce.RCRDMAWriteFirst
	case end:
		op = roce.RCRDMAWriteLast
	}
	p := r.s.Write(op, r.psn, make([]byte, 256), int(w.n)*256)
	p.BTH.AckReq = end || r.unasked > rxeUnasked
	if r.unasked++; p.BTH.AckReq {
		r.unasked = 0
	}
	if start {
		w.first, w.last = r.psn, r.psn+w.n-1
	}
	r.carry(p, false)
	r.psn++
	if r.started {
		r.next = r.s.Now.Add(r.pace)
	}
	if w.sent++; end {
		w.state = rxePending
		r.index++
	} else {
		w.state = rxeProcessing
	}
	if r.timer == clock.Never {
		r.timer = r.s.Now.Add(rxeTimeout)
	}
	return true
}

// complete handles one response or a timeout, and reports whether there was one.
func (r *rxe) complete() bool {
	fired := r.fired
	if r.fired = false; r.retry {
		return false
	}
	if len(r.in) > 0 {
		p := r.in[0]
		r.in = r.in[1:]
		r.response(p.BTH.PSN.Value(), p.AETH.Syndrome)
		return true
	}
	if fired && len(r.wqes) > 0 && r.wqes[0].state != rxePosted {
		r.again(true)
		return true
	}
	if int32(r.psn-r.acked) > 0 {
		r.timer = r.s.Now.Add(rxeTimeout)
	}
	return false
}

// again starts a retransmission, if there is anything unacknowledged.
func (r *rxe) again(timeout bool) {
	if r.started && !timeout {
		return
	}
	if int32(r.psn-r.acked) > 0 {
		r.retry, r.started = true, true
	}
}

// response handles an ACK or a NAK.
func (r *rxe) response(psn uint32, s roce.Syndrome) {
	for len(r.wqes) > 0 && r.wqes[0].state != rxePosted {
		w := &r.wqes[0]
		switch past := int32(psn - w.last); {
		case past > 0 && w.state == rxePending:
			r.started = false
			if int32(w.last-r.acked) >= 0 {
				r.acked = w.last + 1
			}
			r.finish()
			continue
		case past > 0:
			return
		case int32(psn-r.acked) < 0:
			if past == 0 {
				r.finish()
			}
			return
		case s == roce.NAKSequence:
			r.acked = max(r.acked, psn)
			r.again(false)
			return
		case past == 0 && w.state == rxePending:
			r.finish()
		}
		r.started = false
		r.acked = psn + 1
		return
	}
}

// finish completes the oldest message.
func (r *rxe) finish() {
	r.wqes = r.wqes[1:]
	r.index = max(r.index-1, 0)
	r.done++
}

// step sends the next packet, and delivers packets that are due.
func (r *rxe) step() (busy bool) {
	for i, h := range r.held {
		if h != nil && h.at <= r.s.Now {
			r.wire = append(r.wire, *h)
			r.held[i] = nil
		}
	}
	var now []flying
	r.wire = slices.DeleteFunc(r.wire, func(f flying) bool {
		if f.at <= r.s.Now {
			now = append(now, f)
		}
		return f.at <= r.s.Now
	})
	for _, f := range now {
		if f.response {
			r.in = append(r.in, f.p)
			continue
		}
		if r.gone {
			continue
		}
		for _, p := range r.s.Inject(f.p) {
			r.gone = r.gone || p.AETH.MSN == r.exits && r.exits != 0
			r.carry(p, true)
		}
	}
	if r.timer <= r.s.Now {
		r.timer, r.fired = clock.Never, true
	}
	sent := r.request()
	return r.complete() || sent || len(r.wire) > 0 || r.held != [2]*flying{}
}

// run runs until all messages are complete, and reports false if rxe hangs.
func (r *rxe) run() bool {
	for end := r.s.Now.Add(10 * time.Second); len(r.wqes) > 0; {
		if r.s.Now >= end {
			return false
		}
		if r.step() || r.fired {
			r.s.Now = r.s.Now.Add(rxeStep)
			continue
		}
		if r.timer == clock.Never {
			return false
		}
		r.s.Now = max(r.s.Now.Add(rxeStep), r.timer)
	}
	return true
}

// TestRxeRetriesTheLastPacket shows that rxe completes a message that lost a packet,
// even if then the retransmitted last packet or its ACK is lost. If the responder had
// acknowledged its buffered packets up to the end, rxe would wait forever.
func TestRxeRetriesTheLastPacket(t *testing.T) {
	const n, missing, last = 8, rig.PeerPSN + 6, rig.PeerPSN + 7
	end, ack := rig.Req(roce.RCRDMAWriteLast, last), rig.Req(roce.RCAcknowledge, last)
	for _, lost := range []rig.Signature{end, ack} {
		r := newRxe(t, 1)
		r.pace = 3 * rxeTransit // an ACK of the buffered packets overtakes the last packet
		sent, done := map[rig.Signature]int{}, false
		r.drop = func(p *roce.Packet) bool {
			g := rig.Req(p.BTH.Opcode, p.BTH.PSN.Value())
			sent[g]++
			if g == lost && sent[end] == 2 && !done {
				done = true
				return true
			}
			return sent[g] == 1 && g == rig.Req(roce.RCRDMAWriteMiddle, missing)
		}
		r.post(n)
		if !r.run() {
			t.Errorf("the last packet comes again, and %v is lost: the message of the peer never completes", lost)
		}
		if !done || r.retries != 2 {
			t.Errorf("%v is lost: %t; the peer went back %d times, want once for the NAK and once for its timer", lost, done, r.retries)
		}
	}
}

// TestRxeIsAnsweredBeforeExit loses or delays up to three packets of a message to a program
// that exits after it. The answers sent before the program got its completion must suffice
// for rxe to complete the message: later packets get no answer.
func TestRxeIsAnsweredBeforeExit(t *testing.T) {
	const n = 8
	for run := 1; run <= 3; run++ {
		for first := range uint32(n - run) {
			for _, late := range []bool{false, true} {
				r := newRxe(t, 1)
				r.exits = 1
				hit := 0
				r.drop = func(p *roce.Packet) bool {
					if p.BTH.Opcode == roce.RCAcknowledge || hit == run || p.BTH.PSN.Value() != rig.PeerPSN+first+uint32(hit) {
						return false
					}
					if hit++; late {
						r.wire = append(r.wire, flying{r.s.Now.Add(rxeTransit + n*rxeStep), *p, false})
					}
					return true
				}
				r.post(n)
				if !r.run() {
					t.Errorf("%d packets from the %dth on, late: %t: the peer waits forever for an ACK of a message that was executed", run, first, late)
				}
				if hit != run || !r.gone {
					t.Errorf("%d packets from the %dth on: %d were hit, and the program ends: %t", run, first, hit, r.gone)
				}
			}
		}
	}
}

// TestRxeSurvivesLossAndReordering runs rxe's requester over a wire that loses and
// reorders packets both ways: each of its messages completes.
func TestRxeSurvivesLossAndReordering(t *testing.T) {
	for _, c := range []struct{ n, depth uint32 }{{64, 1}, {16, 1}, {16, 4}, {3, 8}, {2, 1}, {1, 4}} {
		for seed := range uint64(20) {
			r := newRxe(t, seed)
			r.loss, r.late = 0.01, 0.01
			r.pace = time.Duration(seed%3) * rxeTransit
			for r.done < 1000/int(c.n) && !t.Failed() {
				for range c.depth {
					r.post(c.n)
				}
				if !r.run() {
					t.Errorf("seed %d, messages of %d packets, %d at once: after %d messages the peer waits forever", seed, c.n, c.depth, r.done)
				}
			}
		}
	}
}
