package fault

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/softhca/softhca/internal/fabric"
)

// Config says how bad the network is.
type Config struct {
	Seed    uint64
	Loss    float64 // share of arriving packets that are lost, 0 to 1
	Reorder float64 // share that arrives after the packet behind it, 0 to 1
}

// Check returns an error for shares that are none.
func (c Config) Check() error {
	for _, s := range []float64{c.Loss, c.Reorder} {
		if !(s >= 0 && s <= 1) {
			return fmt.Errorf("share %v of packets: it goes from 0 to 1", s)
		}
	}
	return nil
}

// Port is a port with faults. All but Receive is the wrapped port's.
type Port struct {
	fabric.Port
	cfg  Config
	rand *rand.Rand

	inner []fabric.Datagram // what the wrapped port delivered
	n     int               // how many of inner are valid
	at    int               // the one being passed on
	off   int               // bytes of it that are done

	late    fabric.Datagram // a packet that waits for one to overtake it
	waiting bool
}

// inbox is how many datagrams are taken from the wrapped port at once.
const inbox = 16

// Wrap returns p with faults on what it receives.
func Wrap(p fabric.Port, c Config) *Port {
	return &Port{
		Port: p, cfg: c, rand: rand.New(rand.NewPCG(c.Seed, 0x5eed)),
		inner: make([]fabric.Datagram, inbox),
	}
}

// Receive passes on what has arrived, less what is lost, one packet to a
// datagram.
func (p *Port) Receive(ds []fabric.Datagram) (int, error) {
	n := 0
	for n < len(ds) {
		if p.at == p.n {
			if n > 0 { // taking more would invalidate what was passed on
				break
			}
			k, err := p.Port.Receive(p.inner)
			if err != nil || k == 0 {
				return 0, err
			}
			p.n, p.at, p.off = k, 0, 0
		}
		d := p.next()
		switch {
		case p.rand.Float64() < p.cfg.Loss:
		case p.waiting && n+1 == len(ds):
			// No room for this one and the late one behind it: it goes first
			// after all.
			ds[n] = d
			n++
		case p.waiting:
			ds[n], ds[n+1] = d, p.release()
			n += 2
		case p.rand.Float64() < p.cfg.Reorder:
			p.hold(&d)
		default:
			ds[n] = d
			n++
		}
	}
	return n, nil
}

// next takes the next packet out of what the wrapped port delivered.
func (p *Port) next() fabric.Datagram {
	d := &p.inner[p.at]
	one := *d
	index := 0
	if d.Stride > 0 {
		index = p.off / d.Stride
	}
	one.Bytes, p.off = d.Segment(p.off)
	one.Stride = 0
	one.ID += uint16(index)
	if p.off >= len(d.Bytes) {
		p.at, p.off = p.at+1, 0
	}
	return one
}

// hold keeps a copy of d until another packet has overtaken it. The copy has
// memory of its own: several late packets may be passed on at once.
func (p *Port) hold(d *fabric.Datagram) {
	p.late, p.waiting = *d, true
	p.late.Bytes = bytes.Clone(d.Bytes)
}

// release returns the packet that was held.
func (p *Port) release() fabric.Datagram {
	p.waiting = false
	return p.late
}
