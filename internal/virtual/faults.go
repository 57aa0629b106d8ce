package virtual

import (
	"math/rand/v2"
	"time"
)

// Faults configures what a network does to packets.
type Faults struct {
	Odds    Odds
	Latency time.Duration // of every packet
	Late    Delay         // additional, of a late packet and of the second copy of a duplicate
	Again   Delay         // additional, of a copy that outlives its connection
	Damage  Damage
}

// Outcome is what happens to a packet.
type Outcome uint8

// The fates.
const (
	Whole Outcome = iota
	Lost
	Duplicated
	Delayed
	Repeated // much later
	Damaged
)

var outcomeNames = [...]string{"sent", "lost", "duplicated", "delayed", "repeated much later", "damaged"}

// String returns the name, such as "lost".
func (f Outcome) String() string { return outcomeNames[f] }

// Share is the share of packets that have a fate.
type Share struct {
	Share float64
	Fate  Outcome
}

// Odds are the shares of fates. All other packets stay whole.
type Odds []Share

// Sum is the share of packets with one of the fates.
func (o Odds) Sum() float64 {
	sum := 0.0
	for _, s := range o {
		sum += s.Share
	}
	return sum
}

// At returns the fate at a point of [0, 1), which the shares divide in order.
func (o Odds) At(v float64) Outcome {
	for _, s := range o {
		if v -= s.Share; v < 0 {
			return s.Fate
		}
	}
	return Whole
}

// Suffer lets a packet have its fate: ship sends it with an additional delay,
// and may return nil.
func (n *Network) Suffer(f Outcome, ship func(delay time.Duration) *Packet) {
	switch f {
	case Lost:
	case Duplicated:
		ship(0)
		ship(n.Late.Draw(n.Rand))
	case Delayed:
		ship(n.Late.Draw(n.Rand))
	case Repeated:
		ship(0)
		ship(n.Again.Draw(n.Rand))
	case Damaged:
		if p := ship(0); p != nil {
			n.Damage.do(n.Rand, p)
		}
	default:
		ship(0)
	}
}

// Delay is a distribution of times: less than Usual, or, if Long is set, once in
// 20 less than Long.
type Delay struct{ Usual, Long time.Duration }

// Draw draws a time.
func (d Delay) Draw(r *rand.Rand) time.Duration {
	if d.Long > 0 && r.IntN(20) == 0 {
		d.Usual = d.Long
	}
	return time.Duration(r.Int64N(int64(d.Usual)))
}

// Damage says how packets are damaged.
type Damage struct {
	Bits   int  // maximum number of successive bits that are flipped: a CRC of 32 bits always detects 32
	Resize bool // half of the packets are cut short or lengthened instead
}

// uncovered is the byte of a packet that the ICRC does not cover: FECN, BECN and
// reserved bits of the BTH.
const uncovered = 4

// do damages a packet of one segment so that its ICRC is wrong.
func (d *Damage) do(r *rand.Rand, p *Packet) {
	b := p.Datagram.Bytes
	p.Damaged = true
	how := 2
	if d.Resize {
		how = r.IntN(4)
	}
	switch how {
	case 0:
		b = b[:1+r.IntN(len(b)-1)]
	case 1:
		b = append(b, make([]byte, 4*(1+r.IntN(4)))...)
	default:
		first, bits := r.IntN(len(b)*8), 1
		if d.Bits > 1 {
			bits += r.IntN(d.Bits)
		}
		flip(b, first, bits)
	}
	p.Datagram.Bytes = b
}

// flip flips bits from first on, except those of the uncovered byte; in place of these it
// flips the first bit of the packet.
func flip(b []byte, first, bits int) {
	for k := range bits {
		bit := (first + k) % (len(b) * 8)
		if bit/8 == uncovered {
			bit = 0
		}
		b[bit/8] ^= 1 << (bit % 8)
		if bit == 0 {
			return
		}
	}
}
