package qp

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/flow"
)

// ipLength returns the length of the IP packet that carries a segment.
func ipLength(path *Path, seg []byte) int {
	if path.Src.Is4() {
		return ipudp.IPv4Len + ipudp.UDPLen + len(seg)
	}
	return ipudp.IPv6Len + ipudp.UDPLen + len(seg)
}

// RateLimit is the maximum rate of a queue pair (V17).
type RateLimit struct {
	Rate  uint32 // kbit/s; 0: no limit
	Burst uint32 // bytes that may be sent at once; 0: 64 KiB, or 100 µs at the rate
}

// staticPacer returns the pacer of a static rate. A rate at or above the port's
// has no effect.
func (e *Env) staticPacer(r ib.Rate) flow.Pacer {
	mbps := uint64(r.Mbps())
	if mbps >= uint64(e.Limits.PortMbps) {
		return flow.Pacer{}
	}
	return flow.NewPacer(mbps*1e6, 0)
}

// SetRateLimit changes the maximum rate of the QP. EINVAL in RESET and ERR,
// where nothing is sent, and for an RD queue pair, which sends at the rates of
// its EE contexts.
func (q *QP) SetRateLimit(l RateLimit) error {
	if st := q.State(); st == ib.RESET || st == ib.ERR {
		return fmt.Errorf("a queue pair in %v has no rate limit: %w", st, ib.EINVAL)
	}
	if err := q.rd.rateError(); err != nil {
		return err
	}
	q.ep.limit = l
	q.ep.setPace()
	if q.ep.behaviour().sends() {
		q.Wake() // waiting packets may leave earlier or later
	}
	return nil
}

// setPace makes the endpoint keep to the lower of the rate of its path and its
// limit.
func (e *endpoint) setPace() {
	p := e.env.staticPacer(e.attr.AV.StaticRate)
	if kbps := uint64(e.limit.Rate); kbps != 0 && (p.Rate() == 0 || kbps*1000 < p.Rate()) {
		p = flow.NewPacer(kbps*1000, uint64(e.limit.Burst))
	}
	e.pace.Set(p)
	e.timers[timerPace] = clock.Never
}

// mayPace reports whether the rate allows a packet now; if not, it arms the pace
// timer for when it will.
func (e *endpoint) mayPace(p *flow.Pacer, now clock.Instant) bool {
	if p.Allows(now) {
		return true
	}
	e.timers[timerPace] = min(e.timers[timerPace], p.Next())
	return false
}
