package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/interop/lab"
)

// command is the name of our command's file.
const command = lab.Command

// installed are the names of our files, in the order of files: the command, and
// the libraries on which it runs programs in C.
var installed = []string{command, libraries.Verbs, libraries.Engine, libraries.Preload}

// files are our files, open. The command's file is unlinked, and the libraries are
// in the user's cache, so that a killed run leaves nothing else behind.
type files []*os.File

// openFiles opens the command that was built in dir, and the libraries, which it
// rebuilds if they do not match the sources.
func openFiles(ctx context.Context, dir string) (files, error) {
	tree, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	libs, err := libraries.Cached(ctx, tree, os.Stderr)
	if err != nil {
		return nil, err
	}
	var fs files
	for _, name := range installed {
		from := libs
		if name == command {
			from = dir
		}
		f, err := os.Open(filepath.Join(from, name))
		if err != nil {
			fs.close()
			return nil, err
		}
		fs = append(fs, f)
	}
	return fs, nil
}

// close closes the files.
func (fs files) close() {
	for _, f := range fs {
		_ = f.Close() // cannot lose data: it was only read
	}
}

// install copies our files, which a child has from filesFD on, into a directory.
func install(dir string) error {
	for i, name := range installed {
		// Children share the descriptors: read by name, from the beginning.
		data, err := os.ReadFile(fmt.Sprint("/proc/self/fd/", filesFD+i))
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name), data, 0o755)); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	return nil
}
