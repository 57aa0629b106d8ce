package sandbox

import (
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/namespace"
)

// Tap creates an Ethernet interface with the addresses, whose other end is the
// returned file. Only the test can answer ARP there.
func Tap(t *testing.T, ifname string, addrs ...netip.Prefix) *os.File {
	t.Helper()
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		// The device node is missing in many containers.
		t.Skipf("no tap interfaces here: %v", err)
	}
	t.Cleanup(func() { _ = tun.Close() })
	req, err := unix.NewIfreq(ifname)
	if err != nil {
		t.Fatal(err)
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(int(tun.Fd()), unix.TUNSETIFF, req); err != nil {
		t.Fatalf("sandbox: make %s: %v", ifname, err)
	}
	// No other host can have the IPv6 address, so disable duplicate detection.
	dad := "/proc/sys/net/ipv6/conf/" + ifname + "/accept_dad"
	if err := os.WriteFile(dad, []byte("0"), 0); err != nil && slices.ContainsFunc(addrs, isIPv6) {
		// A host without IPv6 cannot test it.
		t.Skipf("no IPv6 here: %v", err)
	}
	if err := namespace.Up(ifname); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(addrs, isIPv6) {
		awaitLinkLocal(t, ifname)
	}
	for _, p := range addrs {
		if err := namespace.AddAddress(ifname, p); err != nil {
			t.Fatal(err)
		}
	}
	return tun
}

// awaitLinkLocal waits until the link-local address of an interface can be used. The kernel
// marks it as tentative until a worker has run, also without duplicate detection.
func awaitLinkLocal(t *testing.T, ifname string) {
	t.Helper()
	link, err := netlink.LinkByName(ifname)
	if err != nil {
		t.Fatal(err)
	}
	usable := func(a netlink.Addr) bool { return a.IP.IsLinkLocalUnicast() && a.Flags&unix.IFA_F_TENTATIVE == 0 }
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		list, err := netlink.AddrList(link, netlink.FAMILY_V6)
		if err == nil && slices.ContainsFunc(list, usable) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has no usable link-local address: %v, %v", ifname, list, err)
		}
	}
}

// Arrive makes a packet to a multicast group arrive at a tap interface, from
// the file that Tap returned.
func Arrive(t *testing.T, tun *os.File, h *ipudp.Header, payload []byte) {
	t.Helper()
	dst, src := h.Dst.AsSlice(), [6]byte{2, 0, 0, 0, 0, 9}
	mac, kind := []byte{0x33, 0x33, dst[len(dst)-4], dst[len(dst)-3]}, []byte{0x86, 0xDD}
	if h.Dst.Is4() {
		mac, kind = []byte{0x01, 0x00, 0x5E, dst[1] & 0x7F}, []byte{0x08, 0x00}
	}
	head := make([]byte, h.Len())
	h.Put(head, len(payload))
	packet := append(head, payload...)
	h.SetChecksum(packet)
	frame := slices.Concat(mac, dst[len(dst)-2:], src[:], kind, packet)
	if _, err := tun.Write(frame); err != nil {
		t.Fatal(err)
	}
}

func isIPv6(p netip.Prefix) bool { return p.Addr().Is6() }
