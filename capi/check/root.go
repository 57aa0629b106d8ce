//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/debian"
)

// rootSuites are the suites of Debian whose programs can run in a root directory.
var rootSuites = []string{"bookworm", "trixie", "sid"}

// rootPackages returns the packages with the programs that run in the root of a suite. sid no longer
// has librpma.
func rootPackages(suite string) []string {
	names := []string{
		"ibverbs-utils", "rdmacm-utils", "perftest", "fio", "ucx-utils", "libfabric-bin", "qperf", "openmpi-bin", "python3-pyverbs",
	}
	if suite != "sid" {
		names = append(names, "librpma0")
	}
	return names
}

// rpmaHeaders are further packages of a root with librpma.
var rpmaHeaders = []string{"librpma-dev", "libibverbs-dev"}

// base are further packages of a root: a shell, a compiler for our own programs, and what the
// unit tests call.
var base = []string{
	"base-files", "bash", "coreutils", "dash", "libc-bin", "sed", "grep", "ibverbs-providers", "gcc", "libc6-dev", "libopenmpi-dev", "iproute2",
}

// core matches the names of the cases that run in the root of a suite unless -run selects
// others. Of each kind of program it has some that poll completions, some that sleep until
// an event, and, where there is one, some that poll memory: ib_write_lat, put_lat,
// rc_rdma_write_poll_lat.
var core = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`ibv_dev.*`, `ibv_asyncwatch`, `ibv_\w+_pingpong(?: -e)?`, `ibv_rc_pingpong(?: -e)? over IPv6`,
	`ib_\w+ -n 500 -F`, `ib_\w+ -n 500 -e -F`, `ib_\w+ -n 100 -a -F`, `ib_send_lat -n 500 -c UD(?: -e)? -F`, `ib_send_bw -n 500 --use-srq.*`,
	`ib_\w+ -n 500 -c XRC .*`, `ib_\w+ -R.*`,
	`ucx_info.*`, `ucx_perftest -t (?:am_lat|am_bw|put_lat|fadd) .* -x rc_verbs -D short`, `ucx_perftest -t am_lat .* -x ud_verbs -D short`,
	`UCX_TLS=.* ucx_perftest -t tag_lat.*`,
	`(?:rping|ucmatose|udaddy|rdma_client|rdma_xclient|cmtime|rstream|riostream) .*`,
	`fi_.*`, `fio .*`, `DIR/pool .*`, `qperf .* rc_(?:lat|bi_bw|rdma_write_poll_lat)`,
	`UCX_TLS=.* mpirun.openmpi -np [28]: .*`, `rdma-core's unit tests`,
}, "|") + `)(?:` + onOne + `)?$`)

// cmtime65 is how the commands of cmtime begin whose options are those of rdma-core 65. Its
// processes have their own connection over TCP, to the address of the option -C.
const cmtime65 = "cmtime -C"

// editions are the beginnings of the names of cases that run only in some suites, because programs or
// libraries differ between the suites. The first match counts.
var editions = []struct {
	begins string
	suites []string
}{
	{cmtime65, []string{"sid"}},
	{"cmtime ", []string{host, "bookworm", "trixie"}},
	{rpma13, []string{"trixie"}},
	{"DIR/pool ", []string{host, "bookworm"}},
}

// has reports whether a suite has the case of a name.
func has(suite, name string) bool {
	for _, e := range editions {
		if strings.HasPrefix(name, e.begins) {
			return slices.Contains(e.suites, suite)
		}
	}
	return true
}

// wants reports whether a case is to run.
func (c *checker) wants(section, name string) bool {
	switch {
	case c.suite != host && !slices.Contains(rootPackages(c.suite), section), !has(c.suite, name):
		return false
	case c.want != nil:
		return c.want.MatchString(name)
	}
	return c.suite == host || core.MatchString(name)
}

// absent returns why the cases of a package cannot run in the root of a suite, or "".
func (c *checker) absent(section string) string {
	if c.suite == host || section != "ucx-utils" && section != "openmpi-bin" {
		return ""
	}
	if found, _ := filepath.Glob("/usr/lib/*/ucx/libuct_ib.so*"); len(found) > 0 {
		return ""
	}
	return "skipped: Debian builds the UCX of this suite without verbs"
}

// makeRoot returns a directory with the programs of a suite and all that they depend on. The directory
// stays in the user's cache until the archive has newer packages, or another version of this program
// needs others. It is not removed while the returned file is open.
func makeRoot(ctx context.Context, suite string) (*os.File, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "softhca")
	if err := os.MkdirAll(filepath.Join(cache, "roots"), 0o755); err != nil {
		return nil, err
	}
	lock, err := locked(filepath.Join(cache, "roots"), unix.LOCK_EX) // until then, other processes wait here
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }() // closing unlocks
	dir, err := unpackRoot(ctx, cache, suite)
	if err != nil {
		return nil, err
	}
	root, err := locked(dir, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	return root, removeRoots(filepath.Join(cache, "roots"), suite)
}

// locked opens a directory and locks it until the file is closed.
func locked(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// removeRoots removes the roots of a suite that no process uses.
func removeRoots(in, suite string) error {
	all, err := filepath.Glob(filepath.Join(in, suite+"-*"))
	if err != nil {
		return err
	}
	for _, dir := range all {
		f, err := locked(dir, unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			continue // a process uses the root
		}
		if err := errors.Join(os.RemoveAll(dir), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// unpackRoot returns the directory of makeRoot in a cache.
func unpackRoot(ctx context.Context, cache, suite string) (string, error) {
	a := &debian.Archive{
		Dir: filepath.Join(cache, "debian", suite), Sources: debian.Main(suite),
		Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "check: "+suite+": "+format+"\n", args...) },
	}
	if err := a.Update(ctx); err != nil {
		return "", err
	}
	wanted := slices.Concat([]string{"install", "--no-install-recommends", "--download-only"}, base, rootPackages(suite))
	if slices.Contains(wanted, "librpma0") {
		wanted = append(wanted, rpmaHeaders...)
	}
	debs, err := a.Fetch(ctx, "", wanted...)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(debs, "\n")))
	dir := filepath.Join(cache, "roots", fmt.Sprintf("%s-%x", suite, sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	a.Say("unpacking %d packages", len(debs))
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil { // an earlier run may have left it
		return "", err
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} { // base-files of bookworm does not have these links
		if err := errors.Join(os.MkdirAll(filepath.Join(part, "usr", d), 0o755), os.Symlink("usr/"+d, filepath.Join(part, d))); err != nil {
			return "", err
		}
	}
	if err := debian.Unpack(ctx, debs, part); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

// enterRoot makes a directory the root of this process and of its children, and mounts lib,
// the directory of the libraries, at the path that it has now. leave returns to the old root.
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
	for _, name := range []string{"/etc/hosts", "/etc/nsswitch.conf"} { // libfabric resolves the host's name
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
