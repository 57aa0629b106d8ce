//go:build linux

package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/libraries"
)

// sources are our own programs, for libraries that have no test program. They are embedded because
// the source tree cannot be read from the root of another suite.
//
//go:embed mpi/exchange.c rpma/pool.c ucx/meet.c qemu/guest.S
var sources embed.FS

// source writes one of the sources into the directory of the libraries and returns its path.
func (s *stand) source(name string) (string, error) {
	text, err := sources.ReadFile(name)
	if err != nil {
		return "", err
	}
	to := filepath.Join(s.lib, path.Base(name))
	return to, os.WriteFile(to, text, 0o644)
}

// compile compiles a source into a program of the same name, without its suffix, in the
// directory of the libraries, and returns the path of the program.
func (s *stand) compile(ctx context.Context, compiler, name string, libs ...string) (string, error) {
	from, err := s.source(name)
	if err != nil {
		return "", err
	}
	to := strings.TrimSuffix(from, filepath.Ext(from))
	args := slices.Concat([]string{libraries.Dialect, "-O1", "-Wall", "-Wextra", "-Werror", "-o", to, from}, libs)
	if out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", compiler, err, out)
	}
	return to, nil
}
