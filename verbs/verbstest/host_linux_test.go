package verbstest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/softhca/softhca/verbs"
)

// TestK1_GoOnTheHost runs the cases with adapters on addresses of this host: two that share an address, and memory,
// and two with an address each that exchange packets over UDP.
func TestK1_GoOnTheHost(t *testing.T) {
	pid := os.Getpid()
	addr := func(i int) string { return fmt.Sprintf("127.%d.%d.%d", 64+pid>>8&63, pid&255, 251+i) } // of no other test
	for name, hosts := range map[string][2]verbs.Config{
		"shared address": {{Addr: addr(0)}, {Addr: addr(0)}},
		"udp":            {{Addr: addr(1), Wire: verbs.WireUDP}, {Addr: addr(2), Wire: verbs.WireUDP}},
	} {
		for golden, cases := range map[string][]bugCase{"memory": memoryCases(), "objects": objectsCases(), "use": useCases(), "mapped": mappedCases()} {
			t.Run(name+"/"+golden, func(t *testing.T) {
				runCases(t, cases, golden, func(t testing.TB) *rig { return newRigOn(t, hosts) })
			})
		}
	}
}
