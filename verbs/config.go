package verbs

import (
	"io"
	"log/slog"
	"time"

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
	// Empty is the first usable address. Processes of one user share an address
	// on Linux; elsewhere, and of several users, one at a time can have it, and
	// 127.0.0.1, 127.0.0.2, … are several.
	Addr string
	// Transport is the kind of port.
	Transport Transport
	// Network, if set, replaces Transport: the adapter joins it.
	Network *Network
	// Capture, if set, receives every packet sent and received as pcapng. It
	// is written by whatever thread moves the packet, and never concurrently.
	Capture io.Writer
	// Trace, if set, is called with everything that happens on a QP, on the
	// thread that does it. It must not block, call the adapter, or keep the
	// record.
	Trace func(*TraceRecord)
	// Log, if set, gets what happens: that the adapter was opened and its queue pairs
	// change their states, retries, drops and faults at level Info; completions with an
	// error other than a flush, and events that tell of one, at Warn; packets and other
	// completions at Debug. It is called on the thread that moves packets, which a
	// handler that blocks holds up. A handler must not call the adapter.
	Log *slog.Logger
	// Seed, if not zero, makes keys and QPNs repeatable. Zero draws them from
	// the system's cryptographic source.
	Seed uint64
	// ClearMigReq sends the BTH migration bit as 0, as Linux does, instead
	// of 1, as adapters do. Peers accept both. A queue pair that was asked to
	// migrate sends what its state says.
	ClearMigReq bool
	// Credits makes responders report free receives in their
	// acknowledgements, as adapters do. Linux does not.
	Credits bool
	// InOrderOnly drops packets that come before their turn, and sends all
	// again from the first that was lost, as Linux does. Without it the adapter
	// keeps them, sends only what is missing to a peer that does the same, and
	// soon asks a silent peer what has arrived. Peers of either kind understand
	// both.
	InOrderOnly bool
	// ProbeAfter is the minimum time after which a requester asks a silent peer what
	// has arrived, by sending a packet again. 0 is 1 ms, and 4 ms until a round trip
	// was measured; longer round trips lengthen it by themselves. A higher value
	// avoids packets sent in vain to hosts that are slow to answer, and makes
	// recovery from loss slower. The queue pair's own timeout is not affected.
	ProbeAfter time.Duration
	// FatalEvents raises EventQPFatal for every queue pair that moves to ERR by
	// itself. Without it the event comes only for errors that neither a completion
	// nor EventQPReqErr or EventQPAccessErr reports, such as a completion queue
	// that overflows: the architecture's local work queue catastrophic error.
	FatalEvents bool
	// NodeGUID names the adapter to its peers. 0 takes that of the environment
	// variable SOFTHCA_GUID or, without one, derives it from the adapter's first
	// address, QPNSlot, and a secret of the user: random bytes that the first
	// adapter ever opened leaves in the file softhca/secret of the directory for
	// configuration (os.UserConfigDir). It stays the same after a restart, so peers
	// notice the restart. Other users cannot compute it: with the GUID and packets
	// from the adapter's address they could end its connections. If that file cannot
	// be written or read, the GUID changes with the process.
	NodeGUID GUID
	// QPNSlot is the upper 8 bits of every QPN. If it is 0, the adapter takes the
	// next that is free among those that share its address, 0 if it is the first.
	// Otherwise it is as with Exclusive.
	QPNSlot uint8
	// Exclusive keeps other adapters from sharing the addresses: Open fails with
	// EADDRINUSE if one has them, and so does a later Open of them.
	Exclusive bool
	// DisableOffload keeps the UDP port from using GSO and GRO.
	DisableOffload bool
	// Privileged allows Q_Keys with bit 31 set.
	Privileged bool
	// Faults makes things go wrong on demand. The environment may add to it.
	Faults Faults
}

// GUIDEnv is the environment variable with the GUID of every adapter that does
// not set one, as four groups of four hexadecimal digits.
const GUIDEnv = "SOFTHCA_GUID"

// Option changes a configuration; see WithFaults.
type Option func(*Config)

// device returns what the device is opened with.
func (c *Config) device() device.Config {
	d := device.Config{
		Addr: c.Addr, Raw: c.Transport == Raw, DisableOffload: c.DisableOffload, Capture: c.Capture, Trace: tracer(logged(c.Trace, c.Log)),
		Seed: c.Seed, NodeGUID: uint64(c.NodeGUID), QPNSlot: c.QPNSlot, Exclusive: c.Exclusive, Privileged: c.Privileged, Faults: device.Faults(c.Faults),
		Env:      device.ProcessEnvironment(),
		Settings: qp.Settings{MigReq: !c.ClearMigReq, Credits: c.Credits, InOrderOnly: c.InOrderOnly, ProbeAfter: c.ProbeAfter, FatalEvents: c.FatalEvents},
	}
	if c.Network != nil {
		d.Network = c.Network.pipe
	}
	return d
}
