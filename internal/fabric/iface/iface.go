package iface

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// maxAddrs bounds the addresses, and so the sockets, of a port.
const maxAddrs = 256

// Clean returns the addresses of a port without zones and v4-mapping, or an
// error that names the invalid one: each must be unicast and given once.
func Clean(addrs []netip.Addr) ([]netip.Addr, error) {
	if len(addrs) == 0 {
		return nil, errors.New("no address to open a port on")
	}
	if len(addrs) > maxAddrs {
		return nil, fmt.Errorf("%d addresses: at most %d", len(addrs), maxAddrs)
	}
	own := make([]netip.Addr, len(addrs))
	seen := make(map[netip.Addr]bool, len(addrs))
	for i, a := range addrs {
		own[i] = a.Unmap().WithZone("")
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
			return nil, fmt.Errorf("%v is not the address of an interface; `ip address` lists them", a)
		}
		if seen[own[i]] {
			return nil, fmt.Errorf("address %v is given twice", a)
		}
		seen[own[i]] = true
	}
	return own, nil
}

// Owner returns the interface that has address a. Every address of 127/8
// belongs to the loopback interface, listed or not.
func Owner(a netip.Addr) (*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for i := range all {
		if has(&all[i], a) {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("no interface has address %v; `ip address` lists them: %w", a, ib.EADDRNOTAVAIL)
}

func has(nif *net.Interface, a netip.Addr) bool {
	if a.Is4() && a.IsLoopback() && nif.Flags&net.FlagLoopback != 0 {
		return true
	}
	list, err := nif.Addrs()
	if err != nil {
		return false // it disappeared after the listing
	}
	for _, e := range list {
		n, ok := e.(*net.IPNet)
		if !ok {
			continue
		}
		if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == a {
			return true
		}
	}
	return false
}

// discard is the destination port of sockets that send nothing.
const discard = 9

// SourceTo returns the address from which the host would send to dst, or the zero Addr if
// that is unknown. It sends nothing. It returns ENETUNREACH if there is no route, and no
// other error.
func SourceTo(dst netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, discard)))
	if errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) {
		return netip.Addr{}, fmt.Errorf("%v: %w", dst, syscall.ENETUNREACH)
	}
	if err != nil {
		return netip.Addr{}, nil
	}
	defer func() { _ = c.Close() }() // nothing was sent
	a, _ := netip.AddrFromSlice(c.LocalAddr().(*net.UDPAddr).IP)
	return a.Unmap(), nil
}

// BindError returns the error of binding a port of a kind to an address, with advice; nil
// for none.
func BindError(kind string, a netip.Addr, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: port %d on %v is in use: another adapter (or the rdma_rxe module) owns it; choose another address: %w",
			kind, fabric.RoCEPort, a, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %v is not an address of this host, or not usable yet: %w", kind, a, err)
	default:
		return fmt.Errorf("%s: bind %v: %w", kind, netip.AddrPortFrom(a, fabric.RoCEPort), err)
	}
}

// Payload returns the bytes of the largest UDP payload that leaves an
// interface of the given MTU unfragmented, for the family of a.
func Payload(mtu int, a netip.Addr) int {
	if a.Is4() {
		return min(mtu-ipudp.IPv4Len-ipudp.UDPLen, ipudp.MaxPayload)
	}
	return min(mtu-ipudp.IPv6Len-ipudp.UDPLen, ipudp.MaxPayload)
}

// maxStack bounds how many levels of stacked interfaces Virtual follows.
const maxStack = 8

// Virtual reports whether an interface is known to have no hardware: loopback
// or, on Linux, one with a purely virtual driver, or one for which neither it
// nor its lower interfaces (a bridge's ports, a VLAN's or bond's links) have a
// device in /sys. It checks the driver first, because /sys may belong to
// another network namespace.
func Virtual(nif *net.Interface) bool {
	return nif.Flags&net.FlagLoopback != 0 || software(nif.Name) || virtual("/sys/class/net", nif.Name, maxStack)
}

// virtual is Virtual for the interface name in the directory sys.
func virtual(sys, name string, depth int) bool {
	entries, err := os.ReadDir(filepath.Join(sys, name))
	if err != nil || depth == 0 {
		return false
	}
	for _, e := range entries {
		if e.Name() == "device" {
			return false
		}
		if lower, ok := strings.CutPrefix(e.Name(), "lower_"); ok && !virtual(sys, lower, depth-1) {
			return false
		}
	}
	return true
}
