package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// setMTU sets the MTU of an interface.
func setMTU(ifname string, mtu int) error {
	link, err := netlink.LinkByName(ifname)
	if err != nil {
		return err
	}
	return netlink.LinkSetMTU(link, mtu)
}

// addRoute adds a route to a network through a gateway, with an MTU unless it is 0.
func addRoute(t *testing.T, network, via string, mtu int) {
	t.Helper()
	dst, err := netlink.ParseIPNet(network)
	must.Do(t, err)
	must.Do(t, netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(via), MTU: mtu}))
}

// routeMTU returns the path MTU of a resolved route.
func (h *host) routeMTU(to string) ib.MTU {
	h.t.Helper()
	id := h.addressed(TCP, netip.AddrPortFrom(netip.MustParseAddr(to), port))
	must.Do(h.t, id.ResolveRoute())
	h.take(EventRouteResolved)
	r, ok := id.Route()
	if !ok {
		h.t.Fatalf("no route to %s after ROUTE_RESOLVED", to)
	}
	return r.MTU
}

// TestRouteMTU uses an interface with an MTU of 9000 and routes with lower MTUs: one is
// set, and one is reported by a router that cannot forward to an interface of 1500.
func TestRouteMTU(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	router := sandbox.NewPlace(t)
	router.Join(t, "near", "far", netip.MustParsePrefix("10.7.0.1/24"), netip.MustParsePrefix("10.7.0.2/24"))
	must.Do(t, setMTU("near", 9000))
	router.Do(t, "forward", func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = "beyond", 1500
		return errors.Join(setMTU("far", 9000), netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "end"}),
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	})
	router.Do(t, "address", func() error {
		link, err := netlink.LinkByName("beyond")
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr("10.9.0.1/24")
		return errors.Join(err, netlink.AddrAdd(link, a), netlink.LinkSetUp(link))
	})
	addRoute(t, "10.8.0.0/24", "10.7.0.2", 1500)
	addRoute(t, "10.8.1.0/24", "10.7.0.2", 2400)
	addRoute(t, "10.9.0.0/24", "10.7.0.2", 0)

	h := newHost(t, verbs.Config{Addr: "10.7.0.1"})
	for to, want := range map[string]ib.MTU{"10.7.0.2": ib.MTU4096, "10.8.0.5": ib.MTU1024, "10.8.1.5": ib.MTU2048, "10.9.0.5": ib.MTU4096} {
		if got := h.routeMTU(to); got != want {
			t.Errorf("the path MTU to %s is %d bytes, want %d", to, got.Bytes(), want.Bytes())
		}
	}

	provoke(t, "10.9.0.5:9")
	if got := h.routeMTU("10.9.0.5"); got != ib.MTU1024 {
		t.Errorf("the path MTU is %d bytes after a router has reported 1500, want 1024", got.Bytes())
	}
}

// provoke sends a datagram that a router cannot forward, and waits for its report.
func provoke(t *testing.T, to string) {
	t.Helper()
	c, err := net.Dial("udp", to)
	must.Do(t, err)
	defer c.Close()
	raw, err := c.(*net.UDPConn).SyscallConn()
	must.Do(t, err)
	must.Do(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}))
	must.Do(t, err)
	must.Do(t, c.SetReadDeadline(time.Now().Add(waitLimit)))
	_, err = c.Write(make([]byte, 4000))
	must.Do(t, err)
	_, err = c.Read(make([]byte, 1))
	must.Fail(t, err, syscall.EMSGSIZE, "what the router reports")
}
