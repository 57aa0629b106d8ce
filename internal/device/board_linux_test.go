package device

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// TestBoard looks at a board while its adapter runs, and after others were
// opened with it.
func TestBoard(t *testing.T) {
	var board Board
	pid := os.Getpid()
	addr := netip.AddrFrom4([4]byte{127, byte(208 + pid>>8&15), byte(pid), 1})
	const lives = 3
	for life := uint64(1); life <= lives; life++ {
		board.Down.Store(1) // as an adapter that was killed may leave it
		d, err := Open(Config{Addr: addr.String(), Board: &board})
		must.Do(t, err)
		if d.PortDown() {
			t.Error("a port whose address is there is down: the board was not taken over")
		}
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, fabric.RoCEPort)))
		must.Do(t, err)
		if _, err := c.Write([]byte("no RoCE")); err != nil {
			t.Fatal(err)
		}
		var malformed uint64
		for malformed < life { // until it has arrived
			must.Do(t, d.Do(func(clock.Instant) error {
				malformed = board.Engine.Drops[counters.DropMalformed]
				return nil
			}))
		}
		if n := board.Port.ReceivedPackets.Load(); n != life || malformed != life {
			t.Errorf("the board says %d received and %d malformed, not %d: it does not count on", n, malformed, life)
		}
		must.Do(t, d.Close())
		_ = c.Close() // only written to
	}
}
