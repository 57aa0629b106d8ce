//go:build mutation

package mutation

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestZZ(t *testing.T) {
	root, _ := filepath.Abs("../..")
	all := every()
	g := rigOf(t, root, all)
	f, _ := os.Create(os.Getenv("ZZOUT"))
	defer f.Close()
	only := regexp.MustCompile(os.Getenv("ZZ"))
	for i := len(all) - 1; i >= 0; i-- {
		m := &all[i]
		if !only.MatchString(m.name) {
			continue
		}
		if m.test != "" && os.Getenv("ZZSIM") == "" {
			failure, err := m.ask(t.Context(), g, i+1)
			switch {
			case err != nil:
				fmt.Fprintf(f, "%s: ERR %v\n", m.name, err)
			case failure == nil:
				fmt.Fprintf(f, "%s: SURVIVES %s\n", m.name, m.test)
			default:
				s := failure.Error()
				fmt.Fprintf(f, "%s: ok %s: %.200q\n", m.name, m.test, s)
			}
		}
		if m.sim == "" {
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
	fmt.Fprintf(f, "end\n")
}
