package sandbox

import (
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Place is a second network namespace, which acts as another host.
type Place struct {
	do chan func()
	fd int
}

// NewPlace creates a place with its loopback interface up. It lasts until the
// process ends. The test must be in a sandbox.
func NewPlace(t *testing.T) *Place {
	t.Helper()
	p := &Place{do: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is in another network
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			p.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		if err == nil {
			err = up("lo")
		}
		made <- err
		for f := range p.do {
			f()
		}
	}()
	if err := <-made; err != nil {
		t.Fatalf("sandbox: make a place: %v", err)
	}
	return p
}

// Do calls f on a thread in the place. Sockets and processes that f creates
// stay in the place.
func (p *Place) Do(t *testing.T, what string, f func() error) {
	t.Helper()
	result := make(chan error)
	p.do <- func() { result <- f() }
	if err := <-result; err != nil {
		t.Fatalf("sandbox: %s: %v", what, err)
	}
}

// Join creates a pair of interfaces, one in the test's network and one in the
// place, with an address each, and brings them up.
func (p *Place) Join(t *testing.T, near, far string, nearAddr, farAddr netip.Prefix) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = near
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: far, PeerNamespace: netlink.NsFd(p.fd)}); err != nil {
		// The kernel lacks veth.
		t.Skipf("no pair of interfaces here: %v", err)
	}
	end := func(name string, addr netip.Prefix) error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(addr.String())
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	}
	if err := end(near, nearAddr); err != nil {
		t.Fatalf("sandbox: set up %s: %v", near, err)
	}
	p.Do(t, "set up "+far, func() error { return end(far, farAddr) })
}

// DropFrom drops, with nftables, all packets that arrive at the place on an
// interface. It skips the test if the program nft is missing.
func (p *Place) DropFrom(t *testing.T, ifname string) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skipf("a cut by nftables needs the program nft (Debian: nftables): %v", err)
	}
	rules := fmt.Sprintf("table inet cut { chain in { type filter hook prerouting priority raw; iifname %q drop; }; }", ifname)
	p.Do(t, "cut by nftables", func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
}
