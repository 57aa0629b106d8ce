package sandbox

import (
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Tap makes an Ethernet interface whose other end is the returned file, and
// gives it the IPv4 address. Nobody answers ARP there unless the test does.
func Tap(t *testing.T, ifname string, p netip.Prefix) *os.File {
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
	address(t, ifname, unix.SIOCSIFADDR, p.Addr())
	var mask [4]byte
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	address(t, ifname, unix.SIOCSIFNETMASK, netip.AddrFrom4(mask))
	if err := up(ifname); err != nil {
		t.Fatal(err)
	}
	return tun
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
