package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/script"
)

// scriptFile is a protocol script: its file, and its header.
type scriptFile struct {
	file string
	script.Header
}

// scriptTest is the test that runs the scripts of its directory, each as a subtest.
const scriptTest = "TestScripts"

// readScript reads the header of a script.
func (e *evidence) readScript(fsys fs.FS, name string) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	h, err := script.ReadHeader(name, string(text))
	if err != nil {
		return err
	}
	if len(h.Covers) == 0 {
		return fmt.Errorf("%s: the header has no \"# covers:\" line", name)
	}
	for _, id := range h.Covers {
		if !idPattern.MatchString(id) {
			return fmt.Errorf("%s: %q is not a requirement", name, id)
		}
	}
	e.scripts = append(e.scripts, &scriptFile{name, h})
	e.proofs = append(e.proofs, &proof{
		dir: path.Dir(path.Dir(name)), test: scriptTest + "/" + strings.TrimSuffix(path.Base(name), path.Ext(name)),
		script: name, ids: h.Covers,
	})
	return nil
}

// provoking returns the scripts that provoke a status or an event.
func (e *evidence) provoking(of func(*scriptFile) []string, name string) []*scriptFile {
	var ss []*scriptFile
	for _, s := range e.scripts {
		if slices.Contains(of(s), name) {
			ss = append(ss, s)
		}
	}
	return ss
}
