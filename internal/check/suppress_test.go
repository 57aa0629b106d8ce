package check

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestSuppressions hides findings by their names, functions and libraries.
func TestSuppressions(t *testing.T) {
	for text, left := range map[string]string{
		"":                                    "send-buffer-changed frobnicated memory-freed",
		"# nothing\n\n  \t\n":                 "send-buffer-changed frobnicated memory-freed",
		"send-buffer-changed app::*":          "frobnicated memory-freed",
		"send-buffer-changed\t libapp.so # x": "frobnicated memory-freed",
		"* /nowhere/server":                   "frobnicated memory-freed",
		"memory-freed main\n* free":           "send-buffer-changed frobnicated",
		"* *":                                 "",
		"memory-freed [fg]ree\r\n":            "send-buffer-changed frobnicated",
	} {
		all, err := ReadSuppressions(strings.NewReader(text))
		must.Do(t, err)
		r := read(t, "testdata/records", Options{Suppress: all})
		var names []string
		for _, f := range r.Findings {
			name, _, _ := strings.Cut(f.Name, `\`)
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != left || r.Suppressed != 3-len(names) || r.Errors != len(names) {
			t.Errorf("%q leaves %q, %d hidden; want %q", text, got, r.Suppressed, left)
		}
		var b bytes.Buffer
		must.Do(t, r.Text(&b, false))
		if want := fmt.Sprintf("(%d suppressed)", r.Suppressed); strings.Contains(b.String(), want) != (r.Suppressed > 0) {
			t.Errorf("%q: %s", text, b.String())
		}
	}
}

// TestSuppressionsOfGo hides a finding in a Go program by the name of a function, with and without the path of its
// package.
func TestSuppressionsOfGo(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "1-go.jsonl"), []byte(`{"process":{"pid":1,"program":"/bin/server"}}
{"finding":"send-buffer-changed","id":1,"stacks":[{"title":"posted here","frames":[{"function":"example.com/a/server.(*Conn).send","file":"/src/send.go","line":7}]}]}
`), 0o600))
	for text, hidden := range map[string]bool{
		"send-buffer-changed server.(*Conn).send":               true,
		"send-buffer-changed server.*":                          true,
		"send-buffer-changed example.com/a/server.(*Conn).send": true,
		"send-buffer-changed example.com/*/server.*":            true,
		"send-buffer-changed example.com/*":                     false,
		"send-buffer-changed (*Conn).send":                      false,
		"memory-freed server.*":                                 false,
		"* *":                                                   true,
	} {
		all, err := ReadSuppressions(strings.NewReader(text))
		must.Do(t, err)
		if r := read(t, dir, Options{Suppress: all}); (r.Suppressed == 1) != hidden || r.Suppressed+r.Errors != 1 {
			t.Errorf("%q: %d hidden, %d left: want it hidden: %t", text, r.Suppressed, r.Errors, hidden)
		}
	}
}

// TestWrongSuppressions checks what is said about wrong lines.
func TestWrongSuppressions(t *testing.T) {
	for text, want := range map[string]string{
		"memory-freed":                         "line 1: \"memory-freed\": want the name of a finding, and the pattern",
		"\nmemory-fred f":                      "line 2: there is no finding \"memory-fred\" (docs/checks.md has their names); did you mean memory-freed?",
		"xyzzy f":                              "line 1: there is no finding \"xyzzy\" (docs/checks.md has their names)",
		"* [a":                                 "line 1: the pattern \"[a\": syntax error in pattern",
		"\x1b[2J\x00 f":                        `line 1: there is no finding`,
		strings.Repeat("n", 9000) + " f":       "line 1: there is no finding",
		strings.Repeat("x", maxSuppressFile+1): fmt.Sprint("a file of suppressions has at most ", maxSuppressFile),
		strings.Repeat("* f\n", maxSuppressions+1): fmt.Sprintf("line %d: a file has at most %d suppressions", maxSuppressions+1, maxSuppressions),
	} {
		all, err := ReadSuppressions(strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.ContainsAny(err.Error(), "\x00\x1b") {
			t.Errorf("%.40q: %d, %v; want %s", text, len(all), err, want)
		}
	}
}
