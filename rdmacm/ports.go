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

// portTable holds the IDs that are bound to each port. m.mu guards it.
type portTable map[portKey][]*ID

// claim gives an ID a port at an address, which may be unspecified, and returns both.
// Errors: EADDRINUSE if another ID has the port at this address; EADDRNOTAVAIL if one
// has it at another address and either address is unspecified, or if no port is free.
func (t portTable) claim(id *ID, a netip.AddrPort) (netip.AddrPort, error) {
	if a.Port() == 0 {
		return t.ephemeral(id, a.Addr())
	}
	k := portKey{id.ps, a.Port()}
	if err := t.check(k, id, a.Addr(), id.settings.reuse); err != nil {
		return netip.AddrPort{}, err
	}
	t[k] = append(t[k], id)
	return a, nil
}

// ephemeral gives an ID a free port, chosen at random. Processes that were forked earlier must
// not choose the same ports, as they would with the runtime's generator: a fork copies its
// seed.
func (t portTable) ephemeral(id *ID, a netip.Addr) (netip.AddrPort, error) {
	const n = lastEphemeral - firstEphemeral + 1
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails
	begin := int(binary.NativeEndian.Uint32(seed[:]) % n)
	for i := range n {
		k := portKey{id.ps, uint16(firstEphemeral + (begin+i)%n)}
		if len(t[k]) == 0 {
			t[k] = []*ID{id}
			return netip.AddrPortFrom(a, k.port), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("no port of %v is free: %w", id.ps, ib.EADDRNOTAVAIL)
}

// check returns an error if an ID cannot be bound to a port at an address or, without
// reuse, cannot listen there.
func (t portTable) check(k portKey, id *ID, a netip.Addr, reuse bool) error {
	for _, o := range t[k] {
		b := o.src.Addr()
		switch {
		case o == id, reuse && o.settings.reuse:
		case a.Is4() != b.Is4() && id.settings.only(a) && o.settings.only(b):
		case a.IsUnspecified() || b.IsUnspecified():
			return fmt.Errorf("port %d of %v is taken at %v: %w", k.port, k.ps, b, ib.EADDRNOTAVAIL)
		case a == b:
			return fmt.Errorf("port %d of %v is taken at %v: %w", k.port, k.ps, b, ib.EADDRINUSE)
		}
	}
	return nil
}

// release frees an ID's port.
func (t portTable) release(id *ID) {
	k := portKey{id.ps, id.src.Port()}
	i := slices.Index(t[k], id)
	if i < 0 {
		return // not bound, or the ID of a request
	}
	if t[k] = slices.Delete(t[k], i, i+1); len(t[k]) == 0 {
		delete(t, k)
	}
}

// listener returns the ID that takes requests for an address and port.
func (t portTable) listener(k portKey, a netip.Addr) *ID {
	for _, id := range t[k] {
		if id.listening && id.takes(a) {
			return id
		}
	}
	return nil
}

// takes reports whether a listener's address covers a. An unspecified address also
// covers the other family, unless the ID is restricted to its own.
func (id *ID) takes(a netip.Addr) bool {
	own := id.src.Addr()
	if !own.IsUnspecified() {
		return own == a
	}
	return a.Is4() == own.Is4() || !id.settings.only(own)
}

// only reports whether an ID that is bound to an address is restricted to its family: by
// SetAFOnly or, if that was not called, with IPv4.
func (s *settings) only(a netip.Addr) bool {
	if s.afSet {
		return s.afOnly
	}
	return a.Is4()
}
