package explain

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/softhca/softhca/internal/must"
)

// everyReport explains all captures of this repository.
func everyReport(t *testing.T) map[string]*Report {
	t.Helper()
	all := map[string]*Report{}
	for _, pattern := range [...]string{captures + "*.pcap", "testdata/programs/*.gz"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d captures, %v", pattern, len(names), err)
		}
		for _, name := range names {
			f, err := os.Open(name)
			must.Do(t, err)
			r := io.Reader(f)
			if strings.HasSuffix(name, ".gz") {
				if r, err = gzip.NewReader(f); err != nil {
					t.Fatal(err)
				}
			}
			all[filepath.Base(name)], err = Read(r, Config{})
			must.Do(t, f.Close())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	all["told"] = toldReport(t)
	two, err := ReadAll(bothEnds(t, "loss_ack", 3*time.Second), Config{})
	must.Do(t, err)
	all["two clocks"] = two
	return all
}

// TestTextFits writes the reports of all captures: no line is longer than a terminal is
// wide, unless it is one word behind its indentation.
func TestTextFits(t *testing.T) {
	for name, r := range everyReport(t) {
		var text bytes.Buffer
		must.Do(t, r.Text(&text, TextOptions{All: true}))
		for line := range strings.Lines(text.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
}

// TestWrap breaks texts at blanks.
func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"":               "",
		"ab cd":          "ab cd",
		"ab cde":         "ab/cde",
		"abcdefgh ij kl": "abcdefgh/ij kl",
		"µµ µµ µ":        "µµ µµ/µ",
	} {
		if got := strings.Join(wrap(text, 5), "/"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
