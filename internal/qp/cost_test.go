package qp

import (
	"github.com/softhca/softhca/internal/flow"
	"testing"
)

// TestPacketCost checks the cost of packets in a peer's receive buffer. Window
// sizes were measured with these numbers.
func TestPacketCost(t *testing.T) {
	for payload, want := range map[uint32]uint32{0: 512, 256: 512, 384: 512, 385: 513, 1024: 1152, 4096: 4224} {
		if cost := flow.PacketCost(payload); cost != want {
			t.Errorf("a packet with %d bytes of payload costs %d, want %d", payload, cost, want)
		}
	}
}
