package libraries

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrNotFound is returned if a command has no libraries.
var ErrNotFound = errors.New("the libraries " + Verbs + ", " + Engine + " and " + Preload +
	" are neither in the directory of this command nor in ../lib/softhca: install them by `make install PREFIX=...` in the source tree")

// Installed returns the directory with the libraries of a command, by its path: its
// own directory, or ../lib/softhca.
func Installed(command string) (string, bool) {
	if real, err := filepath.EvalSymlinks(command); err == nil {
		command = real
	}
	here := filepath.Dir(command)
	for _, dir := range []string{here, filepath.Join(filepath.Dir(here), "lib", "softhca")} {
		if complete(dir) {
			return dir, true
		}
	}
	return "", false
}

// complete reports whether a directory has all libraries.
func complete(dir string) bool {
	return exists(filepath.Join(dir, Verbs)) && exists(filepath.Join(dir, Engine)) && exists(filepath.Join(dir, Preload))
}

// Tree returns the source tree that this program was built from, if it is still there.
func Tree() (string, bool) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) { // built with -trimpath
		return "", false
	}
	tree := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	text, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	return tree, err == nil && strings.HasPrefix(string(text), "module github.com/softhca/softhca\n")
}
