package verbs

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/fault"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/identity"
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
	// means its link-local address, its IPv4 and its other IPv6 addresses.
	// Empty is the first usable address. One process at a time can have an
	// address; use 127.0.0.1, 127.0.0.2, … for several adapters on one host.
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
	// Seed, if not zero, makes keys and QPNs repeatable. Zero draws them from
	// the system's cryptographic source.
	Seed uint64
	// ClearMigReq sends the BTH migration bit as 0, as Linux does, instead
	// of 1, as adapters do. Peers accept both.
	ClearMigReq bool
	// Credits makes responders report free receives in their
	// acknowledgements, as adapters do. Linux does not.
	Credits bool
	// NodeGUID names the adapter to its peers. 0 takes that of the environment
	// variable SOFTHCA_GUID or, without one, derives it from the adapter's first
	// address, QPNSlot, and a secret of the user: random bytes that the first
	// adapter ever opened leaves in the file softhca/secret of the directory for
	// configuration (os.UserConfigDir). So it is the same after a restart, by which
	// peers learn of it, and no stranger can compute it: whoever knows it and can
	// send in the adapter's name can end its connections. If that file cannot be
	// written or read, the GUID changes with the process.
	NodeGUID ib.GUID
	// QPNSlot is the upper 8 bits of every QPN.
	QPNSlot uint8
	// DisableOffload keeps the UDP port from using GSO and GRO.
	DisableOffload bool
	// Privileged allows Q_Keys with bit 31 set.
	Privileged bool
	// Faults makes things go wrong on demand. The environment may add to it.
	Faults Faults
}

// Option changes a configuration; see WithFaults.
type Option func(*Config)

// source returns the numbers that keys and QPNs come from.
func (c *Config) source() func() uint32 {
	if c.Seed != 0 {
		r := mrand.New(mrand.NewPCG(c.Seed, c.Seed))
		return r.Uint32
	}
	return func() uint32 {
		var b [4]byte
		// crypto/rand.Read never fails: it ends the program instead.
		_, _ = rand.Read(b[:])
		return binary.NativeEndian.Uint32(b[:])
	}
}

// GUIDEnv is the environment variable with the GUID of every adapter that does
// not set one, as four groups of four hexadecimal digits.
const GUIDEnv = "SOFTHCA_GUID"

// guid returns the GUID of the adapter on an address.
func (c *Config) guid(addr netip.Addr) (uint64, error) {
	if c.NodeGUID != 0 {
		return uint64(c.NodeGUID), nil
	}
	if env := os.Getenv(GUIDEnv); env != "" {
		g, err := strconv.ParseUint(strings.ReplaceAll(env, ":", ""), 16, 64)
		if err != nil || g == 0 {
			return 0, fmt.Errorf("%s=%q: want a GUID such as 0200:0000:0000:0001: %w", GUIDEnv, env, ib.EINVAL)
		}
		return g, nil
	}
	secret := identity.OfUser()
	return secret.GUID(addr, c.QPNSlot), nil
}

// openPort opens what the configuration names.
func (c *Config) openPort(faults *injector) (fabric.Port, error) {
	addrs, err := resolve(c.Addr)
	if err != nil {
		return nil, err
	}
	var p fabric.Port
	switch {
	case c.Network != nil:
		p, err = c.Network.pipe.Port(addrs...)
	case c.Transport == Raw:
		p, err = openRaw(addrs)
	default:
		u := udp.Config{Addrs: addrs, DisableGRO: c.DisableOffload}
		if c.DisableOffload {
			u.GSO = udp.GSOOff
		}
		p, err = openUDP(u)
	}
	if err != nil {
		return nil, fmt.Errorf("open adapter on %s: %w", list(addrs), err)
	}
	if faults != nil {
		p = fault.Wrap(p, fault.Config{Rules: faults.all, Now: faults.now, Trace: c.Trace})
	}
	return c.capturing(p)
}

// openUDP returns an interface that is nil on error.
func openUDP(c udp.Config) (fabric.Port, error) {
	p, err := udp.Open(c)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func list(addrs []netip.Addr) string {
	s := ""
	for i, a := range addrs {
		if i > 0 {
			s += ","
		}
		s += a.String()
	}
	return s
}
