package verbs

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/qp"
)

// Transport is how an adapter reaches the network.
type Transport uint8

const (
	// UDP is an ordinary UDP socket on port 4791: no privilege needed.
	UDP Transport = iota
	// Raw sees and writes whole IP packets; Linux, with CAP_NET_RAW.
	Raw
)

// String returns "udp" or "raw".
func (t Transport) String() string {
	if t == Raw {
		return "raw"
	}
	return "udp"
}

// Wire is how packets of an adapter on UDP reach adapters of the same user on the same host. Both
// kinds carry the same packets.
type Wire uint8

const (
	// WireDefault is what the environment variable SOFTHCA_WIRE says, "udp" or "auto"; without
	// the variable, WireAuto on Linux, and WireUDP on other systems.
	WireDefault Wire = iota
	// WireUDP is UDP, as to other hosts: tcpdump sees the packets, and traffic control and
	// firewalls act on them. Choose it to watch or disturb packets on the loopback interface.
	WireUDP
	// WireAuto is shared memory between two processes that both use WireAuto, once they have met,
	// and UDP otherwise. Processes do not meet on other systems than Linux, nor while the network
	// interface has a queueing discipline.
	WireAuto
)

// WireEnv is the environment variable with the Wire of every adapter that does not set one.
const WireEnv = "SOFTHCA_WIRE"

// String returns "udp", "auto", or "" for WireDefault.
func (w Wire) String() string {
	switch w {
	case WireUDP:
		return "udp"
	case WireAuto:
		return "auto"
	}
	return ""
}

// Network joins adapters of one process without sockets: for tests, for
// examples and where there is no network.
type Network struct{ pipe *pipe.Network }

// NewNetwork returns a network without adapters.
func NewNetwork() *Network { return &Network{pipe.NewNetwork(pipe.Options{})} }

// Config says which adapter to open. The zero value opens one on the first
// usable address of the host.
type Config struct {
	// Addr names the local addresses, which become the GID table in this
	// order: IP addresses separated by commas, or a network interface, which
	// means its link-local address, its IPv4 and its other IPv6 addresses. So GID
	// index 0 of an interface with IPv6 is mostly link-local, as on Linux, and reaches
	// peers on the same link only; IPv4 has the next index.
	// Empty is the first usable address. On Linux, processes of one user share
	// an address. Elsewhere, and between users, one adapter at a time can have
	// it: use several, such as 127.0.0.1, 127.0.0.2, …
	Addr string
	// Transport is the kind of port.
	Transport Transport
	// Wire is how packets reach adapters of the same user on this host: by default, on Linux,
	// through shared memory.
	Wire Wire
	// Network, if set, replaces Transport: the adapter joins it.
	Network *Network
	// Capture, if set, receives every packet sent and received as pcapng, and between them
	// the lines of the adapter's log from level Info on. The thread that moves the packet, or
	// on which the event happens, writes it; writes are never concurrent.
	Capture io.Writer
	// Trace, if set, is called for everything that happens on a QP or a
	// connection, on the thread that causes it; several threads may call it at
	// once. It must not block, call the adapter, or keep the record.
	Trace func(*TraceRecord)
	// Log, if set, logs the opening of the adapter, state changes of queue pairs, connections
	// that begin, end or are rejected, retries, drops and faults at level Info; completions with
	// an error other than a flush, events that report an error, and connections that the peer
	// rejects or does not answer, at Warn; packets and other completions at Debug, if the level
	// is Debug when the adapter is opened. A line that is about a connected queue pair, unless it is
	// about a packet, has the attribute conn, which is the same at both ends, such as
	// 10.0.0.1/0x000011-10.0.0.2/0x000012. Lines above Debug are limited: of one sort, 20 at
	// once and then 10 in a second; the attribute left_out is the number of lines that are missing before this one. The
	// handler runs on the thread on which the event happens: a handler that blocks delays
	// packets. A handler must not call the adapter.
	Log *slog.Logger
	// Seed, if not zero, makes keys and QPNs repeatable. Zero draws them from
	// the system's cryptographic source.
	Seed uint64
	// ClearMigReq sends the BTH migration bit as 0, as Linux does, instead
	// of 1, as adapters do. Peers accept both. A queue pair that uses path
	// migration sends the bit of its migration state.
	ClearMigReq bool
	// Credits makes responders report free receives in their
	// acknowledgements, as adapters do. Linux does not.
	Credits bool
	// InOrderOnly drops packets that arrive out of order, and retransmits
	// everything from the first lost packet, as Linux does. Without it the
	// adapter keeps such packets, retransmits only the missing ones to a peer
	// that also keeps them, and soon probes a silent peer. Either kind of
	// adapter works with either kind of peer.
	InOrderOnly bool
	// ProbeAfter is the minimum time after which a requester probes a silent peer by
	// retransmitting a packet. 0 is 1 ms, and 4 ms until a round trip was measured;
	// longer round trips lengthen the time. A higher value avoids needless probes of
	// hosts that answer slowly, and slows down recovery from loss. It does not affect
	// the queue pair's own timeout.
	ProbeAfter time.Duration
	// FatalEvents raises EventQPFatal for every queue pair that moves to ERR by
	// itself. Without it the event comes only for errors that neither a completion
	// nor EventQPReqErr or EventQPAccessErr reports, such as a completion queue
	// that overflows: the architecture's local work queue catastrophic error.
	FatalEvents bool
	// NoChallenge ends or moves a connection at once when a packet says so: a NAK, or one that claims
	// that the peer has migrated. Without it the adapter first asks the peer for an answer, and
	// believes the packet after 10 ms, or two round trips, of silence: strangers on the peer's host can
	// send packets in its name. Set it for tests that measure how soon an error is reported.
	NoChallenge bool
	// NodeGUID identifies the adapter to its peers. If it is 0, the adapter takes the
	// GUID of the environment variable SOFTHCA_GUID or, without one, derives a GUID
	// from its first address, QPNSlot, and a secret of the user: random bytes that the
	// user's first adapter writes to the file softhca/secret in the configuration
	// directory (os.UserConfigDir). A restarted program has the same GUID, so peers
	// notice the restart. Other users cannot compute it: with the GUID and packets
	// from the adapter's address they could end its connections. If the file cannot
	// be read or written, each process has another GUID.
	NodeGUID GUID
	// QPNSlot is the upper 8 bits of every QPN. If it is 0, the adapter takes the
	// next free slot among the adapters that share its address; the first adapter
	// takes 0. Any other value implies Exclusive.
	QPNSlot uint8
	// Exclusive keeps other adapters from sharing the addresses: Open fails with
	// EADDRINUSE if another adapter has one, and so does a later Open of one.
	Exclusive bool
	// DisableOffload keeps the UDP port from using GSO and GRO.
	DisableOffload bool
	// Privileged allows Q_Keys with bit 31 set.
	Privileged bool
	// Faults injects faults. The environment may add rules.
	Faults Faults

	checked // set by WithCheck
}

// NastyEnv is the environment variable with which every adapter behaves as badly as the
// specification permits: a seed, such as 7, or 7,without=placement (docs/nasty.md).
const NastyEnv = "SOFTHCA_NASTY"

// GUIDEnv is the environment variable with the GUID of every adapter that does
// not set one, as four groups of four hexadecimal digits.
const GUIDEnv = "SOFTHCA_GUID"

// Option changes a configuration; see WithFaults.
type Option func(*Config)

// device returns the configuration of the device.
func (c *Config) device() device.Config {
	d := device.Config{
		Addr: c.Addr, Raw: c.Transport == Raw, DisableOffload: c.DisableOffload, Wire: device.Wire(c.Wire), Capture: c.Capture, Trace: tracer(c.Trace), Log: c.Log,
		Seed: c.Seed, NodeGUID: uint64(c.NodeGUID), QPNSlot: c.QPNSlot, Exclusive: c.Exclusive, Privileged: c.Privileged, Faults: device.Faults(c.Faults), Check: live.SinkOf(c),
		Env:      device.ProcessEnvironment(),
		Settings: qp.Settings{MigReq: !c.ClearMigReq, Credits: c.Credits, InOrderOnly: c.InOrderOnly, ProbeAfter: c.ProbeAfter, FatalEvents: c.FatalEvents, NoChallenge: c.NoChallenge},
	}
	if c.Network != nil {
		d.Network = c.Network.pipe
	}
	if c.Log != nil {
		d.Warn = func(format string, args ...any) { c.Log.Warn(fmt.Sprintf(format, args...)) }
	}
	return d
}
