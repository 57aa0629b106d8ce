package observe

import (
	"time"

	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
)

// Same reports whether two reads are of the same adapter of the same process. Only then do their
// counters continue each other.
func (a *Adapter) Same(was *Adapter) bool {
	return a.Path == was.Path && a.PID == was.PID && a.PIDNS == was.PIDNS && a.GUID == was.GUID && a.Started.Equal(was.Started)
}

// Increase returns by how much a counter grew between two reads. A counter that became less counts
// something new, from 0 on.
func Increase(is, was uint64) uint64 {
	if is < was {
		return is
	}
	return is - was
}

// PerSecond returns a number of events as a rate; 0 unless the time is positive.
func PerSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// QPChange is what a queue pair did between two reads.
type QPChange struct {
	Elapsed                  time.Duration
	SentMessages, SentBytes  uint64 // bytes of payload
	RcvdMessages, RcvdBytes  uint64
	Retransmitted, Timeouts  uint64
	RNRSent, RNRRcvd, Errors uint64
	Latency                  Histogram // send work requests that completed
}

// Change returns what q did in the time d since an earlier read. If was is nil, or if a counter is
// less than in was, q is new and has done everything since then: another queue pair had its number.
func (q *QP) Change(was *QP, d time.Duration) QPChange {
	if was == nil || q.replaced(was) {
		was = &QP{}
	}
	c := QPChange{
		Elapsed:      d,
		SentMessages: Increase(q.SentMessages, was.SentMessages), SentBytes: Increase(q.SentBytes, was.SentBytes),
		RcvdMessages: Increase(q.RcvdMessages, was.RcvdMessages), RcvdBytes: Increase(q.RcvdBytes, was.RcvdBytes),
		Retransmitted: Increase(q.Retransmitted, was.Retransmitted), Timeouts: Increase(q.Timeouts, was.Timeouts),
		RNRSent: Increase(q.RNRSent, was.RNRSent), RNRRcvd: Increase(q.RNRRcvd, was.RNRRcvd), Errors: Increase(q.Errors, was.Errors),
	}
	for i := range c.Latency {
		c.Latency[i] = Increase(q.Latency[i], was.Latency[i])
	}
	return c
}

// replaced reports whether q is another queue pair than was, with the same number.
func (q *QP) replaced(was *QP) bool {
	return q.Type != was.Type || q.SentMessages < was.SentMessages || q.SentBytes < was.SentBytes || q.SentPackets < was.SentPackets ||
		q.RcvdMessages < was.RcvdMessages || q.RcvdBytes < was.RcvdBytes || q.RcvdPackets < was.RcvdPackets
}

// SentRate returns the messages sent per second.
func (c *QPChange) SentRate() float64 { return PerSecond(c.SentMessages, c.Elapsed) }

// RcvdRate returns the messages received per second.
func (c *QPChange) RcvdRate() float64 { return PerSecond(c.RcvdMessages, c.Elapsed) }

// SentBits returns the bits of payload sent per second.
func (c *QPChange) SentBits() float64 { return bitsInByte * PerSecond(c.SentBytes, c.Elapsed) }

// RcvdBits returns the bits of payload received per second.
func (c *QPChange) RcvdBits() float64 { return bitsInByte * PerSecond(c.RcvdBytes, c.Elapsed) }

const bitsInByte = 8

// AdapterChange is what an adapter did between two reads.
type AdapterChange struct {
	Elapsed  time.Duration
	Counters counters.Set
	Port     Port // without the counts of what shared memory has now
}

// Change returns what the adapter did since an earlier read of it.
func (a *Adapter) Change(was *Adapter) AdapterChange {
	c := AdapterChange{Elapsed: a.At.Sub(was.At)}
	c.Counters = increases(&a.Counters, &was.Counters)
	p, w := &a.Port, &was.Port
	c.Port = Port{
		SentPackets: Increase(p.SentPackets, w.SentPackets), SentBytes: Increase(p.SentBytes, w.SentBytes),
		ReceivedPackets: Increase(p.ReceivedPackets, w.ReceivedPackets), ReceivedBytes: Increase(p.ReceivedBytes, w.ReceivedBytes),
		SendErrors: Increase(p.SendErrors, w.SendErrors), Truncated: Increase(p.Truncated, w.Truncated),
		Overflows: Increase(p.Overflows, w.Overflows), BadChecksums: Increase(p.BadChecksums, w.BadChecksums),
	}
	for n := range fabric.NearPeers { // NearPeers and the following are no counters
		c.Port.Near[n] = Increase(p.Near[n], w.Near[n])
	}
	return c
}
