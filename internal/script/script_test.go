package script

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

var rewrite = flag.Bool("rewrite", false, "write the output of the scripts into them")

// TestScripts runs every script of testdata. The output of each step is part
// of the script: packets, completions, events, moves, memory and counters,
// everything that happened, so that a rule that breaks changes it.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.qp")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".qp"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			must.Do(t, err)
			r, err := Run(name, string(text))
			var m *Mismatch
			if *rewrite && r.Text != "" && errors.As(err, &m) {
				must.Do(t, os.WriteFile(name, []byte(r.Text), 0o644))
				_, err = Run(name, r.Text)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
