package nodes

import (
	"fmt"
	"time"
)

// Load is what is transferred, and how patiently.
type Load struct {
	Connections int
	Count       int           // messages of a connection in each direction
	Size        int           // bytes of a message; 0 makes Count 0
	Idle        time.Duration // give up when nothing happens for so long; 0: never
}

// Limits of a Load, so that its memory is bounded.
const (
	maxConnections = 1 << 14
	maxSize        = 1 << 30
	maxMemory      = 1 << 30 // bytes of all buffers
)

// Check returns what is wrong with the load. Whether the adapter has queues for
// Count messages is seen when they are made.
func (l *Load) Check() error {
	switch {
	case l.Connections < 1 || l.Connections > maxConnections:
		return fmt.Errorf("%d connections: want 1 to %d", l.Connections, maxConnections)
	case l.Count < 0:
		return fmt.Errorf("count %d: want a number of messages, or 0 for none", l.Count)
	case l.Size < 0 || l.Size > maxSize:
		return fmt.Errorf("size %d: want 0 to %d bytes", l.Size, maxSize)
	case l.Connections*l.buffer() > maxMemory:
		return fmt.Errorf("the buffers of %d connections with messages of %d bytes are larger than %d bytes", l.Connections, l.Size, maxMemory)
	case l.Idle < 0:
		return fmt.Errorf("idle %v: want a time, or 0 for no limit", l.Idle)
	}
	return nil
}

// Messages returns how many messages a connection sends, and receives.
func (l *Load) Messages() int {
	if l.Size == 0 {
		return 0
	}
	return l.Count
}

// grhBytes stand before the payload of a UD message in the receive buffer.
const grhBytes = 40

// slot is the room of a receive, enough for either service.
func (l *Load) slot() int { return grhBytes + l.Size }

// buffer is the memory of a node: the first receive, the other receives, and
// what is sent.
func (l *Load) buffer() int { return 2*l.slot() + l.Size }
