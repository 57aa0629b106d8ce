package fabric

import (
	"errors"
	"net/netip"
	"time"
)

// ErrBlocked is returned by Port.Send when the network takes no more for now.
// What was not sent is still in the batch.
var ErrBlocked = errors.New("fabric: send buffer full")

// ErrClosed is returned by a port after Close.
var ErrClosed = errors.New("fabric: port closed")

// Verification says how much of an arriving IPv4 packet's ICRC a port lets
// the engine check. IPv6 is always checked in full.
type Verification uint8

const (
	// VerifyFull: the port delivers the IP identification, so the whole ICRC
	// is checked.
	VerifyFull Verification = iota
	// VerifyDerivedID: the identification, which the ICRC covers, is unknown.
	// It is derived from the ICRC: 1 of 65536 corruptions passes that, and 1
	// of 2^26 on an RC or UC queue pair whose peer is known to number the
	// segments of its runs. A packet without "don't fragment" is refused.
	VerifyDerivedID
)

// String returns "full" or "derived-id".
func (v Verification) String() string {
	if v == VerifyFull {
		return "full"
	}
	return "derived-id"
}

// Caps describes a port. It does not change while the port is open.
type Caps struct {
	Name        string       // kind: "udp", "raw", "pipe"
	Interface   string       // network interface, if known
	Addrs       []netip.Addr // local addresses, in the order of the GID table; no zones
	MTU         int          // bytes of the largest UDP payload that leaves unfragmented
	MaxSegments int          // segments that one run may have; 1 without segmentation offload
	MaxRunBytes int          // bytes that one run may have
	GRO         bool         // received datagrams may hold several segments
	SrcPort     uint16       // UDP source port of everything sent; 0 if each path's own is used
	RecvBuffer  int          // bytes that may wait to be received, as the system counts them; 0 unknown
	Verify      Verification
}

// Stats are the counts of a port since it was opened.
type Stats struct {
	SentPackets     uint64
	SentBytes       uint64
	ReceivedPackets uint64
	ReceivedBytes   uint64
	SendErrors      uint64 // packets that the system refused for good
	Truncated       uint64 // datagrams dropped because they were longer than any packet
	Overflows       uint64 // datagrams that the system dropped for want of buffer, where it tells
	BadChecksums    uint64 // datagrams dropped for a wrong UDP checksum, where the port sees it
}

// Port is one attachment to a network. Send and Receive are called by the
// thread that holds the shard; Wait and WakeOn by one goroutine at a time,
// without the shard; Join, Leave, Wake, Stats and Close by anyone.
type Port interface {
	// Caps describes the port.
	Caps() Caps
	// Send hands the pending runs to the network in order and takes what was
	// sent out of the batch. A run that the system refuses for good is counted
	// and dropped. It does not block: ErrBlocked says that some runs are left.
	Send(b *Batch) error
	// Receive fills ds with datagrams that have arrived, without blocking, and
	// returns how many. Their bytes are valid until the next Receive.
	Receive(ds []Datagram) (int, error)
	// Wait blocks until there is something to receive, or room to send when
	// write is set, or Wake is called, or the timeout has passed (never, if
	// negative). With read unset arrivals do not end the wait. With a timeout of
	// 0 it only lets others have the processor.
	Wait(timeout time.Duration, read, write bool) error
	// Join makes the port receive what is sent to a multicast group on the
	// networks of its addresses of that family, its own packets included. Each
	// Join counts: the port is in the group until as many calls of Leave. It
	// may take as long as the system does, without keeping Send and Receive
	// waiting. Errors unwrap to EINVAL for what is no group, EADDRNOTAVAIL
	// without an address of its family, ENOMEM beyond MaxGroups, EOPNOTSUPP
	// where the system gives no way, or to ErrClosed.
	Join(group netip.Addr) error
	// Leave takes one Join back; EINVAL if there was none.
	Leave(group netip.Addr) error
	// Wake ends the present or the next Wait.
	Wake()
	// WakeOn has the next calls of Wait end, too, when a descriptor of the
	// caller's can be read, until it is -1 again. Who waits calls it. A port that
	// waits for no descriptors ignores it.
	WakeOn(fd int)
	// Stats returns the counts so far.
	Stats() Stats
	// Close releases the port; a Wait in progress returns ErrClosed.
	Close() error
}
