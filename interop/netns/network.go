//go:build linux

package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/namespace"
)

// Tap is the name of the interface whose other end is the guest's.
const Tap = "tap0"

// Files is an empty directory in memory that is invisible outside, and that ends with
// the namespaces. It is mounted over a directory that every /sys has and no case
// reads.
const Files = "/sys/firmware"

// MaxMTU is the largest MTU of the network.
const MaxMTU = 9000

// The addresses of the network: this host's and the guest's.
var (
	Host4 = netip.MustParseAddr("10.77.0.1")
	Host6 = netip.MustParseAddr("fd00:77::1")
	Peer4 = netip.MustParseAddr("10.77.0.2")
	Peer6 = netip.MustParseAddr("fd00:77::2")
)

// queue is how many packets may wait for the guest: this host must not drop a
// burst to a slow emulated machine.
const queue = 10000

// Setup makes the network, inside the namespaces that Run made.
func Setup() error {
	// Mounts made here must not be visible outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("netns: make mounts private: %w", err)
	}
	for _, m := range []struct{ kind, dir, data string }{{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"tmpfs", Files, "mode=0700"}} {
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("netns: mount %s: %w", m.dir, err)
		}
	}
	if err := errors.Join(namespace.Up("lo"), ip("tuntap add dev "+Tap+" mode tap")); err != nil {
		return err
	}
	// The network has no other host: an IPv6 address is usable at once.
	for _, name := range []string{"accept_dad", "accept_ra"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+Tap+"/"+name, []byte("0"), 0); err != nil {
			return fmt.Errorf("netns: %w", err)
		}
	}
	if err := ip("link set " + Tap + " txqueuelen " + strconv.Itoa(queue) + " mtu " + strconv.Itoa(MaxMTU) + " up"); err != nil {
		return err
	}
	return errors.Join(AddAddress(Host4), AddAddress(Host6))
}

// SetMTU sets the MTU of this host's end.
func SetMTU(mtu int) error { return ip("link set " + Tap + " mtu " + strconv.Itoa(mtu)) }

// AddAddress gives this host one more address, if it does not have it.
func AddAddress(a netip.Addr) error {
	bits := 64
	if a.Is4() {
		bits = 24
	}
	return namespace.AddAddress(Tap, netip.PrefixFrom(a, bits))
}

// ip runs the program of that name.
func ip(line string) error {
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		return fmt.Errorf("netns: ip %s: %w: %s", line, err, out)
	}
	return nil
}
