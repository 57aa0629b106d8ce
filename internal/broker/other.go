//go:build !linux || portable

package broker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/mad"
)

// errHere is returned on systems other than Linux.
var errHere = fmt.Errorf("processes share addresses on Linux only: give each an --addr of its own: %w", errors.ErrUnsupported)

// Broker serves addresses that processes share. It exists only on Linux.
type Broker struct{}

// Open fails.
func Open(Config) (*Broker, error) { return nil, errHere }

// Recovered reports false.
func (b *Broker) Recovered() bool { return false }

// Slots returns 0.
func (b *Broker) Slots() int { return 0 }

// Serve fails.
func (b *Broker) Serve(context.Context) error { return errHere }

// Close does nothing.
func (b *Broker) Close() error { return nil }

// Lease is a process's place on addresses that it shares.
type Lease struct {
	Slot uint8
	GUID uint64
}

// Enter returns no lease.
func Enter(Config) (*Lease, *udp.Lease, error) { return nil, nil, nil }

// Look returns nil: opening the addresses reports the error.
func Look([]netip.Addr, bool, *identity.Secret) error { return nil }

// Introduce does nothing.
func (s *Lease) Introduce(func() []Connection) {}

// Claim does nothing.
func (s *Lease) Claim(mad.ServiceID) error { return nil }

// Release does nothing.
func (s *Lease) Release(mad.ServiceID) {}

// ClaimDomain does nothing.
func (s *Lease) ClaimDomain(string) error { return nil }

// ReleaseDomain does nothing.
func (s *Lease) ReleaseDomain(string) {}

// Leave does nothing.
func (s *Lease) Leave() {}

// Close does nothing.
func (s *Lease) Close() {}

// Who returns ErrNone.
func Who(netip.Addr, *identity.Secret) (served []netip.Addr, slots int, all []Member, err error) {
	return nil, 0, nil, ErrNone
}
