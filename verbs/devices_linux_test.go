package verbs

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// TestDevicesAreAsOpened opens each adapter of the list: it has the GIDs and the
// path MTU of the list. The host has a loopback interface and a network interface
// with addresses of both families.
func TestDevicesAreAsOpened(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("10.7.0.1/24"))
	list, err := Devices()
	must.Do(t, err)
	byName := map[string]DeviceInfo{}
	for _, d := range list {
		byName[d.Name] = d
		ctx, err := Open(Config{Addr: d.Name})
		must.Do(t, err)
		port, err := ctx.QueryPort()
		must.Do(t, err)
		if port.ActiveMTU != d.ActiveMTU || port.GIDTblLen != len(d.GIDs) {
			t.Errorf("%s has path MTU %v and %d GIDs, the list says %v and %v", d.Name, port.ActiveMTU, port.GIDTblLen, d.ActiveMTU, d.GIDs)
		}
		for i, g := range d.GIDs {
			if got := ctx.QueryGID(i); got != g {
				t.Errorf("%s: GID %d is %v, the list says %v", d.Name, i, got, g)
			}
		}
		must.Do(t, ctx.Close())
	}
	if len(list) != 2 || !byName["lo"].Loopback || byName["lo"].ActiveMTU != ib.MTU4096 {
		t.Errorf("the list is %+v, want lo and tap0", list)
	}
	tap := byName["tap0"]
	if len(tap.GIDs) == 0 || tap.Loopback || tap.ActiveMTU != ib.MTU1024 || tap.GIDs[tap.GIDIndex()].Addr() != netip.MustParseAddr("10.7.0.1") {
		t.Errorf("tap0 is %+v", tap)
	}
}
