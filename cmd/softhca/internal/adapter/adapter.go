package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Open opens an adapter on addresses or a network interface, in the form of
// verbs.Config.Addr. The caller calls closer once.
type Open func(addr string) (dev *verbs.Context, closer func() error, err error)

// Opener opens the adapter of a command.
type Opener struct {
	Addr string // the user's --addr; empty: the command's addresses decide
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
	// Local is the address that an ID binds to or resolves from: a server's
	// address, which may be the wildcard of both families, or a client's source
	// with port 0. The zero value leaves the choice to the manager.
	Local netip.AddrPort
	// Peer is the server of a client.
	Peer   netip.AddrPort
	opener Opener
	closer func() error
}

// Server opens the adapter of a server on the address bind and a port, each a
// number or a name. Without bind it is the wildcard of both families. The
// adapter is on the user's choice, else on bind, else on the first interface
// that is usable.
func (o Opener) Server(ctx context.Context, bind, port string) (*Adapter, error) {
	number, err := LookupPort(ctx, port)
	if err != nil {
		return nil, err
	}
	local := netip.IPv6Unspecified()
	if bind != "" {
		if local, err = LookupHost(ctx, bind, netip.Addr{}); err != nil {
			return nil, err
		}
	}
	where := o.Addr
	if where == "" && local.IsUnspecified() {
		if where, err = firstInterface(local.Is4()); err != nil {
			return nil, err
		}
	}
	s, err := o.At(cmp.Or(where, local.String()))
	if err != nil {
		return nil, err
	}
	s.Local = netip.AddrPortFrom(local, number)
	if err := s.has(local); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Client opens the adapter of a client of the server at host and port, each a
// number or a name. The adapter is on the user's choice, else on source, else
// on the address from which the kernel would send to host.
func (o Opener) Client(ctx context.Context, source, host, port string) (*Adapter, error) {
	number, err := LookupPort(ctx, port)
	if err != nil {
		return nil, err
	}
	local, err := o.source(ctx, source)
	if err != nil {
		return nil, err
	}
	peer, err := LookupHost(ctx, host, local)
	if err != nil {
		return nil, err
	}
	if peer.IsUnspecified() {
		return nil, fmt.Errorf("%v is no server's address: name the one that the server has: %w", peer, ib.EINVAL)
	}
	if o.Addr == "" && source == "" {
		if local, err = route(ctx, peer); err != nil {
			return nil, err
		}
	}
	s, err := o.At(cmp.Or(o.Addr, local.String()))
	if err != nil {
		return nil, advise(err, peer, local)
	}
	s.Peer = netip.AddrPortFrom(peer, number)
	if source != "" {
		s.Local = netip.AddrPortFrom(local, 0)
		if err := s.has(local); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// source returns the required address of a client: source, or else the user's
// choice if that is an address.
func (o Opener) source(ctx context.Context, source string) (netip.Addr, error) {
	if source != "" {
		return LookupHost(ctx, source, netip.Addr{})
	}
	local, err := netip.ParseAddr(o.Addr)
	if err != nil {
		return netip.Addr{}, nil // an interface, or several addresses
	}
	return local.Unmap(), nil
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

// has returns an error unless the adapter has the address.
func (a *Adapter) has(addr netip.Addr) error {
	all, err := GIDs(a.Device)
	if err == nil && !addr.IsUnspecified() && !slices.Contains(all, addr) {
		err = fmt.Errorf("the adapter has no address %v: name it with --addr, or leave --addr out: %w", addr, ib.EADDRNOTAVAIL)
	}
	return err
}

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

// Addrs returns the addresses by which clients reach a server: its bound address,
// or the adapter's addresses in the family of the wildcard.
func (a *Adapter) Addrs() ([]netip.Addr, error) {
	local := a.Local.Addr()
	if !local.IsUnspecified() {
		return []netip.Addr{local}, nil
	}
	all, err := GIDs(a.Device)
	return slices.DeleteFunc(all, func(addr netip.Addr) bool { return !addr.Is4() && local.Is4() }), err
}

// Listening returns a line with the addresses of a server.
func (a *Adapter) Listening() string {
	addrs, err := a.Addrs()
	if err != nil || len(addrs) == 0 {
		return fmt.Sprintf("listening on %v", a.Local)
	}
	text := "listening on "
	for i, addr := range addrs {
		if i > 0 {
			text += ", "
		}
		text += addr.String()
	}
	return fmt.Sprintf("%s, port %d", text, a.Local.Port())
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
