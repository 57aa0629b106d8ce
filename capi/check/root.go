//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/debian"
)

// rootSuites are the suites of Debian whose programs run in a root directory of their
// own, whatever this machine is.
var rootSuites = []string{"bookworm", "trixie", "sid"}

// core are the packages whose programs run there.
var core = []string{"ibverbs-utils", "rdmacm-utils", "perftest", "fio", "ucx-utils", "libfabric-bin", "qperf"}

// base is what the programs of a root need besides what they depend on.
var base = []string{"base-files", "bash", "coreutils", "dash", "libc-bin", "sed", "grep", "ibverbs-providers"}

// makeRoot returns the directory with the programs of a suite. It is in the user's cache
// until Debian has newer packages.
func makeRoot(ctx context.Context, suite string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "softhca")
	a := &debian.Archive{
		Dir: filepath.Join(cache, "debian", suite), Sources: debian.Main(suite),
		Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "check: "+suite+": "+format+"\n", args...) },
	}
	if err := a.Update(ctx); err != nil {
		return "", err
	}
	debs, err := a.Fetch(ctx, "", slices.Concat([]string{"install", "--no-install-recommends", "--download-only"}, base, core)...)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(debs, "\n")))
	dir := filepath.Join(cache, "roots", fmt.Sprintf("%s-%x", suite, sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	old, _ := filepath.Glob(filepath.Join(cache, "roots", suite+"-*"))
	for _, o := range old {
		if err := os.RemoveAll(o); err != nil {
			return "", err
		}
	}
	a.Say("unpacking %d packages", len(debs))
	part := dir + ".part"
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} { // the packages of bookworm count on them
		if err := errors.Join(os.MkdirAll(filepath.Join(part, "usr", d), 0o755), os.Symlink("usr/"+d, filepath.Join(part, d))); err != nil {
			return "", err
		}
	}
	if err := debian.Unpack(ctx, debs, part); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

// enterRoot makes a directory the root of this process and of those that it starts, with
// the libraries of lib where they are now. leave undoes that.
func enterRoot(root, lib string) (leave func() error, err error) {
	host, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	leave = func() error {
		return errors.Join(host.Chdir(), unix.Chroot("."), os.Chdir(here), host.Close())
	}
	mount := func(from, to, kind string, flags uintptr) {
		if to = filepath.Join(root, to); err == nil {
			err = os.MkdirAll(to, 0o755)
		}
		if err == nil {
			if err = unix.Mount(from, to, kind, flags, ""); err != nil {
				err = fmt.Errorf("mount %s at %s: %w", from, to, err)
			}
		}
	}
	for _, name := range []string{"/etc/hosts", "/etc/nsswitch.conf"} { // libfabric asks for the host's own name
		text, rerr := os.ReadFile(name)
		if rerr == nil && err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644)
		}
	}
	const bind = unix.MS_BIND | unix.MS_REC
	mount(root, "", "", bind)
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		mount(dir, dir, "", bind)
	}
	mount("none", "/tmp", "tmpfs", 0)
	mount(lib, lib, "", bind)
	if err == nil {
		err = errors.Join(unix.Chroot(root), os.Chdir("/"))
	}
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	return leave, nil
}

// inCore reports whether the cases of a package run in the root of a suite. Debian builds
// UCX without the verbs in sid.
func inCore(suite, section string) bool {
	return slices.Contains(core, section) && (suite != "sid" || section != "ucx-utils")
}
