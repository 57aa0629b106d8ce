package fault

import (
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// maxLate is how long reorder holds a packet that no other overtakes.
const maxLate = 10 * time.Millisecond

// verdict is the combined decision of the rules about a packet.
type verdict struct {
	drop   bool
	copies int           // beyond the packet itself
	due    clock.Instant // when it is passed on; 0: at once
	rate   *Live         // the rate rule in whose queue it waits
	late   *Live         // the reorder rule that holds it
	waits  *Live         // the last rule that makes it wait
	edits  []*Live       // the rules that change it, in order
}

// plain reports whether the packet passes at once and unchanged.
func (f *verdict) plain() bool {
	return !f.drop && f.copies == 0 && f.due == 0 && f.late == nil && len(f.edits) == 0
}

// judge applies the rules to a packet, in order; rules after one that drops it
// do not see it. The verdict is valid until the next call.
func (p *Port) judge(now clock.Instant, seg []byte, s *Subject) *verdict {
	s.read(&p.pkt, seg)
	if p.cfg.Count != nil {
		p.cfg.Count(*s)
	}
	f := &p.verdict
	*f = verdict{edits: f.edits[:0]}
	if p.gone != nil {
		f.drop = true
		return f
	}
	for _, l := range p.rules {
		if l.Action == Reorder && l.late != nil || !l.fits(len(seg)) || !l.Fires(now, s) {
			continue
		}
		if l.Action == Rate && !f.shape(now, l, len(seg)) {
			continue
		}
		l.Applied()
		p.note(now, l, seg, s)
		p.mark(l, seg, s)
		if p.cfg.Acted != nil {
			p.cfg.Acted(l)
		}
		switch l.Action {
		case Gone:
			f.drop, p.gone = true, fmt.Errorf("fault on demand (%s): %w", l.text, ib.EIO)
		case Drop, Partition, Kill:
			f.drop = true // of Kill: until the process is dead
		case Dup:
			f.copies++
		case Delay:
			f.due, f.waits = max(f.due, now).Add(l.Duration(Time)), l
		case Corrupt, Truncate:
			f.edits = append(f.edits, l)
		case Reorder:
			f.late, f.waits = l, l
		case Rate, Stop:
		default:
			panic("fault: a rule of another layer at a port")
		}
		if f.drop {
			return f
		}
	}
	return f
}

// waiting reports whether copy i of the packet, 0 being the packet itself, must
// be held back: all copies of a delayed packet, the first of a reordered one.
func (f *verdict) waiting(i int) bool { return f.due != 0 || i == 0 && f.late != nil }

// hold returns an entry for a copy of the packet, for the caller to fill and
// push; nil if there is no room and the copy is lost.
func (f *verdict) hold(h *hold, now clock.Instant, b []byte, i int) *held {
	e := h.add(b)
	if e == nil {
		f.waits.overflow.Add(1)
		return nil
	}
	e.due, e.rate = f.due, f.rate
	if i == 0 && f.late != nil {
		e.late, e.left = f.late, f.late.num(By, 1)
		e.due = max(f.due, now).Add(maxLate)
	}
	return e
}

// overtake counts that a packet of a flow passes and releases the packets in h
// that enough packets have overtaken.
func (p *Port) overtake(h *hold, fl flow, release func(*held)) {
	for _, l := range p.rules {
		e := l.late
		if e == nil || e.flow != fl || !h.heap.Has(e) {
			continue
		}
		if e.left--; e.left == 0 {
			h.take(e)
			release(e)
		}
	}
}

// shape adds a packet to the queue of a rate rule and reports whether it must
// wait there, or is lost because the queue is full.
func (f *verdict) shape(now clock.Instant, l *Live, size int) bool {
	start := max(now, l.free)
	if start > now && int64(l.waiting) >= l.num(Queue, defaultQueue) {
		l.overflow.Add(1)
		f.drop = true
		return true
	}
	v := &l.values[Speed]
	units := 1.0 // packets
	if v.num == 0 {
		units = float64(size) * 8
	}
	l.free = start.Add(time.Duration(units / v.share * float64(time.Second)))
	if start == now {
		return false
	}
	f.due, f.rate, f.waits = max(f.due, start), l, l
	return true
}

// defaultQueue is the default queue length of a rate rule, in packets.
const defaultQueue = 1000

// read fills in the fields that come from the packet.
func (s *Subject) read(pkt *roce.Packet, seg []byte) {
	s.Readable = pkt.Parse(seg) == roce.FaultNone
	s.Op, s.QPN, s.PSN = pkt.BTH.Opcode, pkt.BTH.DestQP, pkt.BTH.PSN
	s.Syndrome, s.Message = 0, 0
	if !s.Readable {
		s.Op, s.QPN, s.PSN = 0, 0, ib.PSN{}
		return
	}
	if pkt.Info.Headers&roce.HasAETH != 0 {
		s.Syndrome = pkt.AETH.Syndrome
	}
	if s.Op == roce.UDSendOnly && s.QPN == ib.QPNGSI {
		s.Message = messageOf(pkt.Payload)
	}
}

// messageOf returns the kind of CM message in the payload of a packet to QP1, 0
// if it is none.
func messageOf(payload []byte) mad.AttrID {
	if len(payload) != mad.Size {
		return 0
	}
	h := (*mad.MAD)(payload).Header()
	if !h.IsCM() {
		return 0
	}
	return h.AttrID
}

// fits reports whether a packet is long enough for the byte that the rule
// changes.
func (l *Live) fits(size int) bool {
	switch {
	case l.Action == Truncate:
		return int64(size) > l.num(Length, 0)
	case l.Has(Byte):
		n := l.num(Byte, 0)
		return n < int64(size) && -n <= int64(size)
	case l.Has(Bit):
		return l.num(Bit, 0)/8 < int64(size)
	default:
		return size > 0
	}
}

// note traces the effect of a rule on a packet.
func (p *Port) note(now clock.Instant, l *Live, seg []byte, s *Subject) {
	if p.cfg.Trace == nil {
		return
	}
	p.rec = trace.Record{At: now, Kind: trace.Fault, QPN: s.QPN, PSN: s.PSN, Len: len(seg), Cause: l.text}
	copy(p.rec.Header[:], seg)
	p.cfg.Trace(&p.rec)
}
