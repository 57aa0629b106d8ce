package qp

import (
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// A pacer that is late, because its thread had other work, may catch up by a
// burst of this size: the bytes of one system call or, at a high rate, the bytes
// of the time that a thread is usually late. It is the burst of a limit without
// its own.
const (
	burstBytes = 64 << 10
	burstTime  = 100 * time.Microsecond
)

// pacer spaces packets so that they keep to a rate (V17). Its zero value has no
// limit.
type pacer struct {
	rate  uint64        // bits per second; 0: no limit
	burst time.Duration // how far next may lie in the past
	next  clock.Instant // when the next packet may begin
	part  uint64        // remainder of next, in units of 1/rate nanoseconds
}

// newPacer returns a pacer of a rate in bits per second that allows bursts of
// burst bytes. Rate 0 means no limit, burst 0 the default burst.
func newPacer(rate, burst uint64) pacer {
	if rate == 0 {
		return pacer{}
	}
	p := pacer{rate: rate}
	if burst == 0 {
		burst = max(burstBytes, uint64(burstTime)*rate/8/uint64(time.Second))
	}
	p.burst = time.Duration(min(burst, burstBytes<<8) * 8 * uint64(time.Second) / rate)
	return p
}

// allows reports whether a packet may go.
func (p *pacer) allows(now clock.Instant) bool { return p.rate == 0 || p.next <= now }

// sent counts an IP packet of n bytes that goes now.
func (p *pacer) sent(now clock.Instant, n int) {
	if p.rate == 0 {
		return
	}
	if oldest := now.Add(-p.burst); p.next < oldest {
		p.next, p.part = oldest, 0
	}
	p.part += uint64(n) * 8 * uint64(time.Second)
	p.next = p.next.Add(time.Duration(p.part / p.rate))
	p.part %= p.rate
}

// last reports whether no other packet may follow at once after one with n
// bytes of payload.
func (p *pacer) last(now clock.Instant, n int) bool {
	if p.rate == 0 {
		return false
	}
	after := *p
	after.sent(now, n)
	return !after.allows(now)
}

// set changes the limit; bytes already sent still count.
func (p *pacer) set(to pacer) {
	to.next = p.next
	*p = to
}

// ipLength returns the length of the IP packet that carries a segment.
func ipLength(path *fabric.Path, seg []byte) int {
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
func (e *Env) staticPacer(r ib.Rate) pacer {
	mbps := uint64(r.Mbps())
	if mbps >= uint64(e.Limits.PortMbps) {
		return pacer{}
	}
	return newPacer(mbps*1e6, 0)
}

// SetRateLimit changes the maximum rate of the QP. EINVAL in RESET and ERR,
// where nothing is sent, and for an RD queue pair, which sends at the rates of
// its EE contexts.
func (q *QP) SetRateLimit(l RateLimit) error {
	if st := q.State(); st == ib.RESET || st == ib.ERR {
		return fmt.Errorf("a queue pair in %v has no rate limit: %w", st, ib.EINVAL)
	}
	if q.rd != nil {
		return fmt.Errorf("a queue pair of reliable datagrams has no rate limit: give its EE contexts a static rate: %w", ib.EINVAL)
	}
	q.ep.limit = l
	q.ep.setPace()
	if q.ep.behaviour().sends() {
		q.wake() // waiting packets may leave earlier or later
	}
	return nil
}

// setPace makes the endpoint keep to the lower of the rate of its path and its
// limit.
func (e *endpoint) setPace() {
	p := e.env.staticPacer(e.attr.AV.StaticRate)
	if kbps := uint64(e.limit.Rate); kbps != 0 && (p.rate == 0 || kbps*1000 < p.rate) {
		p = newPacer(kbps*1000, uint64(e.limit.Burst))
	}
	e.pace.set(p)
	e.timers[timerPace] = clock.Never
}

// mayPace reports whether the rate allows a packet now; if not, it arms the pace
// timer for when it will.
func (e *endpoint) mayPace(p *pacer, now clock.Instant) bool {
	if p.allows(now) {
		return true
	}
	e.timers[timerPace] = min(e.timers[timerPace], p.next)
	return false
}
