//go:build mutation

package mutation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestZZSimOnly(t *testing.T) {
	root, _ := filepath.Abs("../..")
	all := every()
	g := rigOf(t, root, all)
	f, _ := os.Create("/tmp/wgm/simonly.out")
	defer f.Close()
	only := os.Getenv("ZZ")
	for i := len(all) - 1; i >= 0; i-- {
		m := &all[i]
		if m.sim == "" || only != "" && !strings.Contains(m.name, only) {
			continue
		}
		r, err := g.probe(t.Context(), i+1, m.profile, seeds, nil)
		switch {
		case err != nil:
			fmt.Fprintf(f, "%s: ERR %v\n", m.name, err)
		case r.Violation == nil:
			fmt.Fprintf(f, "%s: SURVIVES %s\n", m.name, m.profile)
		case !slices.Contains(strings.Fields(m.sim), r.Violation.Check):
			fmt.Fprintf(f, "%s: OTHER %s seed %d, want %s: %s\n", m.name, r.Violation.Check, r.Violation.Seed, m.sim, r.Violation.Detail)
		default:
			fmt.Fprintf(f, "%s: ok %s seed %d\n", m.name, r.Violation.Check, r.Violation.Seed)
		}
	}
}
