package rdmacm

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
)

// The range of ports for IDs that request port 0: ip_local_port_range of Linux.
const (
	firstEphemeral = 32768
	lastEphemeral  = 60999
)

// portKey names a port of a port space.
type portKey struct {
	ps   PortSpace
	port uint16
}

// portTable holds the bindings to each port. m.mu guards it.
type portTable map[portKey][]*binding

// claim gives a binding a port at an address, which may be unspecified, and returns both.
// Errors: EADDRINUSE if another has the port at this address; EADDRNOTAVAIL if one
// has it at another address and either address is unspecified, or if no port is free.
func (t portTable) claim(b *binding, a netip.AddrPort) (netip.AddrPort, error) {
	if a.Port() == 0 {
		return t.ephemeral(b, a.Addr())
	}
	if err := t.check(b, a, b.reuse); err != nil {
		return netip.AddrPort{}, err
	}
	k := portKey{b.ps, a.Port()}
	t[k] = append(t[k], b)
	return a, nil
}

// ephemeral gives a binding a free port, chosen at random. Processes that were forked earlier must
// not choose the same ports, as they would with the runtime's generator: a fork copies its
// seed.
func (t portTable) ephemeral(b *binding, a netip.Addr) (netip.AddrPort, error) {
	const n = lastEphemeral - firstEphemeral + 1
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails
	begin := int(binary.NativeEndian.Uint32(seed[:]) % n)
	for i := range n {
		k := portKey{b.ps, uint16(firstEphemeral + (begin+i)%n)}
		if len(t[k]) == 0 {
			t[k] = []*binding{b}
			return netip.AddrPortFrom(a, k.port), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("no port of %v is free: %w", b.ps, ib.EADDRNOTAVAIL)
}

// check returns an error if a binding cannot have a port at an address or, without
// reuse, cannot listen there.
func (t portTable) check(b *binding, at netip.AddrPort, reuse bool) error {
	a := at.Addr()
	for _, o := range t[portKey{b.ps, at.Port()}] {
		taken := o.src.Addr()
		switch {
		case o == b, reuse && o.reuse:
		case a.Is4() != taken.Is4() && b.only(a) && o.only(taken):
		case a.IsUnspecified() || taken.IsUnspecified():
			return fmt.Errorf("port %d of %v is taken at %v: %w", at.Port(), b.ps, taken, ib.EADDRNOTAVAIL)
		case a == taken:
			return fmt.Errorf("port %d of %v is taken at %v: %w", at.Port(), b.ps, taken, ib.EADDRINUSE)
		}
	}
	return nil
}

// release frees a binding's port.
func (t portTable) release(b *binding) {
	k := portKey{b.ps, b.src.Port()}
	i := slices.Index(t[k], b)
	if i < 0 {
		return // not bound, or the ID of a request
	}
	if t[k] = slices.Delete(t[k], i, i+1); len(t[k]) == 0 {
		delete(t, k)
	}
}

// listener returns the ID that takes requests for an address and port.
func (t portTable) listener(k portKey, a netip.Addr) *ID {
	for _, b := range t[k] {
		if b.listener != nil && b.covers(a) {
			return b.listener
		}
	}
	return nil
}
