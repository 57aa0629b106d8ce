package verbstest_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// number is a key, an address or a number of an object in the text of a finding.
var number = regexp.MustCompile(`0x[0-9a-f]+`)

// address is that of an adapter. Cases run over several.
var address = regexp.MustCompile(`[0-9]+(\.[0-9]+){3}`)

// called gives a number a name in the texts of findings. The numbers of objects are different in each run.
func (r *rig) called(n uint64, name string) {
	r.names[n] = name
}

// facts returns what the findings of a case say: levels, texts with the names of numbers, and the source lines of
// the calls.
func (r *rig) facts(lines map[string][]string) string {
	var all []string
	for _, f := range r.found {
		var b strings.Builder
		level := "error"
		if f.Advice {
			level = "advice"
		}
		text := number.ReplaceAllStringFunc(address.ReplaceAllString(f.Text, "ADDRESS"), func(s string) string {
			var n uint64
			_, err := fmt.Sscanf(s, "%v", &n)
			must.Do(r.t, err)
			return cmp.Or(r.names[n], "0x...")
		})
		fmt.Fprintf(&b, "  %s: %s: %s\n", level, f.Name, text)
		for _, c := range f.Calls {
			fmt.Fprintf(&b, "    %s: %s\n", c.Title, sourceLine(&c, lines))
		}
		all = append(all, b.String())
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// sourceLine returns the line of a call in the case: that of the innermost frame outside of the rig.
func sourceLine(c *verbs.FindingCall, lines map[string][]string) string {
	for _, f := range c.Stack {
		if of := lines[filepath.Base(f.File)]; !strings.Contains(f.Function, "verbstest_test.(*") && f.Line <= len(of) {
			return strings.TrimSpace(strings.TrimSuffix(of[f.Line-1], "// BUG"))
		}
	}
	return "unknown"
}

// sources returns the lines of the tests of this package.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	must.Do(t, err)
	lines := map[string][]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		must.Do(t, err)
		lines[name] = strings.Split(string(text), "\n")
	}
	return lines
}
