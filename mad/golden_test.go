package mad

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares text with a golden file, line by line.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	b, err := os.ReadFile(path)
	must.Do(t, err)
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(b), "\n")
	if len(gotLines) != len(wantLines) {
		t.Errorf("%s has %d lines, want %d", path, len(wantLines), len(gotLines))
	}
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("%s line %d differs:\n got %s\nwant %s", path, i+1, gotLines[i], wantLines[i])
		}
	}
}
