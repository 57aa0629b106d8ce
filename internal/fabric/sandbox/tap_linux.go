package sandbox

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// Tap creates an Ethernet interface with the addresses, at most one of them
// IPv4, whose other end is the returned file. Only the test can answer ARP
// there.
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
	for _, p := range addrs {
		if p.Addr().Is4() {
			address(t, ifname, unix.SIOCSIFADDR, p.Addr())
			address(t, ifname, unix.SIOCSIFNETMASK, netmask(p.Bits()))
		}
	}
	if err := up(ifname); err != nil {
		t.Fatal(err)
	}
	for _, p := range addrs {
		if isIPv6(p) {
			address6(t, ifname, p)
		}
	}
	return tun
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

// netmask returns the IPv4 mask of a prefix of that many bits.
func netmask(bits int) netip.Addr {
	var mask [4]byte
	binary.BigEndian.PutUint32(mask[:], ^uint32(0)<<(32-bits))
	return netip.AddrFrom4(mask)
}

// in6Ifreq is struct in6_ifreq of <linux/ipv6.h>.
type in6Ifreq struct {
	addr    [16]byte
	prefix  uint32
	ifindex int32
}

// usable bounds the time until an IPv6 address is usable.
const usable = 5 * time.Second

// address6 adds an IPv6 address to an interface and waits until the kernel has
// made it usable.
func address6(t *testing.T, ifname string, p netip.Prefix) {
	t.Helper()
	nif, err := net.InterfaceByName(ifname)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	req := in6Ifreq{p.Addr().As16(), uint32(p.Bits()), int32(nif.Index)}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&req))); e != 0 {
		t.Fatalf("sandbox: address %v of %s: %v", p, ifname, e)
	}
	sa := &unix.SockaddrInet6{Addr: p.Addr().As16(), ZoneId: uint32(nif.Index)}
	for end := time.Now().Add(usable); unix.Bind(fd, sa) != nil; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("sandbox: address %v of %s is not usable after %v", p, ifname, usable)
		}
	}
}

// address sets an address, or a mask, of an interface.
func address(t *testing.T, ifname string, request uint, a netip.Addr) {
	t.Helper()
	err := control(ifname, func(fd int, req *unix.Ifreq) error {
		v := a.As4()
		if err := req.SetInet4Addr(v[:]); err != nil {
			return err
		}
		return unix.IoctlIfreq(fd, request, req)
	})
	if err != nil {
		t.Fatal(err)
	}
}
