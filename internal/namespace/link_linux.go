package namespace

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// End is one of a pair of interfaces.
type End struct {
	Name string
	Addr netip.Prefix
	MTU  int // 0 for the kernel's default
}

// Join creates a pair of interfaces, one in the network of the calling thread and one in the place,
// and brings them up. The error unwraps to errors.ErrUnsupported if the kernel lacks such pairs.
func (p *Place) Join(near, far End) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = near.Name, near.MTU
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: far.Name, PeerMTU: uint32(far.MTU), PeerNamespace: netlink.NsFd(p.fd)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("namespace: make %s and %s: %w", near.Name, far.Name, err)
	}
	if err := near.setUp(); err != nil {
		return err
	}
	return p.Do(far.setUp)
}

func (e *End) setUp() error {
	if err := AddAddress(e.Name, e.Addr); err != nil {
		return err
	}
	return Up(e.Name)
}

// Up brings an interface up.
func Up(ifname string) error {
	link, err := netlink.LinkByName(ifname)
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("namespace: set up %s: %w", ifname, err)
	}
	return nil
}

// AddAddress adds an address to an interface that does not have it yet. The address is usable at
// once, because the kernel does not look for duplicates.
func AddAddress(ifname string, p netip.Prefix) error {
	link, err := netlink.LinkByName(ifname)
	if err != nil {
		return fmt.Errorf("namespace: %s: %w", ifname, err)
	}
	a, err := netlink.ParseAddr(p.String())
	if err == nil {
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		err = netlink.AddrReplace(link, a)
	}
	if err != nil {
		return fmt.Errorf("namespace: address %v of %s: %w", p, ifname, err)
	}
	return nil
}

// Filter adds rules of nftables to the network of the calling thread. It needs the program nft.
func Filter(rules string) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("namespace: nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
