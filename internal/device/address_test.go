package device

import (
	"net"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestFirstUsableAddress resolves the zero configuration: one address, which
// this host has.
func TestFirstUsableAddress(t *testing.T) {
	addrs, err := resolve("")
	must.Do(t, err)
	if len(addrs) != 1 || !addrs[0].IsValid() || addrs[0].IsUnspecified() || addrs[0].Zone() != "" {
		t.Fatalf("the first usable address is %v", addrs)
	}
	own, err := net.InterfaceAddrs()
	must.Do(t, err)
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().WithZone("") == addrs[0] {
			return
		}
	}
	t.Errorf("%v is not among the addresses of this host: %v", addrs[0], own)
}

func TestOpenInterface(t *testing.T) {
	addrs, err := resolve("lo")
	must.Do(t, err)
	if len(addrs) == 0 || !addrs[0].IsLoopback() {
		t.Errorf("interface lo has the addresses %v", addrs)
	}
}

// TestLoopbacks checks that the first addresses come in order, without network addresses, and
// then unpredictable ones: those of two callers have nothing in common.
func TestLoopbacks(t *testing.T) {
	seen, n := map[netip.Addr]bool{}, 0
	for range 2 {
		n = 0
		for a := range Loopbacks() {
			if n++; n == 1 && a != FirstLoopback() || !a.IsLoopback() || a.As4()[3] == 0 || a.As4()[3] == 255 {
				t.Fatalf("address %d is %v", n, a)
			}
			seen[a] = true
		}
	}
	if n != LoopbacksInOrder+loopbacksAtRandom || len(seen) < LoopbacksInOrder+2*loopbacksAtRandom-50 {
		t.Errorf("%d addresses, %d different ones of two calls", n, len(seen))
	}
}
