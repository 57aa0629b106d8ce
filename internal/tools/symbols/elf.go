//go:build linux

package main

import (
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/debian"
)

// The name of the library and the prefix of its versions.
const (
	soname  = "libibverbs.so.1"
	version = "IBVERBS_"
)

// facts are the symbols of the library, each as "version name".
type facts struct {
	exports map[string]bool
	imports map[string][]string // the packages that import a symbol
}

// addPackage adds the symbols that the files of a package export and import.
func (f *facts) addPackage(ctx context.Context, name, deb string) (err error) {
	dir, err := os.MkdirTemp("", "softhca-symbols-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := debian.Unpack(ctx, []string{deb}, dir); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		e, err := elf.Open(path)
		if err != nil {
			return nil // no ELF file
		}
		return errors.Join(f.addFile(name, filepath.Base(path), e), e.Close())
	})
}

// addFile adds the symbols that one file of a package exports and imports.
func (f *facts) addFile(pkg, name string, e *elf.File) error {
	symbols, err := e.DynamicSymbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if !strings.HasPrefix(s.Version, version) || s.Section == elf.SHN_ABS {
			continue
		}
		key := s.Version + " " + s.Name
		switch {
		case s.Section == elf.SHN_UNDEF:
			if !slices.Contains(f.imports[key], pkg) {
				f.imports[key] = append(f.imports[key], pkg)
			}
		case strings.HasPrefix(name, soname):
			f.exports[key] = true
		}
	}
	return nil
}
