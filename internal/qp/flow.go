package qp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Costs of a packet in a peer's receive buffer: the system charges its own
// bookkeeping too, so small packets cost more than their bytes.
const (
	packetOverhead = 128
	minPacketCost  = 512
)

// Bounds of a flow's window, in bytes of cost.
const (
	minWindow     = 8 << 10
	initialWindow = 128 << 10
)

// Flow is the sending window towards one peer address. All QPs to that peer
// share it, because what it protects, the peer's socket buffer, is shared. It
// grows while nothing is lost and halves when something is.
type Flow struct {
	dst      netip.Addr
	limit    int // bytes that may be in flight
	max      int
	inFlight int
	refs     int
	waiters  []*QP // QPs that have something to send but no window, from head on
	head     int
	over     *QP           // was let go over the limit; nil when all of it came back
	overEnd  clock.Instant // until when no other is
}

// FlowTable finds the flow of a peer address.
type FlowTable struct {
	m   map[netip.Addr]*Flow
	max int
}

// NewFlowTable returns an empty table of flows of at most maxWindow bytes.
func NewFlowTable(maxWindow int) *FlowTable {
	return &FlowTable{m: make(map[netip.Addr]*Flow), max: max(maxWindow, minWindow)}
}

// hold returns the flow to dst and counts a user.
func (t *FlowTable) hold(dst netip.Addr) *Flow {
	f := t.m[dst]
	if f == nil {
		f = &Flow{dst: dst, limit: min(initialWindow, t.max), max: t.max}
		t.m[dst] = f
	}
	f.refs++
	return f
}

// release takes a user back and forgets a flow without users.
func (t *FlowTable) release(f *Flow) {
	if f.refs--; f.refs == 0 {
		delete(t.m, f.dst)
	}
}

// packetCost returns what n bytes of payload cost in flight.
func packetCost(n uint32) uint32 { return max(n+packetOverhead, minPacketCost) }

// ackEvery returns how many packets of the given cost may pass between two
// that ask for an acknowledgement: a quarter of the window.
func (f *Flow) ackEvery(cost uint32) uint32 { return max(1, uint32(f.limit)/(4*cost)) }

// flowShare is what one QP has in flight.
type flowShare struct {
	cost    int
	waiting bool
	overdue bool // waited long enough: the next request goes whatever the window
}

// packetCost returns the cost of the next packet of w, which is at psn.
func (q *QP) packetCost(w *sendWQE, fresh bool, psn ib.PSN) uint32 {
	if needsResponse(w.Opcode) {
		n := min(packetCount(w.Length, q.mtu), q.readChunk())
		if !fresh {
			n = q.chunkEnd(w, psn).Distance(psn) + 1
		}
		return n * packetCost(min(w.Length, uint32(q.mtu)))
	}
	return packetCost(min(w.Length, uint32(q.mtu)))
}

// readChunk returns how many packets one READ request may ask for: a quarter
// of what the window can grow to. It is the same for the whole life of a QP's
// connection.
func (q *QP) readChunk() uint32 {
	return max(1, uint32(q.env.Settings.WindowBytes)/4/packetCost(uint32(q.mtu)))
}

// admitFlow reports whether cost more may be put in flight. A QP with nothing
// in flight may always send one packet: that is never too much; a READ chunk
// it may send over the limit, but not far. So may one send whose
// packets in flight ask for no acknowledgement: the next one does, or nothing
// would ever make room. A QP that must wait is woken when there is.
func (q *QP) admitFlow(cost uint32) bool {
	f := q.flow
	after := f.inFlight + int(cost)
	if after <= f.limit || f.inFlight == 0 || q.req.sinceAck > 0 || q.inFlow.overdue ||
		q.inFlow.cost == 0 && (cost <= packetCost(uint32(q.mtu)) || after <= 2*f.limit) {
		q.inFlow.overdue = false
		q.timers[timerFlow] = clock.Never
		return true
	}
	if !q.inFlow.waiting {
		q.inFlow.waiting = true
		f.waiters = append(f.waiters, q)
	}
	if q.inFlow.cost == 0 && q.timers[timerFlow] == clock.Never {
		q.timers[timerFlow] = q.env.Now.Add(flowPatience)
	}
	return false
}

// flowPatience is how long a QP with nothing in flight waits for room in the
// window. The room may be taken by what another QP lost and never sends again,
// or be too small, each time that it is offered, for what this one has to send.
const flowPatience = 100 * time.Millisecond

// overPatience is how long the one QP that is over the limit keeps others from
// going over it too. It ends what a QP holds that waits for ever.
const overPatience = 5 * flowPatience

// flowTimeout lets one request go whatever the window, so that nobody waits
// for ever: one QP of the flow at a time, or a peer slower than the patience
// of many would be asked by all of them at once, and answer none in time.
func (q *QP) flowTimeout(now clock.Instant) {
	f := q.flow
	switch {
	case q.inFlow.cost != 0:
	case f.over != nil && f.over != q && now < f.overEnd:
		q.timers[timerFlow] = now.Add(flowPatience)
	default:
		f.over, f.overEnd = q, now.Add(overPatience)
		q.inFlow.overdue = true
		q.env.Wake(q)
	}
}

// returned notes that nothing of q is in flight any more.
func (f *Flow) returned(q *QP) {
	if f.over == q {
		f.over = nil
	}
}

// flowHolds reports whether it is the window that keeps a QP with nothing in
// flight from sending.
func (q *QP) flowHolds() bool { return q.timers[timerFlow] != clock.Never || q.inFlow.overdue }

// charge counts a packet in flight.
func (q *QP) charge(cost uint32) {
	if q.flow == nil || q.typ != ib.RC {
		return
	}
	q.inFlow.cost += int(cost)
	q.flow.inFlight += int(cost)
}

// credited takes back what n of m packets in flight cost, after they were
// acknowledged, and lets the window grow by one packet for each window.
func (q *QP) credited(n, m uint32) {
	f := q.flow
	freed := q.inFlow.cost
	if n < m {
		freed = int(uint64(q.inFlow.cost) * uint64(n) / uint64(m))
	}
	q.inFlow.cost -= freed
	f.inFlight -= freed
	if q.inFlow.cost == 0 {
		f.returned(q)
	}
	if f.limit < f.max {
		f.limit = min(f.max, f.limit+max(1, freed*int(packetCost(uint32(q.mtu)))/f.limit))
	}
	f.wake(q.env.Wake)
}

// lostFlow halves the window after a loss and takes everything back: what was
// in flight will be sent again.
func (q *QP) lostFlow(shrink bool) {
	f := q.flow
	if shrink {
		f.limit = max(minWindow, f.limit/2)
	}
	f.inFlight -= q.inFlow.cost
	q.inFlow.cost = 0
	f.returned(q)
	f.wake(q.env.Wake)
}

// wake hands the room that is left to QPs that wait for it, oldest first.
func (f *Flow) wake(wake func(*QP)) {
	for room := f.limit - f.inFlight; f.head < len(f.waiters) && room > 0; f.head++ {
		q := f.waiters[f.head]
		f.waiters[f.head] = nil
		q.inFlow.waiting = false
		wake(q)
		room -= minPacketCost
	}
	if f.head > len(f.waiters)/2 {
		n := copy(f.waiters, f.waiters[f.head:])
		clear(f.waiters[n:])
		f.waiters, f.head = f.waiters[:n], 0
	}
}

// releaseFlow gives back all that the QP has in flight and its place in the
// line.
func (q *QP) releaseFlow() {
	f := q.flow
	if f == nil {
		return
	}
	f.inFlight -= q.inFlow.cost
	if q.inFlow.waiting {
		if i := slices.Index(f.waiters, q); i >= 0 {
			f.waiters = slices.Delete(f.waiters, i, i+1)
		}
	}
	q.inFlow = flowShare{}
	q.timers[timerFlow] = clock.Never
	f.returned(q)
	f.wake(q.env.Wake)
}
