package hca

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// maxPacket is an upper bound of the UDP payload of a packet: the largest path
// MTU, the longest headers and the ICRC.
const maxPacket = 4096 + 64

// Shard is a single-threaded slice of the adapter. It never blocks and never
// reads a clock. Its thread is the one that holds the shard's lock, which the
// driver owns. Only methods that say so may be called without it.
type Shard struct {
	cfg       *Config
	env       qp.Env
	counters  *counters.Set
	out       packet.Writer
	local     map[netip.Addr]struct{}
	qpns      numberTable[qp.QP]
	eecs      numberTable[qp.EEC]
	cm        *cm.Manager
	gsi       *gsi.Interface // QP1, unless qp1 is set
	qp1       *qp.QP         // QP1 created as a queue pair; nil: none
	count     int
	timers    deadlines
	doorbells doorbells
	active    activeList
	mcast     mcastTable

	madsFirst bool // MADs go before queue pairs in the next batch

	in       qp.Packet // the packet being processed
	verifier packet.Verifier
}

func newShard(cfg *Config, mtu ib.MTU) *Shard {
	s := &Shard{cfg: cfg, counters: cfg.Counters, local: make(map[netip.Addr]struct{}), timers: newDeadlines()}
	s.out = packet.Writer{Counters: s.counters, Trace: cfg.Trace}
	s.gsi = newGSI(cfg, &s.out)
	for _, a := range cfg.Caps.Addrs {
		s.local[a] = struct{}{}
	}
	s.qpns.init(cfg.QPNSlot)
	s.eecs.init(cfg.QPNSlot)
	s.env = qp.Env{
		Settings:     cfg.Settings,
		Mem:          memory.NewTable(cfg.Rand, cfg.Limits.MaxMR),
		AHs:          qp.NewAHTable(cfg.Limits.MaxAH),
		Counters:     s.counters,
		Out:          &s.out,
		PKey:         func(i uint16) ib.PKey { return cfg.PKeys[i] },
		QP:           func(n ib.QPN) *qp.QP { return s.qpns.find(uint32(n)) },
		EEC:          func(n ib.EECN) *qp.EEC { return s.eecs.find(uint32(n)) },
		Route:        s.route,
		FixedSrcPort: cfg.Caps.SrcPort,
		Gone:         make(map[netip.Addr]bool),
		Peers:        flow.NewTable(cfg.Settings.WindowBytes),
		Keep:         new(qp.KeepPool),
		Queues:       cfg.Queues,
		Raise:        cfg.Raise,
		CQFailed:     s.cqFailed,
		Wake:         s.wake,
		Trace:        cfg.Trace,
		Limits: qp.ModifyLimits{
			Ports: 1, PKeys: len(cfg.PKeys), GIDs: len(cfg.Caps.Addrs), ActiveMTU: mtu,
			MaxRDAtomic: cfg.Limits.MaxRDAtomic, MaxDestRDAtomic: cfg.Limits.MaxRDAtomic,
			Privileged: cfg.Privileged, APM: true, PortMbps: cfg.PortMbps,
		},
	}
	if cfg.Settings.InOrderOnly {
		s.env.Keep = nil
	}
	s.cm = s.newCM(mtu)
	return s
}

func newGSI(c *Config, out *packet.Writer) *gsi.Interface {
	return gsi.New(gsi.Config{
		Addrs: c.Caps.Addrs, PKeys: c.PKeys, MigReq: c.Settings.MigReq, SrcPort: c.Caps.SrcPort, Out: out,
	})
}

// Receive processes a datagram, which may hold several packets. It does not
// retain d or its bytes.
func (s *Shard) Receive(now clock.Instant, d *fabric.Datagram) {
	s.env.Now = now
	s.verifier.Begin()
	_, ours := s.local[d.Dst]
	for off, k := 0, 0; off < len(d.Bytes); k++ {
		var seg []byte
		seg, off = d.Segment(off)
		switch {
		case s.in.Parse(seg) != roce.FaultNone:
			s.counters.Drops[counters.DropMalformed]++
		case ours:
			s.receivePacket(now, d, seg, k)
		default:
			s.receiveMcast(now, d, seg, k)
		}
	}
}

// receivePacket makes the checks of a parsed packet that need no QP, finds the
// QP and passes the packet to it.
func (s *Shard) receivePacket(now clock.Instant, d *fabric.Datagram, seg []byte, k int) {
	p := &s.in
	if p.Info.Service == roce.ServiceRD {
		s.receiveRD(now, d, seg, k)
		return
	}
	q := s.find(p.BTH.DestQP)
	if q == nil && p.BTH.DestQP != ib.QPNGSI {
		s.counters.Drops[counters.DropNoQP]++
		return
	}
	if !s.verify(d, seg, k) {
		s.counters.Drops[counters.DropICRC]++
		return
	}
	if q == nil {
		s.gsi.Receive(now, &p.Packet, d)
		return
	}
	p.Data, p.Size = d, len(seg)
	q.Receive(now, p)
	s.timers.arm(&q.End)
}

// receiveRD does the same for an RD packet, which is for an EE context.
func (s *Shard) receiveRD(now clock.Instant, d *fabric.Datagram, seg []byte, k int) {
	p := &s.in
	e := s.eecs.find(p.RDETH.EEC)
	if e == nil {
		s.counters.Drops[counters.DropNoEEC]++
		return
	}
	if !s.verify(d, seg, k) {
		s.counters.Drops[counters.DropICRC]++
		return
	}
	p.Data, p.Size = d, len(seg)
	e.Receive(now, p)
	s.timers.arm(&e.End)
}

// find returns the QP with number n, nil if there is none.
func (s *Shard) find(n ib.QPN) *qp.QP {
	if n == ib.QPNGSI {
		return s.qp1
	}
	return s.qpns.find(uint32(n))
}

// verify checks the ICRC of segment k of a datagram, the current packet, and
// stores its identification.
func (s *Shard) verify(d *fabric.Datagram, seg []byte, k int) (ok bool) {
	s.in.IDDerived = !d.IDKnown
	s.in.ID, ok = s.verifier.Verify(d, seg, k)
	return ok
}

// Transmit appends packets of the QPs, which take turns, until the batch is
// full. It reports whether there are more. A bounded number of MADs goes before
// the QPs in one batch and after them in the next, so that neither starves the
// other, whatever the size of the batch.
func (s *Shard) Transmit(now clock.Instant, b *fabric.Batch) (more bool) {
	s.env.Now = now
	if s.doorbells.pending() {
		s.doorbells.answer(func(q *qp.QP) { s.answer(now, q) })
	}
	first := s.madsFirst
	s.madsFirst = !first
	if first {
		s.transmitMADs(now, b)
	}
	for b.Room() >= maxPacket {
		e := s.active.pop()
		if e == nil {
			break
		}
		if e.Transmit(now, b) {
			s.active.push(e)
		}
		s.timers.arm(e)
	}
	if !first {
		s.transmitMADs(now, b)
	}
	return s.active.head != nil || s.madsPending()
}

// Advance fires the timers that are due.
func (s *Shard) Advance(now clock.Instant) {
	s.env.Now = now
	for e := s.timers.Due(now); e != nil; e = s.timers.Due(now) {
		if e.Deadline() <= now {
			e.Advance(now)
		}
		s.timers.arm(e)
	}
	s.gsi.Advance(now)
	s.cm.Advance(now)
}

// Deadline returns when Advance is next needed; clock.Never when idle.
func (s *Shard) Deadline() clock.Instant {
	return min(s.timers.Next(), s.gsi.Deadline(), s.cm.Deadline())
}

// Pending reports whether Transmit has something to do. The shard's thread
// calls it; see DoorbellRung for others.
func (s *Shard) Pending() bool {
	return s.Owes() || s.madsPending()
}

// Owes reports whether queue pairs or EE contexts have something to transmit.
func (s *Shard) Owes() bool { return s.active.head != nil || s.doorbells.pending() }

// AnswersFirst sets whether acknowledgements and responses leave before
// requests or after them in the same run. If the peer's program sleeps for
// completions, they must leave first: only then does it see its own completion
// before this side's message.
func (s *Shard) AnswersFirst(first bool) { s.env.AnswersFirst = first }

// transmitMADs gives QP1 its turn.
func (s *Shard) transmitMADs(now clock.Instant, b *fabric.Batch) {
	if s.madsPending() {
		s.gsi.Transmit(now, b)
	}
}

// madsPending reports whether QP1 has something to send and is not replaced by
// a queue pair.
func (s *Shard) madsPending() bool { return s.qp1 == nil && s.gsi.Pending() }

// DoorbellRung reports whether a doorbell is pending. Any goroutine may call it.
func (s *Shard) DoorbellRung() bool { return s.doorbells.pending() }

// RingDoorbell tells the shard that work was posted to q. Any goroutine may call it.
func (s *Shard) RingDoorbell(q *qp.QP) { s.doorbells.ring(q) }

// Doorbell processes posted work at once, on the shard's thread; after
// RingDoorbell the next Transmit does it.
func (s *Shard) Doorbell(now clock.Instant, q *qp.QP) {
	s.env.Now = now
	s.answer(now, q)
}

// answer makes q process posted work, if it still exists.
func (s *Shard) answer(now clock.Instant, q *qp.QP) {
	if s.find(q.Num()) == q {
		q.Doorbell(now)
	}
}

// Arm updates the shard's timer of a QP or EE context after a modify call.
func (s *Shard) Arm(e *qp.End) { s.timers.arm(e) }

// add makes a QP reachable.
func (s *Shard) add(q *qp.QP) {
	s.count++
	if q.Num() == ib.QPNGSI {
		s.qp1 = q
		return
	}
	s.qpns.add(uint32(q.Num()), q)
}

// remove removes a QP from every list.
func (s *Shard) remove(q *qp.QP) {
	s.count--
	s.timers.Remove(&q.End)
	s.active.remove(&q.End)
	if q.Num() == ib.QPNGSI {
		s.qp1 = nil
		return
	}
	s.qpns.remove(uint32(q.Num()))
}

// cqFailed fails the QPs of a CQ that overflowed.
func (s *Shard) cqFailed(now clock.Instant, cq *qp.CQ) {
	s.qpns.each(func(q *qp.QP) { q.CQFailed(now, cq) })
	if s.qp1 != nil {
		s.qp1.CQFailed(now, cq)
	}
}

// wake puts an end on the list of senders.
func (s *Shard) wake(e *qp.End) { s.active.push(e) }

// deadlines is a heap of ends by an instant that is not later than their
// deadline. A deadline that moves later, as a retry timer does with each
// acknowledgement, costs nothing: the end comes up early and is put back.
type deadlines struct{ deadline.Heap[qp.End] }

func newDeadlines() deadlines {
	return deadlines{deadline.New(func(e *qp.End) *deadline.Link { return &e.Links.Timer })}
}

// arm makes sure that e comes up no later than its deadline.
func (d *deadlines) arm(e *qp.End) {
	if at := e.Deadline(); at < e.Links.Timer.At() {
		d.Set(e, at)
	}
}

// activeList is the queue of ends that may have something to send.
type activeList struct{ head, tail *qp.End }

func (l *activeList) push(e *qp.End) {
	if e.Links.Active {
		return
	}
	e.Links.Active = true
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.Links.NextActive = e
	}
	l.tail = e
}

func (l *activeList) pop() *qp.End {
	e := l.head
	if e == nil {
		return nil
	}
	l.head = e.Links.NextActive
	if l.head == nil {
		l.tail = nil
	}
	e.Links.NextActive, e.Links.Active = nil, false
	return e
}

func (l *activeList) remove(e *qp.End) {
	if !e.Links.Active {
		return
	}
	var before *qp.End
	for x := l.head; x != e; x = x.Links.NextActive {
		before = x
	}
	if before == nil {
		l.pop()
		return
	}
	before.Links.NextActive = e.Links.NextActive
	if l.tail == e {
		l.tail = before
	}
	e.Links.NextActive, e.Links.Active = nil, false
}
