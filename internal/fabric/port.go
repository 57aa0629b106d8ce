package fabric

import (
	"errors"
	"net/netip"
	"time"
)

// ErrBlocked is returned by Port.Send when the network accepts no more for now.
// Unsent runs are still in the batch.
var ErrBlocked = errors.New("fabric: send buffer full")

// ErrClosed is returned by a port after Close.
var ErrClosed = errors.New("fabric: port closed")

// Verification says how much of the ICRC of an arriving IPv4 packet the engine
// can check on a port. Over IPv6 it always checks all of it.
type Verification uint8

const (
	// VerifyFull: the port delivers the IP identification, so the whole ICRC
	// is checked.
	VerifyFull Verification = iota
	// VerifyDerivedID: the identification, which the ICRC covers, is unknown
	// and derived from the ICRC. 1 of 65536 corrupted packets passes, and 1 of
	// 2^26 on an RC or UC queue pair whose peer is known to number the segments
	// of its runs. Packets without "don't fragment" are dropped.
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
	MaxSegments int          // maximum number of segments in a run; 1 without segmentation offload
	MaxRunBytes int          // maximum size of a run in bytes
	GRO         bool         // received datagrams may hold several segments
	SrcPort     uint16       // UDP source port of all sent packets; 0 if each path's own is used
	RecvBuffer  int          // size of the receive buffer, as the system counts bytes; 0 unknown
	Verify      Verification
	// Lend completes a new run, the last pending one of b, of which Path, Slot and Size are set. It
	// sets Bare if the packets need no ICRC, because they do not leave the memory of this host. It
	// may return memory of the port, between Size and most bytes, in which the run is then built.
	// This memory belongs to the batch until the run is sent or dropped, or the port calls
	// Batch.Own. Nil: no run is bare, and nothing is lent. The thread that holds the shard calls
	// Lend, also after Close.
	Lend func(b *Batch, most int) []byte
}

// Stats are the counts of a port since it was opened.
type Stats struct {
	SentPackets     uint64
	SentBytes       uint64
	ReceivedPackets uint64
	ReceivedBytes   uint64
	SendErrors      uint64 // packets that the system refused permanently
	Truncated       uint64 // datagrams dropped because they were longer than any packet
	Overflows       uint64 // datagrams that the system dropped for lack of buffer, if it reports them
	BadChecksums    uint64 // datagrams dropped for a wrong UDP checksum, if the port sees it
	Near            [NumNear]uint64
}

// Port is one attachment to a network. Send and Receive are called by the
// thread that holds the shard; Wait and WakeOn by one goroutine at a time,
// without the shard; any goroutine may call Join, Leave, Wake, Stats and Close.
type Port interface {
	// Caps describes the port.
	Caps() Caps
	// Send sends the pending runs in order and marks them as sent. It counts
	// and drops a run that the system refuses permanently. It does not block:
	// ErrBlocked means that some runs are left.
	Send(b *Batch) error
	// Receive fills ds with datagrams that have arrived, without blocking, and
	// returns their number. Their bytes are valid until the next Receive.
	Receive(ds []Datagram) (int, error)
	// Wait blocks until there is something to receive, or room to send when
	// write is set, or Wake is called, or the timeout has passed (never, if
	// negative). Without read, arrivals do not end the wait. With a timeout of 0
	// it only yields the processor.
	Wait(timeout time.Duration, read, write bool) error
	// Join makes the port receive packets to a multicast group, including its
	// own, on the networks of its addresses of that family. The port is in the
	// group until Leave has been called as often as Join. Join may take as long
	// as the system call does, but does not delay Send and Receive. Errors
	// unwrap to EINVAL if the address is not a group, EADDRNOTAVAIL without an
	// address of its family, ENOMEM beyond MaxGroups, EOPNOTSUPP if the system
	// does not support it, or to ErrClosed.
	Join(group netip.Addr) error
	// Leave undoes one Join; EINVAL if there was none.
	Leave(group netip.Addr) error
	// Wake ends the current or the next Wait.
	Wake()
	// WakeOn makes later calls of Wait also end when one of two descriptors of the
	// caller is readable; -1 stands for none. The goroutine that calls Wait calls
	// it. Ports that do not wait for descriptors ignore it.
	WakeOn(fds [2]int)
	// Stats returns the counts so far.
	Stats() Stats
	// Close releases the port; a Wait in progress returns ErrClosed. Meanwhile no thread may fill
	// a batch for which the port lends memory.
	Close() error
}
