package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/softhca/softhca/internal/rules"
)

var (
	errUnformatted = errors.New("files are not formatted")
	errOutdated    = errors.New("generated files are out of date: run make generate")
)

// unformatted lists the Go files that gofmt would change.
func unformatted(root fs.FS) (string, error) {
	var names []string
	err := eachFile(root, func(name string) error {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		formatted, err := format.Source(src)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !bytes.Equal(src, formatted) {
			names = append(names, name)
		}
		return nil
	})
	if err == nil && len(names) > 0 {
		err = errUnformatted
	}
	return strings.Join(names, "\n"), err
}

// eachFile calls do for every regular file that is not in a hidden directory.
func eachFile(root fs.FS, do func(name string) error) error {
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && path.Base(name)[0] == '.':
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		return do(name)
	})
}

// outdated lists the files that go generate changes. It works on a copy, so
// that a check never writes to the tree it checks.
func outdated(ctx context.Context, dir string) (string, error) {
	temp, err := os.MkdirTemp("", "check-generate-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	src, dst := os.DirFS(dir), os.DirFS(temp)
	if err := copyTree(src, temp); err != nil {
		return "", err
	}
	if output, err := goCommand(ctx, temp, nil, "generate", "./..."); err != nil {
		return output, err
	}
	var names []string
	err = eachFile(dst, func(name string) error {
		have, err := fs.ReadFile(src, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		want, err := fs.ReadFile(dst, name)
		if err == nil && !bytes.Equal(have, want) {
			names = append(names, name)
		}
		return err
	})
	if err == nil && len(names) > 0 {
		err = errOutdated
	}
	return strings.Join(names, "\n"), err
}

func copyTree(src fs.FS, dst string) error {
	to, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer to.Close()
	return eachFile(src, func(name string) error {
		text, err := fs.ReadFile(src, name)
		if err != nil {
			return err
		}
		if err := to.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		return to.WriteFile(name, text, 0o644)
	})
}

// target is a fuzz target and the directory of its package.
type target struct {
	dir  string
	name string
}

// fuzzTargets returns the fuzz targets of a module in the order of their
// packages.
func fuzzTargets(m *rules.Module) (ts []target) {
	m.EachFunc(func(f *rules.File, fn *ast.FuncDecl) {
		if f.Test && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") {
			ts = append(ts, target{path.Dir(f.Name), fn.Name.Name})
		}
	})
	return ts
}
