//go:build !portable

package device

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// TestShaped gives the loopback interface a queueing discipline.
func TestShaped(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	at := netip.MustParseAddr("127.0.0.1")
	lo, err := netlink.LinkByName("lo")
	must.Do(t, err)
	must.Do(t, unshaped(at))
	must.Do(t, unshaped(netip.IPv6Loopback()))
	must.Do(t, netlink.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: lo.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}, QdiscType: "pfifo",
	}))
	must.Fail(t, unshaped(at), errShaped, "an interface with a queueing discipline")
}
