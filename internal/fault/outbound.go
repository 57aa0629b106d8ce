package fault

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// Send implements fabric.Port.
func (p *Port) Send(b *fabric.Batch) error {
	switch {
	case p.gone != nil:
		return p.gone
	case p.ways&Out == 0:
		return p.Port.Send(b)
	}
	now := p.cfg.Now()
	p.out.Now = b.Now
	if err := p.pump(now); err != nil {
		return err
	}
	if !p.acts(now, Out) || !p.apply(now, b) {
		err := p.Port.Send(b)
		p.passed = 0
		if errors.Is(err, fabric.ErrBlocked) { // the caller sends the rest again
			for _, r := range b.Pending() {
				p.passed += r.Count
			}
		}
		return err
	}
	p.passed = 0
	b.Sent(len(b.Pending()))
	if p.gone != nil {
		_ = p.pump(now) // the packets before; what is refused is lost, like the adapter
		return p.gone
	}
	if err := p.pump(now); !errors.Is(err, fabric.ErrBlocked) {
		return err
	}
	return nil // the batch was accepted
}

// pump sends packets that the port refused before, then held packets that are
// due. It fails while some remain; packets without room stay held.
func (p *Port) pump(now clock.Instant) error {
	p.flush()
	for p.err == nil && p.leave.heap.Next() <= now {
		for p.leave.heap.Next() <= now && p.out.Room() >= len(p.leave.heap.All()[0].bytes) {
			e := p.leave.pop(now)
			p.put(&e.path, e.id, e.bytes)
		}
		p.leave.recycle()
		p.flush()
	}
	p.settle()
	err := p.err
	p.err = nil
	return err
}

// flush passes out to the port.
func (p *Port) flush() {
	if len(p.out.Pending()) > 0 {
		p.err = p.Port.Send(p.out)
	}
}

// apply applies the rules to a batch and reports whether they changed anything.
// If so, all its packets are in out or held.
func (p *Port) apply(now clock.Instant, b *fabric.Batch) (changed bool) {
	runs := b.Pending()
	skip := p.passed
	for i := range runs {
		r := &runs[i]
		s := Subject{Dir: Out, Src: r.Path.Src, Dst: r.Path.Dst, SrcPort: r.Path.SrcPort, Way: wayOf(r.Path.Src, p.addrs)}
		for k := range r.Count {
			seg := r.Segment(k)
			if skip > 0 {
				skip--
				continue
			}
			f := p.judge(now, seg, &s)
			fl := flow{r.Path.Dst, s.QPN}
			if !changed && (!f.plain() || p.isLate()) {
				changed = true
				p.copyHead(runs, i, k)
			}
			if changed {
				p.emit(now, r, k, fl)
			}
		}
	}
	return changed
}

// isLate reports whether a packet waits for others to overtake it.
func (p *Port) isLate() bool {
	return slices.ContainsFunc(p.rules, func(l *Live) bool { return l.late != nil })
}

// copyHead puts the packets before packet k of run i into out.
func (p *Port) copyHead(runs []fabric.Run, i, k int) {
	for j := range runs[:i+1] {
		r := &runs[j]
		n := r.Count
		if j == i {
			n = k
		}
		for m := range n {
			p.put(&r.Path, uint16(m), r.Segment(m))
		}
	}
}

// emit carries out the last judge's decision on packet k of a run.
func (p *Port) emit(now clock.Instant, r *fabric.Run, k int, fl flow) {
	f := &p.verdict
	if f.drop {
		return
	}
	b := r.Segment(k)
	if len(f.edits) > 0 {
		p.scratch = append(p.scratch[:0], b...)
		b = p.scratch
		s := seal{r.Path.Src, r.Path.Dst, r.Path.SrcPort, fabric.RoCEPort, uint16(k), false}
		for _, l := range f.edits {
			b = l.edit(b, &s)
		}
	}
	for i := range 1 + f.copies {
		if !f.waiting(i) {
			p.put(&r.Path, uint16(k), b)
			p.overtake(&p.leave, fl, p.putHeld)
		} else if e := f.hold(&p.leave, now, b, i); e != nil {
			e.path, e.id, e.flow = r.Path, uint16(k), fl
			p.leave.push(e)
		}
	}
}

func (p *Port) putHeld(e *held) { p.put(&e.path, e.id, e.bytes) }

// destQPAt is the offset of the word with the destination QPN, whose first byte is
// something else.
const destQPAt = 4

// put appends a packet to out, with its ICRC updated from its old
// identification to the new one.
func (p *Port) put(path *fabric.Path, id uint16, b []byte) {
	if len(b) == 0 {
		return // truncated to nothing
	}
	if len(b) >= roce.MinSize {
		p.out.Aim(ib.QPN(binary.BigEndian.Uint32(b[destQPAt:]) & uint32(ib.QPNMask)))
	}
	seg, k := p.out.Append(path, len(b))
	if seg == nil {
		p.flush()
		if seg, k = p.out.Append(path, len(b)); seg == nil {
			p.lost.Add(1)
			return
		}
	}
	copy(seg, b)
	if path.Src.Is4() && len(b) >= roce.MinSize && len(b)&3 == 0 {
		roce.MoveID(seg, id, uint16(k))
	}
}
