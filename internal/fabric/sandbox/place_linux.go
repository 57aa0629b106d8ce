package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/softhca/softhca/internal/namespace"
)

// Place is a second network namespace, which acts as another host.
type Place struct{ network *namespace.Place }

// NewPlace creates a place with its loopback interface up. It lasts until the
// process ends. The test must be in a sandbox.
func NewPlace(t *testing.T) *Place {
	t.Helper()
	p, err := namespace.NewPlace()
	if err != nil {
		t.Fatal(err)
	}
	return &Place{p}
}

// Do calls f on a thread in the place. Sockets and processes that f creates
// stay in the place.
func (p *Place) Do(t *testing.T, what string, f func() error) {
	t.Helper()
	if err := p.network.Do(f); err != nil {
		t.Fatalf("sandbox: %s: %v", what, err)
	}
}

// Join creates a pair of interfaces, one in the test's network and one in the
// place, with an address each, and brings them up.
func (p *Place) Join(t *testing.T, near, far string, nearAddr, farAddr netip.Prefix) {
	t.Helper()
	err := p.network.Join(namespace.End{Name: near, Addr: nearAddr}, namespace.End{Name: far, Addr: farAddr})
	if errors.Is(err, errors.ErrUnsupported) {
		// The kernel lacks veth.
		t.Skipf("no pair of interfaces here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// DropFrom drops, with nftables, all packets that arrive at the place on an
// interface. It skips the test if the program nft is missing.
func (p *Place) DropFrom(t *testing.T, ifname string) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skipf("a cut by nftables needs the program nft (Debian: nftables): %v", err)
	}
	rules := fmt.Sprintf("table inet cut { chain in { type filter hook prerouting priority raw; iifname %q drop; }; }", ifname)
	p.Do(t, "cut by nftables", func() error { return namespace.Filter(rules) })
}
