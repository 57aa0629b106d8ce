//go:build linux

package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// programs are the packages whose programs the guest has.
var programs = []string{
	"busybox-static", "dash", "libc6", "libgcc-s1", "ibverbs-providers", "ibverbs-utils", "perftest", "rdmacm-utils", "iproute2", "tcpdump", "strace",
}

// Keyring is what Debian's archives are signed with. The package
// debian-archive-keyring has it.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// mirror is where the packages are.
const mirror = "deb.debian.org"

// sources are the suites of bookworm with all that guests are made of. The
// host's own are not looked at.
const sources = `deb [signed-by=` + Keyring + `] http://` + mirror + `/debian bookworm main
deb [signed-by=` + Keyring + `] http://` + mirror + `/debian bookworm-updates main
deb [signed-by=` + Keyring + `] http://` + mirror + `/debian bookworm-backports main
deb [signed-by=` + Keyring + `] http://` + mirror + `/debian-security bookworm-security main
`

// apt is Debian's package manager on lists and a cache of our own, as if
// nothing were installed.
type apt struct {
	dir string
	say func(string, ...any)
}

// options returns what sends apt to our directory.
func (a *apt) options(suite string) []string {
	opts := []string{
		"-o", "quiet=1", "-o", "APT::Get::Assume-Yes=1", "-o", "Dir::Etc::sourcelist=" + a.dir + "/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::Etc::preferencesparts=/dev/null", "-o", "Dir::State=" + a.dir + "/state", "-o", "Dir::State::status=" + a.dir + "/status",
		"-o", "Dir::Cache=" + a.dir + "/cache", "-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64", "-o", "APT::Sandbox::User=",
		"-o", "Acquire::Languages=none", "-o", "Debug::NoLocking=1", "-o", "Acquire::Retries=3",
		"-o", "Acquire::http::Timeout=20", "-o", "APT::Update::Error-Mode=any",
	}
	if suite != "" {
		opts = append(opts, "-o", "APT::Default-Release="+suite)
	}
	return opts
}

// update fetches the lists of packages.
func (a *apt) update(ctx context.Context) error {
	for _, d := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}
	for file, text := range map[string]string{"sources.list": sources, "status": ""} {
		if err := os.WriteFile(filepath.Join(a.dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	a.say("fetching Debian's lists of packages")
	err := run(ctx, "apt-get", append(a.options(""), "update")...)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if old, _ := filepath.Glob(filepath.Join(a.dir, "state/lists/*_Packages*")); len(old) > 0 {
		a.say("they could not be fetched: going on with those of an earlier run")
		return nil
	}
	return unreachable(err)
}

// unreachable says what to do when Debian's archive cannot be reached, or has
// another form than it had.
func unreachable(err error) error {
	return fmt.Errorf("%w\nThe guests are made of Debian's packages, which apt-get fetches from http://%s: see that this machine reaches it. "+
		"For a proxy set http_proxy, or Acquire::http::Proxy in /etc/apt/apt.conf.d. Without a network, name the cache of a machine that has prepared them with -cache", err, mirror)
}

// kernelName is a line of what linux-image-amd64 depends on.
var kernelName = regexp.MustCompile(`(?m)^\s*Depends: (linux-image-[0-9]\S*)`)

// kernelPackage returns the name of the package with the suite's kernel. The
// one for clouds has no rdma_rxe.
func (a *apt) kernelPackage(ctx context.Context, suite string) (string, error) {
	out, err := output(ctx, "apt-cache", append(a.options(suite), "depends", "linux-image-amd64")...)
	if err == nil {
		if m := kernelName.FindSubmatch(out); m != nil {
			return string(m[1]), nil
		}
		err = fmt.Errorf("apt-cache: the lists of packages have no linux-image-amd64")
	}
	if suite != "" {
		err = fmt.Errorf("%w\nThe kernel is to come from Debian's suite %s, which http://%s may have no more; -kernel 6.1 does without", err, suite, mirror)
	}
	return "", err
}

// download fetches one package and returns its file.
func (a *apt) download(ctx context.Context, suite, name string) (string, error) {
	files, err := a.fetch(ctx, suite, "download", name)
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// unused are packages that others ask for at their installation, which never
// happens here.
var unused = regexp.MustCompile(`^(perl|libperl|udev_|passwd_|dpkg_|libpam|adduser_|debconf_|tar_|debianutils_|usrmerge_|libsemanage)`)

// closure fetches the programs' packages and all that they depend on, and
// returns the files.
func (a *apt) closure(ctx context.Context) ([]string, error) {
	debs, err := a.fetch(ctx, "", append([]string{"install", "--no-install-recommends", "--download-only"}, programs...)...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(debs, func(deb string) bool { return unused.MatchString(filepath.Base(deb)) }), nil
}

// uri is a line of apt-get --print-uris: where a package is, and the name of
// its file in the cache.
var uri = regexp.MustCompile(`(?m)^'[^']+' (\S+\.deb) `)

// fetch has apt-get fetch packages, and returns their files.
func (a *apt) fetch(ctx context.Context, suite string, args ...string) ([]string, error) {
	args = append(a.options(suite), args...)
	// The files that are there already are named only if it cannot see them.
	names, err := output(ctx, "apt-get", append(args, "--print-uris", "-o", "Dir::Cache::archives=/nonexistent")...)
	if err != nil {
		return nil, err
	}
	archives := filepath.Join(a.dir, "cache/archives")
	var debs []string
	missing := 0
	for _, m := range uri.FindAllSubmatch(names, -1) {
		file := filepath.Join(archives, string(m[1]))
		if _, err := os.Stat(file); err != nil {
			missing++
		}
		debs = append(debs, file)
	}
	if len(debs) == 0 {
		return nil, fmt.Errorf("apt-get %s: nothing to fetch", strings.Join(args, " "))
	}
	slices.Sort(debs)
	if missing == 0 {
		return debs, nil
	}
	a.say("fetching %d packages", missing)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir = archives // where "download" puts what it fetches
	if out, err := cmd.CombinedOutput(); err != nil {
		err = fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		if ctx.Err() == nil {
			err = unreachable(err)
		}
		return nil, err
	}
	return debs, nil
}
