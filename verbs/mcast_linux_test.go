package verbs

import (
	"net/netip"
	"os"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// TestMulticastUDP needs no privilege. The group is this process's own.
func TestMulticastUDP(t *testing.T) {
	pid := os.Getpid()
	g := ib.GIDFromAddr(netip.AddrFrom4([4]byte{239, byte(pid >> 8), byte(pid), 201}))
	testMulticast(t, newMembers(t, Config{Addr: loopback()}, Config{Addr: loopback()}, Config{Addr: loopback(), DisableOffload: true}), g)
}

// TestMulticastInterface sends to groups of both families over a network
// interface, by UDP sockets and by raw ones. It cannot use ::1, because Linux sends no
// IPv6 multicast over the loopback interface.
func TestMulticastInterface(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("fd00::2/64"), netip.MustParsePrefix("fd00::3/64"))
	for _, c := range []struct {
		name       string
		transports [3]Transport
		addr       string // before the number of the adapter
		group      string
	}{
		{"udp", [3]Transport{}, "fd00::", "ff0e::77:1"},
		{"udp, link-local", [3]Transport{}, "fd00::", "ff02::77:1"},
		{"raw", [3]Transport{Raw, Raw, Raw}, "fd00::", "ff0e::77:1"},
		{"mixed", [3]Transport{UDP, Raw, UDP}, "fd00::", "ff0e::77:1"},
		{"raw, IPv4", [3]Transport{Raw, Raw, Raw}, "127.0.0.", "239.77.0.1"},
		{"mixed, IPv4", [3]Transport{Raw, UDP, Raw}, "127.0.0.", "239.77.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cfgs []Config
			for i, tr := range c.transports {
				cfgs = append(cfgs, Config{Addr: c.addr + string(rune('1'+i)), Transport: tr})
			}
			all := newMembers(t, cfgs...)
			testMulticast(t, all, ib.GIDFromAddr(netip.MustParseAddr(c.group)))
			for _, e := range all {
				must.Do(t, e.ctx.Close())
			}
		})
	}
}
