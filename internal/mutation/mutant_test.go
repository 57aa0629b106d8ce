//go:build mutation

package mutation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one bug.
type mutant struct {
	name string // what is wrong, in a few words with hyphens
	file string // from the root of the module
	old  string // is in the file once
	new  string // and is replaced by this

	// breaks are the requirements that no longer hold: for each, a script that
	// covers it must fail.
	breaks string
	// sim are the simulator's checks that may notice, any of them; if empty,
	// the simulator is not asked.
	sim     string
	profile string // of the simulator
}

// source is a file of the engine.
type source struct {
	path string // below the root of the module
	text string
}

func readSource(root, path string) (*source, error) {
	b, err := os.ReadFile(filepath.Join(root, path))
	return &source{path, string(b)}, err
}

// find returns where the text that the mutant replaces begins.
func (m *mutant) find(s *source) (int, error) {
	switch n := strings.Count(s.text, m.old); {
	case m.old == m.new:
		return 0, errors.New("nothing changes")
	case n != 1:
		return 0, fmt.Errorf("%s has the text of the mutant %d times, want once; the source has moved on: "+
			"find what does this now and bring old and new of the mutant up to date\n%s", m.file, n, m.old)
	}
	return strings.Index(s.text, m.old), nil
}

// change returns the file with the bug in it.
func (m *mutant) change(s *source) string { return strings.Replace(s.text, m.old, m.new, 1) }
