package device

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestIdentify gets the identity of an adapter without opening it.
func TestIdentify(t *testing.T) {
	cfg := Config{Addr: "127.0.0.77,127.0.0.78", NodeGUID: 7}
	got, err := Identify(cfg)
	must.Do(t, err)
	for i, a := range got.Addrs {
		if want := netip.AddrFrom4([4]byte{127, 0, 0, byte(77 + i)}); a != want || got.Interfaces[i] == "" {
			t.Errorf("address %d is %v on %q, not %v", i, a, got.Interfaces[i], want)
		}
	}
	if len(got.Addrs) != 2 || got.NodeGUID != 7 || !got.GUIDStays {
		t.Errorf("%+v", got)
	}
	for _, wrong := range []string{"192.0.2.99", "no interface", "127.0.0.1,127.0.0.1", "0.0.0.0"} {
		if got, err := Identify(Config{Addr: wrong}); err == nil {
			t.Errorf("%q is %+v", wrong, got)
		}
	}
	d := open(t, cfg)
	if d.HCA.NodeGUID() != got.NodeGUID {
		t.Errorf("GUID %#x, and when it is open %#x", got.NodeGUID, d.HCA.NodeGUID())
	}
}
