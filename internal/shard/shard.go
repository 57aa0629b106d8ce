package shard

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/number"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// maxPacket is an upper bound of the UDP payload of a packet: the largest path
// MTU, the longest headers and the ICRC.
const maxPacket = 4096 + 64

// GSI is the management interface of all ports, QP1. It is an interface so that the data path
// imports neither its agents nor the connection manager. While a program has QP1 as a queue
// pair, the shard does not use it.
type GSI interface {
	// Receive takes a packet for QP1, whose ICRC is right. It does not retain it.
	Receive(now clock.Instant, p *roce.Packet, d *fabric.Datagram)
	// Transmit appends a bounded number of MADs that leave by a port, and reports whether there
	// are more.
	Transmit(now clock.Instant, port uint8, b *fabric.Batch) (more bool)
	// Pending reports whether Transmit has something to do for a port.
	Pending(port uint8) bool
	// Advance fires the timers that are due, if they belong to the shard and not to a control
	// plane.
	Advance(now clock.Instant)
	// Deadline returns when Advance is next needed; clock.Never when idle.
	Deadline() clock.Instant
}

// Shard is a single-threaded slice of the adapter. It never blocks and never
// reads a clock. Its thread is the one that holds the shard's lock, which the
// driver owns. Only methods that say so may be called without it. Its ports are
// numbered from 1, in the order of qp.Env.
type Shard struct {
	env       *qp.Env
	counters  *counters.Set
	local     map[netip.Addr]uint8 // the number of the port that has an address
	gsi       GSI
	doorbells doorbells
	groups    Groups

	in       qp.Packet // the packet being processed
	verifier packet.Verifier
	lastDst  netip.Addr // destination of the last datagram
	lastPort uint8      // the number of its port, 0 if it is not a local address
}

// New returns a shard for objects whose numbers are in a slot. It
// completes env, in which the adapter has set its part.
func New(env *qp.Env, slot uint8, gsi GSI) *Shard {
	s := &Shard{env: env, counters: env.Counters, local: make(map[netip.Addr]uint8), gsi: gsi}
	for i, p := range env.Ports {
		p.Num = uint8(i + 1)
		for _, a := range p.Addrs {
			s.local[a] = p.Num
		}
	}
	env.QPs, env.EECs = number.NewTable[qp.QP](slot), number.NewTable[qp.EEC](slot)
	env.SRQs = number.NewTable[qp.SRQ](slot)
	env.Timers, env.Delayed, env.Late = qp.NewTimers(), qp.NewDelayed(), qp.NewLate()
	env.Peers = flow.NewTable(env.Settings.WindowBytes)
	if env.Backlog != nil {
		env.Sockets = flow.NewSocketCredits(env.Backlog)
	}
	if !env.Settings.InOrderOnly {
		env.Reorder = new(qp.ReorderPool)
	}
	return s
}

// Receive processes a datagram that has arrived at a port. It may hold several packets. Receive
// does not retain d or its bytes.
func (s *Shard) Receive(now clock.Instant, port uint8, d *fabric.Datagram) {
	s.env.Enter(now)
	s.verifier.Begin(d)
	s.in.Port = port
	ours := s.portOf(d.Dst) == port
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

// portOf returns the number of the port that has the destination address of a datagram, 0 if none
// has. Most datagrams have the destination of the previous one.
func (s *Shard) portOf(dst netip.Addr) uint8 {
	if dst != s.lastDst {
		s.lastDst, s.lastPort = dst, s.local[dst]
	}
	return s.lastPort
}

// receivePacket makes the checks of a parsed packet that need no QP, finds the
// QP and passes the packet to it.
func (s *Shard) receivePacket(now clock.Instant, d *fabric.Datagram, seg []byte, k int) {
	p := &s.in
	if p.Info.Service == roce.ServiceRD {
		s.receiveRD(now, d, seg, k)
		return
	}
	q := s.QP(p.BTH.DestQP)
	if q == nil && p.BTH.DestQP != ib.QPNGSI {
		s.drop(now, d, len(seg), counters.DropNoQP)
		return
	}
	if !s.verify(d, seg, k) {
		s.drop(now, d, len(seg), counters.DropICRC)
		return
	}
	if q == nil {
		s.gsi.Receive(now, &p.Packet, d)
		return
	}
	p.Data, p.Size = d, len(seg)
	q.Receive(now, p)
	q.Arm()
}

// drop counts and traces the current packet, which reaches no queue pair and no EE context.
func (s *Shard) drop(now clock.Instant, d *fabric.Datagram, size int, why counters.Drop) {
	s.counters.Drops[why]++
	if s.env.Trace == nil {
		return
	}
	p := &s.in
	r := trace.Record{Kind: trace.Drop, PSN: p.BTH.PSN, Len: size, Cause: why.String(), Local: d.Dst, Remote: d.Src}
	to := p.BTH.DestQP
	if p.Info.Service == roce.ServiceRD {
		r.EEC, to = true, ib.QPN(p.RDETH.EEC)
	}
	s.env.Out.Record(now, to, r)
}

// receiveRD does the same for an RD packet, which is for an EE context.
func (s *Shard) receiveRD(now clock.Instant, d *fabric.Datagram, seg []byte, k int) {
	p := &s.in
	e := s.env.EECs.Find(p.RDETH.EEC)
	if e == nil {
		s.drop(now, d, len(seg), counters.DropNoEEC)
		return
	}
	if !s.verify(d, seg, k) {
		s.drop(now, d, len(seg), counters.DropICRC)
		return
	}
	p.Data, p.Size = d, len(seg)
	e.Receive(now, p)
	e.Arm()
}

// QP returns the QP with number n, nil if there is none.
func (s *Shard) QP(n ib.QPN) *qp.QP {
	if n == ib.QPNGSI {
		return s.env.QP1
	}
	return s.env.QPs.Find(uint32(n))
}

// verify checks the ICRC of segment k of a datagram, the current packet, and
// stores its identification.
func (s *Shard) verify(d *fabric.Datagram, seg []byte, k int) (ok bool) {
	s.in.IDDerived = !d.IDKnown
	s.in.ID, ok = s.verifier.Verify(d, seg, k)
	return ok
}

// Transmit appends packets of the QPs with a path from a port, which take turns, until the
// batch is full. It reports whether there are more. A bounded number of MADs goes before
// the QPs in one batch of a port and after them in the next, so that neither starves the
// other, whatever the size of the batch.
func (s *Shard) Transmit(now clock.Instant, port uint8, b *fabric.Batch) (more bool) {
	s.env.Enter(now)
	s.env.EnterBatch(b)
	b.Now = now
	if s.doorbells.pending() {
		s.doorbells.answer(func(q *qp.QP) { s.answer(now, q) })
	}
	p := s.env.Ports[port-1]
	first := p.MADsFirst
	p.MADsFirst = !first
	if first {
		s.transmitMADs(now, port, b)
	}
	for b.Room() >= maxPacket {
		e := p.Active.Pop()
		if e == nil {
			break
		}
		if e.Transmit(now, b) {
			e.Wake()
		}
		e.Arm()
	}
	if !first {
		s.transmitMADs(now, port, b)
	}
	return !p.Active.Empty() || s.madsPending(port)
}

// Advance fires the timers that are due.
func (s *Shard) Advance(now clock.Instant) {
	s.env.Enter(now)
	timers := &s.env.Timers
	for e := timers.Due(now); e != nil; e = timers.Due(now) {
		if e.Deadline() <= now {
			e.Advance(now)
		}
		e.Arm()
	}
	s.env.Late.Advance(now, s.env)
	s.env.Delayed.Advance(now)
	s.gsi.Advance(now)
}

// Deadline returns when Advance is next needed; clock.Never when idle.
func (s *Shard) Deadline() clock.Instant {
	return min(s.env.Timers.Next(), s.env.Delayed.Next(), s.env.Late.Next(), s.gsi.Deadline())
}

// Pending reports whether Transmit has something to do for a port. The shard's
// thread calls it; see DoorbellRung for others.
func (s *Shard) Pending(port uint8) bool {
	return !s.env.Ports[port-1].Active.Empty() || s.doorbells.pending() || s.madsPending(port)
}

// Owes reports whether queue pairs or EE contexts have something to transmit from any port.
func (s *Shard) Owes() bool {
	for _, p := range s.env.Ports {
		if !p.Active.Empty() {
			return true
		}
	}
	return s.doorbells.pending()
}

// AnswersFirst sets whether acknowledgements and responses leave before
// requests or after them in the same run. If the peer's program sleeps for
// completions, they must leave first: only then does it see its own completion
// before this side's message.
func (s *Shard) AnswersFirst(first bool) { s.env.AnswersFirst = first }

// transmitMADs gives QP1 its turn at a port.
func (s *Shard) transmitMADs(now clock.Instant, port uint8, b *fabric.Batch) {
	if s.madsPending(port) {
		s.gsi.Transmit(now, port, b)
	}
}

// madsPending reports whether QP1 has something to send from a port and is not replaced by
// a queue pair.
func (s *Shard) madsPending(port uint8) bool { return s.env.QP1 == nil && s.gsi.Pending(port) }

// DoorbellRung reports whether a doorbell is pending. Any goroutine may call it.
func (s *Shard) DoorbellRung() bool { return s.doorbells.pending() }

// RingDoorbell tells the shard that work was posted to q. Any goroutine may call it.
func (s *Shard) RingDoorbell(q *qp.QP) { s.doorbells.ring(q) }

// Doorbell processes posted work at once, on the shard's thread; after
// RingDoorbell the next Transmit does it.
func (s *Shard) Doorbell(now clock.Instant, q *qp.QP) {
	s.env.Enter(now)
	s.answer(now, q)
}

// answer makes q process posted work, if it still exists.
func (s *Shard) answer(now clock.Instant, q *qp.QP) {
	if s.QP(q.Num()) == q {
		q.Doorbell(now)
	}
}

// Groups returns the multicast groups of the shard.
func (s *Shard) Groups() *Groups { return &s.groups }

// Add makes a QP reachable.
func (s *Shard) Add(q *qp.QP) {
	if q.Num() == ib.QPNGSI {
		s.env.QP1 = q
		return
	}
	s.env.QPs.Add(uint32(q.Num()), q)
}

// Remove makes a QP unreachable.
func (s *Shard) Remove(q *qp.QP) {
	if q.Num() == ib.QPNGSI {
		s.env.QP1 = nil
		return
	}
	s.env.QPs.Remove(uint32(q.Num()))
}

// AddEEC makes an EE context reachable.
func (s *Shard) AddEEC(e *qp.EEC) { s.env.EECs.Add(uint32(e.Num()), e) }

// RemoveEEC makes an EE context unreachable.
func (s *Shard) RemoveEEC(e *qp.EEC) { s.env.EECs.Remove(uint32(e.Num())) }

// AddSRQ makes an SRQ of XRC reachable.
func (s *Shard) AddSRQ(q *qp.SRQ) { s.env.SRQs.Add(uint32(q.Num()), q) }

// RemoveSRQ makes an SRQ of XRC unreachable, and ends its use by targets.
func (s *Shard) RemoveSRQ(q *qp.SRQ) {
	s.env.SRQs.Remove(uint32(q.Num()))
	q.LeaveXRC()
}

// AddressLost reports that a port has lost or regained a local address. Queue pairs and EE
// contexts whose path uses a lost address migrate if they are armed (V15); the others fail
// by their timers.
func (s *Shard) AddressLost(now clock.Instant, addr netip.Addr, lost bool) {
	s.env.Enter(now)
	if port := s.local[addr]; port != 0 {
		s.env.Ports[port-1].SetLost(addr, lost)
	}
	if lost {
		s.env.QPs.Each(func(q *qp.QP) { q.AddressLost(now, addr) })
		s.env.EECs.Each(func(e *qp.EEC) { e.AddressLost(now, addr) })
	}
}
