package udp

import (
	"cmp"
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/iface"
)

// Config says which port to open.
type Config struct {
	// Addrs are the local addresses, in the order of the GID table. A zone is
	// not needed: the interface is the one that owns the address.
	Addrs []netip.Addr
	// RecvBuffer and SendBuffer are the bytes of socket buffer to ask for; 0
	// means 4 MiB. The system may grant less: see fabric.Caps.RecvBuffer.
	RecvBuffer int
	SendBuffer int
	// GSO chooses segmentation offload, where the system has it.
	GSO GSO
	// DisableGRO keeps the system from merging what arrives.
	DisableGRO bool
	// Counts are where the port counts; nil is memory of its own.
	Counts *fabric.Counts
	// Idle is for a port that only tells what others can do: it takes no address, and
	// nothing comes to it. Elsewhere than on Linux it is a port like others.
	Idle bool
	// Seat are sockets that others opened, in place of the port's own; Linux.
	Seat *Seat
}

// Seat is a place on addresses that several processes share. The port that is
// opened with it owns its descriptors, whether that succeeds or not.
type Seat struct {
	Sockets []int // of a slot of the groups of Config.Addrs, in their order
	Mail    int   // a Unix socket with what PutForwarded wrote, or -1
	// Shared is set when others come to the addresses of who was alone there. Until
	// then nothing is in the mail, and what arrives is merged as for a lone process.
	// Nil is as if it were set.
	Shared *atomic.Bool
}

// shared reports whether there are others on the addresses, for all that is known.
func (t *Seat) shared() bool { return t.Shared == nil || t.Shared.Load() }

// GSO says whether runs leave with UDP segmentation offload. A network card
// that segments by itself may number IPv4 identifications in its own way,
// which would spoil the ICRC; the kernel's software numbers them 0, 1, 2 ….
type GSO uint8

const (
	// GSOAuto is on when every address belongs to an interface without
	// hardware (loopback, veth, tun, bridge), else off.
	GSOAuto GSO = iota
	// GSOOn is always on, where the kernel has it.
	GSOOn
	// GSOOff is always off.
	GSOOff
)

// String returns "auto", "on" or "off".
func (g GSO) String() string {
	switch g {
	case GSOAuto:
		return "auto"
	case GSOOn:
		return "on"
	case GSOOff:
		return "off"
	default:
		return fmt.Sprintf("GSO(%d)", uint8(g))
	}
}

// defaultBuffer is what is asked of the system for a socket buffer.
const defaultBuffer = 4 << 20

// normal returns the configuration with defaults filled in and addresses
// without zones, or says what is wrong with it.
func (c Config) normal() (Config, error) {
	addrs, err := iface.Clean(c.Addrs)
	if err != nil {
		return c, fmt.Errorf("udp: %w", err)
	}
	c.Addrs = addrs
	if c.Seat != nil && len(c.Seat.Sockets) != len(addrs) {
		return c, fmt.Errorf("udp: %d sockets for %d addresses: %w", len(c.Seat.Sockets), len(addrs), syscall.EINVAL)
	}
	c.RecvBuffer = cmp.Or(max(c.RecvBuffer, 0), defaultBuffer)
	c.SendBuffer = cmp.Or(max(c.SendBuffer, 0), defaultBuffer)
	if c.Counts == nil {
		c.Counts = new(fabric.Counts)
	}
	return c, nil
}
