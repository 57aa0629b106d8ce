package fabric

import "sync/atomic"

// Counts holds the counters of a port, which embeds it. Any thread may add to
// it. It has no pointers, so processes can share it.
type Counts struct {
	SentPackets     atomic.Uint64
	SentBytes       atomic.Uint64
	ReceivedPackets atomic.Uint64
	ReceivedBytes   atomic.Uint64
	SendErrors      atomic.Uint64
	Truncated       atomic.Uint64
	Overflows       atomic.Uint64
	BadChecksums    atomic.Uint64
}

// Sent counts sent packets and their bytes.
func (c *Counts) Sent(packets, bytes int) {
	c.SentPackets.Add(uint64(packets))
	c.SentBytes.Add(uint64(bytes))
}

// Received counts received packets and their bytes.
func (c *Counts) Received(packets, bytes int) {
	c.ReceivedPackets.Add(uint64(packets))
	c.ReceivedBytes.Add(uint64(bytes))
}

// Stats implements Port.
func (c *Counts) Stats() Stats {
	return Stats{
		SentPackets:     c.SentPackets.Load(),
		SentBytes:       c.SentBytes.Load(),
		ReceivedPackets: c.ReceivedPackets.Load(),
		ReceivedBytes:   c.ReceivedBytes.Load(),
		SendErrors:      c.SendErrors.Load(),
		Truncated:       c.Truncated.Load(),
		Overflows:       c.Overflows.Load(),
		BadChecksums:    c.BadChecksums.Load(),
	}
}
