package channels

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// program is the owner of a queue pair.
type program struct {
	n     *node
	index int // index among all programs
	local int // index among those of the adapter
	q     *qp.QP
	life  int // number of times that the queue pair was started
	qkey  ib.QKey

	queue       []*work // incomplete requests, in order
	free        []int   // slots for them
	recvs       *receives
	seq         int // sequence number of the last request
	met         map[met]int
	disturbedAt clock.Instant // when the queue pair was last disturbed
	disturbed   bool          // peers cannot count on the queue pair
}

// met is one life of a sender known to a program, with the sequence number of
// its last message.
type met struct {
	from *program
	life int
}

// work is a send request.
type work struct {
	id, seq  uint64
	from, to *program
	life     int // of from
	toLife   int
	via      *end
	op       ib.WROpcode
	bad      bad
	n        uint32
	slot     int
	at       clock.Instant
	got      bool // its message was delivered
	over     bool
	status   ib.WCStatus // if over
}

// bad is a deliberate error in a request.
type bad uint8

const (
	good bad = iota
	badQKey
	badQPN
	badRKey
	badLKey
	badEEC
	badRDD
	badLength
	badDomain  // the queue pair at the peer is in another one
	badService // or of another service
	numBad
)

// earned is the expected status of a bad request.
var earned = [numBad]ib.WCStatus{
	good: ib.WCSuccess, badQKey: ib.WCRemInvRDReqErr, badQPN: ib.WCRemInvRDReqErr, badRKey: ib.WCRemAccessErr, badLKey: ib.WCLocProtErr,
	badEEC: ib.WCInvEECNErr, badRDD: ib.WCLocRDDViolErr, badLength: ib.WCRemInvReqErr, badDomain: ib.WCRemInvRDReqErr,
	badService: ib.WCRemInvRDReqErr,
}

func (p *program) create() {
	c := hca.QPConfig{
		Type: ib.RD, SendCQ: p.n.cq, RecvCQ: p.n.cq, RDD: p.n.rdd, SigAll: true,
		Cap: ib.QPCap{MaxSendWR: slots, MaxRecvWR: depth, MaxSendSGE: 2, MaxRecvSGE: 1},
	}
	if p.n.w.plan.shared && p.local%2 == 0 {
		p.recvs, c.SRQ = p.n.shared, p.n.shared.srq
	}
	var err error
	p.q, err = p.n.HCA.CreateQP(p.n.PD, c)
	p.n.w.Must(err)
	p.begin()
}

// begin moves a queue pair from RESET to RTS.
func (p *program) begin() {
	p.life++
	p.queue, p.met, p.seq = nil, make(map[met]int), 0
	p.free = p.free[:0]
	for i := range slots {
		p.free = append(p.free, i)
	}
	if p.recvs != p.n.shared {
		p.recvs = newReceives(atRecv+p.local*depth*recvLen, depth)
	}
	p.qkey = ib.QKey(p.index*1000 + p.life)
	p.n.w.Must(p.n.walk(p.q, &ib.QPAttr{Port: 1, QKey: p.qkey, AccessFlags: ib.AccessRemote, MinRNRTimer: uint8(4 + p.index%8)}))
	p.disturbed, p.disturbedAt = false, p.n.w.Now
}

func (p *program) modify(a *ib.QPAttr, mask ib.AttrMask) error {
	err := p.q.Modify(p.n.w.Now, a, mask)
	p.n.poll()
	return err
}

func (p *program) move(to ib.QPState) error {
	return p.modify(&ib.QPAttr{State: to}, ib.AttrState)
}

// disturb records that peers cannot count on the queue pair.
func (p *program) disturb() { p.disturbed = true }

// act is one action of a program.
func (w *world) act(r *rand.Rand) {
	p := w.programs[r.IntN(len(w.programs))]
	switch v := r.Float64(); {
	case v < w.plan.unrest:
		w.unrest(p, r)
		return
	case v < w.plan.unrest+w.plan.roam:
		w.rove(r)
		return
	case v < w.plan.unrest+w.plan.roam+w.plan.forgery:
		w.forge(r)
		return
	}
	p.tend()
	if r.Float64() >= w.plan.hold {
		p.receive(1 + r.IntN(depth))
	}
	for range 1 + r.IntN(3) {
		if len(p.free) > 0 {
			p.send(r)
		}
	}
}

// tend makes a queue pair work again.
func (p *program) tend() {
	switch p.q.State() {
	case ib.SQE:
		p.n.w.Must(p.move(ib.RTS))
	case ib.SQD:
		if err := p.move(ib.RTS); err != nil && !errors.Is(err, ib.EINVAL) {
			p.n.w.Fail("status", "SQD is not left: %v", err)
		}
	case ib.ERR:
		p.reset()
	}
}

// reset empties the queue pair: its requests vanish.
func (p *program) reset() {
	p.giveUp()
	p.n.w.Must(p.move(ib.RESET))
	p.begin()
}

// giveUp prepares the destruction of a queue pair: its requests vanish. A receive
// of a shared queue must not vanish, so the queue pair first fails, which
// completes it.
func (p *program) giveUp() {
	if p.recvs == p.n.shared && p.q.State() != ib.ERR {
		p.n.w.Must(p.move(ib.ERR))
	}
	for _, o := range p.queue {
		o.over, o.status = true, ib.WCGeneralErr
	}
}

// unrest modifies or destroys an object with work in flight.
func (w *world) unrest(p *program, r *rand.Rand) {
	switch k := r.IntN(16); {
	case k < 5 && p.q.State() == ib.RTS:
		w.Mark("Q36 queue pair in SQD")
		w.Must(p.move(ib.SQD))
	case k < 8:
		w.Mark("V18 queue pair reset")
		p.disturb()
		p.reset()
	case k < 10 && p.q.State() != ib.ERR:
		w.Mark("V18 queue pair in ERR")
		p.disturb()
		w.Must(p.move(ib.ERR))
	case k < 12:
		w.Mark("V18 queue pair destroyed")
		p.disturb()
		p.giveUp()
		p.n.HCA.DestroyQP(p.n.PD, p.q)
		p.n.poll()
		p.create()
	case k < 15:
		e := w.channels[r.IntN(len(w.channels))].ends[r.IntN(2)]
		if e.eec.State() == ib.RTS {
			w.Mark("Q36 EE context in SQD")
			w.Must(e.modify(&ib.QPAttr{State: ib.SQD}, ib.AttrState))
		} else if err := e.modify(&ib.QPAttr{State: ib.RTS}, ib.AttrState); err != nil && !errors.Is(err, ib.EINVAL) {
			w.Fail("status", "SQD is not left: %v", err)
		}
	default:
		w.Mark("V18 channel destroyed")
		i := r.IntN(len(w.channels))
		c := w.channels[i]
		c.gone = true
		for _, e := range c.ends {
			e.n.ended = true
			delete(e.n.ends, e.eec.Num())
			e.n.HCA.DestroyEEC(w.Now, e.eec)
			e.n.poll()
		}
		w.channels = slices.Delete(w.channels, i, i+1)
		w.connect(new(channel), c.ends[0].n, c.ends[1].n, r)
	}
}

// send posts a request to a program reachable over a channel.
func (p *program) send(r *rand.Rand) {
	w := p.n.w
	var ends []*end
	for _, c := range w.channels {
		for _, e := range c.ends {
			if e.n == p.n {
				ends = append(ends, e)
			}
		}
	}
	e := ends[r.IntN(len(ends))]
	k := r.IntN(w.plan.programs)
	to := w.programs[e.peer.n.Index*w.plan.programs+k]
	w.nextID++
	p.seq++
	o := &work{id: w.nextID, seq: uint64(p.seq), from: p, to: to, life: p.life, toLife: to.life, via: e, slot: p.free[0], at: w.Now}
	o.op = [...]ib.WROpcode{
		ib.WRSend, ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead, ib.WRAtomicFetchAdd,
	}[r.IntN(7)]
	if o.n = 8 + uint32(r.IntN(recvLen-8)); r.IntN(2) == 0 {
		o.n = 8 + uint32(r.IntN(200))
	}
	if r.Float64() < w.plan.wild {
		o.bad = bad(1 + r.IntN(int(numBad)-1))
	}
	wr := p.request(o, r)
	if _, err := p.q.PostSend(wr); err != nil {
		w.Fail("status", "post send in %v: %v", p.q.State(), err)
		return
	}
	w.Posted++
	p.free = p.free[1:]
	p.queue = append(p.queue, o)
	w.works[o.id] = o
	if w.Telling() {
		w.Say(p.n.Index, "qp %v posts %d: %v of %d bytes to %d qp %v by %v, wrong %d", p.q.Num(), o.id, o.op, o.n, to.n.Index, to.q.Num(), e.eec.Num(), o.bad)
	}
	p.n.HCA.Single().Doorbell(w.Now, p.q)
	p.n.poll()
}

// request builds a work request and its data.
func (p *program) request(o *work, r *rand.Rand) ib.SendWR {
	at := o.home()
	there := o.to.n.mr
	wr := ib.SendWR{
		WRID: o.id, Opcode: o.op, EEC: o.via.eec.Num(), RemoteQPN: o.to.q.Num(), RemoteQKey: o.to.qkey, RKey: there.RKey(), ImmData: uint32(o.id),
	}
	switch o.op {
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm:
		wr.RemoteAddr = there.Addr() + uint64(o.there())
	case ib.WRRDMARead:
		wr.RemoteAddr = there.Addr() + atText + uint64(o.id%1000)
	case ib.WRAtomicFetchAdd:
		o.n = 8
		wr.CompareAdd, wr.RemoteAddr = 1, there.Addr()+atCount+uint64(8*p.index)
	}
	keyed := o.op != ib.WRSend && o.op != ib.WRSendWithImm
	switch o.bad {
	case badQKey:
		wr.RemoteQKey ^= 1 << 30 // no queue pair has this Q_Key
	case badQPN:
		wr.RemoteQPN = 3 // is never assigned
	case badDomain:
		wr.RemoteQPN, wr.RemoteQKey = o.to.n.outsider.Num(), outsiderKey
	case badService:
		wr.RemoteQPN = o.to.n.connected.Num()
	case badRKey:
		if wr.RKey++; !keyed {
			o.bad, wr.RKey = good, there.RKey()
		}
	case badEEC:
		wr.EEC = ib.EECN(r.IntN(2) << 20) // no adapter has these
	case badRDD:
		wr.EEC = p.n.alien.Num()
	case badLength:
		if o.n = recvLen + 1 + uint32(r.IntN(50)); keyed {
			o.bad, o.n = good, 8
		}
	}
	wr.SGList = []ib.SGE{{Addr: p.n.mr.Addr() + uint64(at), Length: o.n, LKey: p.n.mr.LKey()}}
	if o.bad == badLKey {
		wr.SGList[0].LKey++
		if o.op == ib.WRRDMARead || o.op == ib.WRAtomicFetchAdd {
			o.bad, wr.SGList[0].LKey = good, p.n.mr.LKey() // reported when the answer arrives
		}
	}
	o.fill(p.n.buf[at:][:o.n])
	return wr
}

// home returns the offset of a request's data at its sender, there the offset of
// a WRITE's target.
func (o *work) home() int { return atSend + (o.from.local*slots+o.slot)*maxLen }

func (o *work) there() int {
	return atWrite + ((o.life%lives*everybody+o.from.index)*slots+o.slot)*maxLen
}

// fill writes the content of a message: its number, and bytes derived from it.
func (o *work) fill(b []byte) {
	for i := range b {
		b[i] = byte(o.id*31) + byte(i)
	}
	binary.LittleEndian.PutUint64(b, o.id)
}
