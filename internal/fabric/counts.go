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
	Near            [NumNear]atomic.Uint64
}

// NearCount names a count of the packets and meetings of shared memory. Those of packets are
// also among the counts of the port.
type NearCount uint8

// The counts. The last two are what the port has now, the others never decrease.
const (
	NearSent     NearCount = iota // packets
	NearReceived                  // packets
	NearDropped                   // packets to a process whose ring stayed full
	NearMet                       // meetings
	NearRefused                   // meetings that this process or the other one has refused
	NearGarbage                   // meetings that ended because the other process wrote garbage
	NearPeers                     // processes to and from which packets take shared memory
	NearMemory                    // bytes of the rings to them
	NumNear
)

var nearNames = [NumNear]string{
	"near_sent_packets", "near_received_packets", "near_dropped_packets", "near_meetings", "near_refused_meetings",
	"near_garbled_meetings", "near_peers", "near_memory_bytes",
}

// String returns the name of the count as it appears among the counters.
func (n NearCount) String() string {
	if n < NumNear {
		return nearNames[n]
	}
	return "near"
}

// Begin prepares the counts of a closed port, which may be that of a process that was killed, for
// the next one.
func (c *Counts) Begin() {
	c.Near[NearPeers].Store(0)
	c.Near[NearMemory].Store(0)
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
	s := Stats{
		SentPackets:     c.SentPackets.Load(),
		SentBytes:       c.SentBytes.Load(),
		ReceivedPackets: c.ReceivedPackets.Load(),
		ReceivedBytes:   c.ReceivedBytes.Load(),
		SendErrors:      c.SendErrors.Load(),
		Truncated:       c.Truncated.Load(),
		Overflows:       c.Overflows.Load(),
		BadChecksums:    c.BadChecksums.Load(),
	}
	for i := range c.Near {
		s.Near[i] = c.Near[i].Load()
	}
	return s
}
