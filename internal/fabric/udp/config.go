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

// Config configures a port.
type Config struct {
	// Addrs are the local addresses, in the order of the GID table. A zone is
	// not needed: the interface is the one that owns the address.
	Addrs []netip.Addr
	// RecvBuffer and SendBuffer are the bytes of socket buffer to ask for; 0
	// means 4 MiB. The system may grant less: see fabric.Caps.RecvBuffer.
	RecvBuffer int
	SendBuffer int
	// GSO selects segmentation offload, if the system has it.
	GSO GSO
	// DisableGRO keeps the system from merging received datagrams.
	DisableGRO bool
	// Counts is the memory of the port's counters; nil: the port allocates it.
	Counts *fabric.Counts
	// Idle is for a port that only reports its capabilities: on Linux it binds no
	// address and receives nothing. Other systems ignore it.
	Idle bool
	// Lease, if set, provides sockets that another process opened, instead of
	// the port's own; Linux only.
	Lease *Lease
}

// Lease is a slot on addresses that several processes share. A port opened with
// it owns its descriptors, even if opening fails.
type Lease struct {
	Sockets   []int // sockets of the slot, in the order of Config.Addrs
	Forwarded int   // Unix socket with datagrams of PutForwarded, or -1
	// Shared becomes true when other processes join the addresses of a process that
	// was alone. Until then Mail is empty, and received datagrams are merged. Nil
	// means true.
	Shared *atomic.Bool
}

// shared reports whether other processes may be on the addresses.
func (t *Lease) shared() bool { return t.Shared == nil || t.Shared.Load() }

// GSO selects whether runs are sent with UDP segmentation offload. A network
// card that segments in hardware may number IPv4 identifications differently,
// which would break the ICRC; the kernel's software numbers them 0, 1, 2 ….
type GSO uint8

const (
	// GSOAuto is on if every address belongs to an interface without hardware
	// (loopback, veth, tun, bridge), otherwise off.
	GSOAuto GSO = iota
	// GSOOn is always on, if the kernel has it.
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

// defaultBuffer is the default size of a socket buffer in bytes.
const defaultBuffer = 4 << 20

// normal returns the configuration with defaults filled in and addresses
// without zones, or an error if it is invalid.
func (c Config) normal() (Config, error) {
	addrs, err := iface.Clean(c.Addrs)
	if err != nil {
		return c, fmt.Errorf("udp: %w", err)
	}
	c.Addrs = addrs
	if c.Lease != nil && len(c.Lease.Sockets) != len(addrs) {
		return c, fmt.Errorf("udp: %d sockets for %d addresses: %w", len(c.Lease.Sockets), len(addrs), syscall.EINVAL)
	}
	c.RecvBuffer = cmp.Or(max(c.RecvBuffer, 0), defaultBuffer)
	c.SendBuffer = cmp.Or(max(c.SendBuffer, 0), defaultBuffer)
	if c.Counts == nil {
		c.Counts = new(fabric.Counts)
	}
	return c, nil
}
