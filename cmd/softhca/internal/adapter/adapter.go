package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Open opens an adapter on addresses or a network interface, in the form of
// verbs.Config.Addr. The caller calls closer once.
type Open func(addr string) (dev *verbs.Context, closer func() error, err error)

// Opener opens the adapter of a command.
type Opener struct {
	Addr string // the user's --addr; empty: the first interface, or the one to the server
	Open Open
	// Response, if not zero, sets the timeout and the retries of a client.
	Response Response
}

// Response is the timeout and the retries of a message of the connection manager.
type Response struct {
	Timeout uint8 // 5-bit code, as ib.AckTimeout takes it
	Retries uint8 // 1 to 15
}

// Adapter is an adapter and its connection manager. It is safe for concurrent
// use, as both of them are.
type Adapter struct {
	*rdmacm.Manager
	Device *verbs.Context
	// Local is the address on which a server listens.
	Local netip.AddrPort
	// Peer is the server of a client.
	Peer   netip.AddrPort
	opener Opener
	closer func() error
}

// Server opens the adapter of a server on a port of all its addresses. The adapter is on
// the user's choice, else on the first interface that is usable.
func (o Opener) Server(port uint16) (*Adapter, error) {
	where := o.Addr
	if where == "" {
		var err error
		if where, err = firstInterface(); err != nil {
			return nil, err
		}
	}
	s, err := o.At(where)
	if err != nil {
		return nil, err
	}
	s.Local = netip.AddrPortFrom(netip.IPv6Unspecified(), port)
	return s, nil
}

// Client opens the adapter of a client of the server at a port of host, an address or a
// name. The adapter is on the user's choice, else on the address from which the kernel
// would send to host.
func (o Opener) Client(ctx context.Context, host string, port uint16) (*Adapter, error) {
	local, err := netip.ParseAddr(o.Addr)
	if err != nil {
		local = netip.Addr{} // an interface, several addresses, or no choice
	}
	peer, err := lookupHost(ctx, host, local.Unmap())
	if err != nil {
		return nil, err
	}
	if peer.IsUnspecified() {
		return nil, fmt.Errorf("%v cannot be a server's address: give the address that the server has: %w", peer, ib.EINVAL)
	}
	if o.Addr == "" {
		if local, err = Route(ctx, peer); err != nil {
			return nil, err
		}
	}
	s, err := o.At(cmp.Or(o.Addr, local.String()))
	if err != nil {
		return nil, advise(err, peer, local)
	}
	s.Peer = netip.AddrPortFrom(peer, port)
	return s, nil
}

// At opens the adapter on an address, addresses or an interface, and joins it to a
// connection manager.
func (o Opener) At(where string) (*Adapter, error) {
	dev, closer, err := o.Open(where)
	if err != nil {
		return nil, err
	}
	m, err := rdmacm.New(dev)
	if err != nil {
		return nil, errors.Join(err, closer())
	}
	return &Adapter{Manager: m, Device: dev, opener: o, closer: closer}, nil
}

// NewID returns an ID whose events go to ch, as CreateID does, with the user's
// Response. A short timeout also shortens the packet lifetime, which the protocol
// adds to each wait.
func (a *Adapter) NewID(ch *rdmacm.EventChannel, ps rdmacm.PortSpace) (*rdmacm.ID, error) {
	id, err := a.CreateID(ch, ps)
	r := a.opener.Response
	if err != nil || r == (Response{}) {
		return id, err
	}
	err = id.SetResponseTimeout(r.Timeout, r.Retries)
	if err == nil && r.Timeout > 0 && r.Timeout < cmTimeout && ps != rdmacm.UDP && ps != rdmacm.IPoIB {
		err = id.SetAckTimeout(r.Timeout)
	}
	if err != nil {
		return nil, errors.Join(err, id.Destroy())
	}
	return id, nil
}

// Bind returns an ID on the address of a server, which can listen.
func (a *Adapter) Bind(ch *rdmacm.EventChannel, ps rdmacm.PortSpace) (*rdmacm.ID, error) {
	id, err := a.NewID(ch, ps)
	if err != nil {
		return nil, err
	}
	if err := id.BindAddr(a.Local); err != nil {
		return nil, errors.Join(err, id.Destroy())
	}
	return id, nil
}

// cmTimeout is the 5-bit code of the response timeout by default.
const cmTimeout = 20

// GIDs returns the addresses of the adapter, in the order of its GID table.
func GIDs(dev *verbs.Context) ([]netip.Addr, error) {
	port, err := dev.QueryPort()
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	for i := range port.GIDTblLen {
		all = append(all, dev.QueryGID(i).Addr())
	}
	return all, nil
}

// Listening returns a line with the addresses of a server.
func (a *Adapter) Listening() string {
	addrs, err := GIDs(a.Device)
	if err != nil {
		return fmt.Sprintf("listening on port %d", a.Local.Port())
	}
	names := make([]string, len(addrs))
	for i, addr := range addrs {
		names[i] = addr.String()
	}
	return fmt.Sprintf("listening on %s, port %d", strings.Join(names, ", "), a.Local.Port())
}

// Close destroys the manager's IDs and closes the adapter.
func (a *Adapter) Close() error { return errors.Join(a.Manager.Close(), a.closer()) }

// advise adds advice to an error if another adapter, most often the server's, has
// the address of the client's adapter.
func advise(err error, peer, local netip.Addr) error {
	if !errors.Is(err, ib.EADDRINUSE) {
		return err
	}
	if peer != local && !peer.IsLoopback() {
		return fmt.Errorf("%w: end the other process, or name another address of this host with --addr", err)
	}
	if peer.Is6() {
		return fmt.Errorf("%w: the server and the client on one host need an address each: use 127.0.0.1 and 127.0.0.2, or add another IPv6 address to an interface", err)
	}
	return fmt.Errorf("%w: the server and the client on one host need an address each: give the server --addr 127.0.0.1 and the client --addr 127.0.0.2", err)
}
