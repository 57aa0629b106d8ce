package iface

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

func TestVirtualLooksThroughTheStack(t *testing.T) {
	sys := t.TempDir()
	for _, dir := range []string{
		"veth0/mtu", "eth0/device", "br0/lower_veth0", "br1/lower_veth0", "br1/lower_eth0",
		"bond0/lower_eth0", "vlan7/lower_bond0", "ring/lower_ring",
	} {
		must.Do(t, os.MkdirAll(filepath.Join(sys, dir), 0o700))
	}
	for name, want := range map[string]bool{
		"veth0": true, "br0": true,
		"eth0": false, "br1": false, "bond0": false, "vlan7": false, "ring": false, "absent": false,
	} {
		if got := virtual(sys, name, maxStack); got != want {
			t.Errorf("%s: virtual is %t", name, got)
		}
	}
}
