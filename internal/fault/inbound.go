package fault

import (
	"bytes"
	"errors"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// Receive implements fabric.Port. It also sends held packets that are due.
func (p *Port) Receive(ds []fabric.Datagram) (int, error) {
	if p.gone != nil {
		return 0, p.gone
	}
	if p.given == len(p.ready) {
		p.ready, p.given = p.ready[:0], 0
		p.arrive.recycle()
		if n, done, err := p.refill(ds); done {
			return n, err
		}
	}
	n := copy(ds, p.ready[p.given:])
	p.given += n
	p.settle()
	return n, nil
}

// refill fills ready. done: no rule applied, and the wrapped port's result is
// returned as it is.
func (p *Port) refill(ds []fabric.Datagram) (n int, done bool, err error) {
	now := p.cfg.Now()
	if p.ways&Out != 0 {
		// Blocked packets stay in out until the port has room again.
		if err := p.pump(now); err != nil && !errors.Is(err, fabric.ErrBlocked) {
			return 0, true, err
		}
	}
	if p.ways&In == 0 {
		n, err = p.Port.Receive(ds)
		return n, true, err
	}
	for e := p.arrive.pop(now); e != nil; e = p.arrive.pop(now) {
		p.give(e)
	}
	if !p.acts(now, In) {
		if len(p.ready) > 0 {
			return 0, false, nil
		}
		p.settle()
		n, err = p.Port.Receive(ds)
		return n, true, err
	}
	k, err := p.Port.Receive(p.inner)
	if err != nil && len(p.ready) == 0 {
		return 0, true, err
	}
	for i := range k {
		if p.take(now, &p.inner[i]); p.gone != nil {
			return 0, true, p.gone
		}
	}
	return 0, false, nil
}

// take applies the rules to a datagram. Unchanged segments stay in one
// datagram.
func (p *Port) take(now clock.Instant, d *fabric.Datagram) {
	s := Subject{Dir: In, Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, Way: wayOf(d.Dst, p.addrs)}
	lo := 0
	for off := 0; off < len(d.Bytes); {
		seg, next := d.Segment(off)
		p.ahead = 0
		if lo < off {
			p.ahead = (off - lo) / d.Stride
		}
		f := p.judge(now, seg, &s)
		if !f.plain() || p.isLate() {
			p.pass(d, lo, off)
			p.admit(now, part(d, off, next), flow{d.Dst, s.QPN})
			lo = next
		}
		off = next
	}
	p.pass(d, lo, len(d.Bytes))
}

// pass adds an unchanged part of a datagram to ready.
func (p *Port) pass(d *fabric.Datagram, lo, hi int) {
	if lo < hi {
		p.ready = append(p.ready, part(d, lo, hi))
	}
}

// part returns the segments of d from byte lo to hi.
func part(d *fabric.Datagram, lo, hi int) fabric.Datagram {
	e := *d
	e.Bytes = d.Bytes[lo:hi:hi]
	if d.Stride > 0 {
		e.ID += uint16(lo / d.Stride)
	}
	if hi-lo <= d.Stride {
		e.Stride = 0
	}
	return e
}

// admit carries out the last judge's decision on one packet.
func (p *Port) admit(now clock.Instant, d fabric.Datagram, fl flow) {
	f := &p.verdict
	if f.drop {
		return
	}
	if len(f.edits) > 0 {
		s := sealOf(&d)
		d.Bytes = bytes.Clone(d.Bytes) // they may be in memory that is read-only
		for _, l := range f.edits {
			d.Bytes = l.edit(d.Bytes, &s)
		}
	}
	for i := range 1 + f.copies {
		if !f.waiting(i) {
			p.ready = append(p.ready, d)
			p.overtake(&p.arrive, fl, p.give)
		} else if e := f.hold(&p.arrive, now, d.Bytes, i); e != nil {
			e.d, e.flow = d, fl
			p.arrive.push(e)
		}
	}
}

// give adds a held packet to ready.
func (p *Port) give(e *held) {
	d := e.d
	d.Bytes = e.bytes
	p.ready = append(p.ready, d)
}

// sealOf returns the seal of an intact packet; it derives an identification
// that the port does not report.
func sealOf(d *fabric.Datagram) seal {
	s := seal{d.Src, d.Dst, d.SrcPort, d.DstPort, d.ID, d.NoDF}
	if !d.IDKnown {
		s.id, _ = roce.DeriveID(d.Bytes, s.prefix(len(d.Bytes)), 0)
	}
	return s
}
