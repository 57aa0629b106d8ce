package libraries

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// keep is how long an unused build stays.
const keep = 7 * 24 * time.Hour

// sourcesFile, in the directory of the libraries, names the sources they were built from.
const sourcesFile = ".sources"

// InTree returns the directory with the libraries of a source tree: that of `make capi` if
// it is up to date, otherwise that of Cached.
func InTree(ctx context.Context, tree string, w io.Writer) (string, error) {
	dir := filepath.Join(tree, "build", "lib")
	if built, err := os.ReadFile(filepath.Join(dir, sourcesFile)); err == nil && complete(dir) {
		if sources, err := fingerprint(tree); err == nil && sources == string(built) {
			return dir, nil
		}
	}
	return Cached(ctx, tree, w)
}

// Cached returns the directory with the libraries of a source tree, in the user's
// cache. If they are not there, or the sources have changed since, it reports that
// to w and builds them. Several processes may do so at the same time.
func Cached(ctx context.Context, tree string, w io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", noCache(err)
	}
	base := filepath.Join(cache, "softhca", "lib")
	key, err := fingerprint(tree)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, key)
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err == nil { // its age shows other processes that it is in use
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", noCache(err)
	}
	made, err := os.MkdirTemp(base, "new-")
	if err != nil {
		return "", noCache(err)
	}
	defer func() { _ = os.RemoveAll(made) }() // sweep removes the rest later
	_, _ = fmt.Fprintf(w, "softhca: building the libraries of %s in %s, once until they change\n", tree, dir)
	if err := Build(ctx, tree, made, prefixed{w}); err != nil {
		return "", err
	}
	// Another process finished the same build first.
	if err := os.Rename(made, dir); err != nil && !exists(dir) {
		return "", err
	}
	sweep(base, now)
	return dir, nil
}

// noCache returns the error of a user who has no directory for the libraries.
func noCache(err error) error {
	return fmt.Errorf("no directory to build the libraries in: %w: set XDG_CACHE_HOME", err)
}

// prefixed is a writer of lines of the command.
type prefixed struct{ w io.Writer }

// Write implements io.Writer.
func (p prefixed) Write(line []byte) (int, error) {
	_, err := fmt.Fprintf(p.w, "softhca: %s", line)
	return len(line), err
}

// sweep removes old unused builds. It ignores those that it cannot remove.
func sweep(base string, now time.Time) {
	dirs, _ := os.ReadDir(base)
	for _, d := range dirs {
		if info, err := d.Info(); err == nil && now.Sub(info.ModTime()) > keep {
			_ = os.RemoveAll(filepath.Join(base, d.Name()))
		}
	}
}

// sourceKinds are the file name suffixes of sources.
var sourceKinds = []string{".go", ".c", ".h", ".map", ".s", ".mod", ".sum"}

// fingerprint returns a name that changes with the sources of a tree and with the
// compilers.
func fingerprint(tree string) (string, error) {
	tree, err := filepath.Abs(tree)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range []string{"CC", "CGO_CFLAGS", "GOFLAGS"} {
		_, _ = fmt.Fprintf(h, "%q\n", os.Getenv(name)) // writing to a hash never fails
	}
	err = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != tree && (name[0] == '.' || name == "testdata" || name == "docs" || name == "build") {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains(sourceKinds, filepath.Ext(name)) || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a file of an editor
		}
		if err == nil {
			_, _ = fmt.Fprintf(h, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), err
}
