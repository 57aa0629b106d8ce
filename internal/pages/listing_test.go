package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// The marks around a program that a page shows whole: the first names its file.
const (
	listingBegin = "<!-- listing "
	listingEnd   = "<!-- end of listing -->\n"
)

// TestListings compares the programs that the pages show with their files.
func TestListings(t *testing.T) {
	shown := 0
	for _, file := range peoplesPages {
		name := filepath.Join(docs, file)
		have, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		parts := strings.Split(string(have), listingBegin)
		for i, p := range parts[1:] {
			source, rest, _ := strings.Cut(p, " -->\n")
			fence, _, _ := strings.Cut(rest, "\n")
			_, after, ok := strings.Cut(rest, listingEnd)
			if !ok || !strings.HasPrefix(fence, "```") {
				t.Fatalf("%s: the listing of %s has no fence or no end", file, source)
			}
			text, err := os.ReadFile(filepath.Join("../..", source))
			must.Do(t, err)
			parts[i+1] = source + " -->\n" + fence + "\n" + string(text) + "```\n" + listingEnd + after
			shown++
		}
		want := strings.Join(parts, listingBegin)
		if *rewrite {
			must.Do(t, os.WriteFile(name, []byte(want), 0o644))
		} else if want != string(have) {
			t.Errorf("%s: a program is not what its file has (-rewrite writes it)", file)
		}
	}
	if shown == 0 {
		t.Error("no page shows a program")
	}
}
