package iface_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// TestVirtualWithoutSys asks for an interface of a network namespace whose
// interfaces are not those of /sys.
func TestVirtualWithoutSys(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	there := sandbox.NewPlace(t)
	there.Join(t, "near7", "far7", netip.MustParsePrefix("10.78.0.1/24"), netip.MustParsePrefix("10.78.0.2/24"))
	nif, err := net.InterfaceByName("near7")
	must.Do(t, err)
	if !iface.Virtual(nif) {
		t.Error("one end of a veth pair has hardware behind it")
	}
}
