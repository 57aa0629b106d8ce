package check

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/check/findings"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/internal/wording"
)

// Bounds of a file of suppressions.
const (
	maxSuppressFile = 1 << 20 // bytes
	maxSuppressions = 4096
)

// anyFinding is the name that stands for every finding.
const anyFinding = "*"

// Suppression hides findings.
type Suppression struct {
	name    string // of the finding, or anyFinding
	pattern string // of a function or a library in a stack
}

// ReadSuppressions reads suppressions: on each line a name, or *, and the pattern of a function
// or library. # begins a comment.
func ReadSuppressions(r io.Reader) (all []Suppression, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSuppressFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSuppressFile {
		return nil, fmt.Errorf("a file of suppressions has at most %d bytes", maxSuppressFile)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxSuppressFile+1)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		s, err := parseSuppression(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if all = append(all, s); len(all) > maxSuppressions {
			return nil, fmt.Errorf("line %d: a file has at most %d suppressions", n, maxSuppressions)
		}
	}
	return all, lines.Err()
}

// parseSuppression parses a line without its comment.
func parseSuppression(line string) (Suppression, error) {
	at := strings.IndexAny(line, " \t")
	if at < 0 {
		return Suppression{}, fmt.Errorf("%q: want the name of a finding, and the pattern of a function or library", printable.Line(line, maxWord))
	}
	s := Suppression{line[:at], strings.TrimSpace(line[at:])}
	if _, err := path.Match(s.pattern, ""); err != nil {
		return s, fmt.Errorf("the pattern %q: %w", printable.Line(s.pattern, maxWord), err)
	}
	if _, ok := findings.Find(s.name); ok || s.name == anyFinding {
		return s, nil
	}
	hint := ""
	for _, f := range findings.All() {
		if len(s.name) < maxName && wording.Distance(f.Name, s.name) <= 2 {
			hint = "; did you mean " + f.Name + "?"
		}
	}
	return s, fmt.Errorf("there is no finding %q (docs/checks.md has their names)%s", printable.Line(s.name, maxName), hint)
}

// hides reports whether the suppression is for a finding.
func (s Suppression) hides(f *Finding) bool {
	if s.name != f.Name && s.name != anyFinding {
		return false
	}
	matches := func(name string) bool {
		ok, _ := path.Match(s.pattern, name) // the pattern was checked
		return ok
	}
	frames := 0
	for i := range f.Stacks {
		frames += len(f.Stacks[i].Frames)
		if slices.ContainsFunc(f.Stacks[i].Frames, func(r Frame) bool {
			// The name of a function in Go begins with the path of its package, and it has no library.
			return matches(r.Function) || r.Library == "" && matches(path.Base(r.Function)) || matches(r.Library) || matches(path.Base(r.Library))
		}) {
			return true
		}
	}
	return frames == 0 && s.pattern == "*"
}
