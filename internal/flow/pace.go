package flow

import (
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// A pacer that is late, because its thread had other work, may catch up by a
// burst of this size: the bytes of one system call or, at a high rate, the bytes
// of the time that a thread is usually late. It is the burst of a limit without
// its own.
const (
	burstBytes = 64 << 10
	burstTime  = 100 * time.Microsecond
)

// Pacer spaces packets so that they keep to a rate (V17). Its zero value has no
// limit.
type Pacer struct {
	rate  uint64        // bits per second; 0: no limit
	burst time.Duration // how far next may lie in the past
	next  clock.Instant // when the next packet may begin
	part  uint64        // remainder of next, in units of 1/rate nanoseconds
}

// NewPacer returns a pacer of a rate in bits per second that allows bursts of
// burst bytes. Rate 0 means no limit, burst 0 the default burst.
func NewPacer(rate, burst uint64) Pacer {
	if rate == 0 {
		return Pacer{}
	}
	p := Pacer{rate: rate}
	if burst == 0 {
		burst = max(burstBytes, uint64(burstTime)*rate/8/uint64(time.Second))
	}
	p.burst = time.Duration(min(burst, burstBytes<<8) * 8 * uint64(time.Second) / rate)
	return p
}

// Allows reports whether a packet may go.
func (p *Pacer) Allows(now clock.Instant) bool { return p.rate == 0 || p.next <= now }

// Sent counts an IP packet of n bytes that goes now.
func (p *Pacer) Sent(now clock.Instant, n int) {
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

// Last reports whether no other packet may follow at once after one with n
// bytes of payload.
func (p *Pacer) Last(now clock.Instant, n int) bool {
	if p.rate == 0 {
		return false
	}
	after := *p
	after.Sent(now, n)
	return !after.Allows(now)
}

// Set changes the limit; bytes already sent still count.
func (p *Pacer) Set(to Pacer) {
	to.next = p.next
	*p = to
}

// Rate returns the rate in bits per second, 0 for no limit.
func (p *Pacer) Rate() uint64 { return p.rate }

// Next returns when the next packet may begin.
func (p *Pacer) Next() clock.Instant { return p.next }
