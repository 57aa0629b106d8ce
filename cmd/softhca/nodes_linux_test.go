package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/fabric/sandbox"
)

// TestC11_NodesIPv6 runs ucmatose, udaddy and mckey by IPv6.
func TestC11_NodesIPv6(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("fd00::2/64"))
	for _, line := range []string{"ucmatose -c 2 -S 3000", "udaddy -c 2 -S 1024"} {
		args := strings.Fields(line + " --idle 20s")
		bothSides(t, append(args, "-b", "::0", "--addr", "fd00::1"), append(args, "-s", "fd00::1", "--addr", "fd00::2"))
		bothSides(t, append(args, "-b", "fd00::1"), append(args, "-s", "fd00::1", "-b", "fd00::2", "-f", "ipv6"))
	}
	mckey := strings.Fields("mckey -m ff15::77 --idle 20s --pause 0s")
	done := background(t, "joined dgid: ff15::77 ", 1, append(mckey, "-b", "fd00::1")...)
	code, out, errs := command(t, append(mckey, "-b", "fd00::2", "-s")...)
	for _, o := range []outcome{<-done, {code, out, errs}} {
		if o.code != exitOK || !strings.HasSuffix(o.out, "data transfers complete\ntest complete\nreturn status 0\n") {
			t.Errorf("mckey: %+v", o)
		}
	}
}
