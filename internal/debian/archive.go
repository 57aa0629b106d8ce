//go:build linux

package debian

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

// Keyring has the keys that Debian's archives are signed with, from the package
// debian-archive-keyring.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// mirror is the host that serves the packages.
const mirror = "deb.debian.org"

// Main returns a line of Archive.Sources for the main section of a suite.
func Main(suite string) string {
	return "deb [signed-by=" + Keyring + "] http://" + mirror + "/debian " + suite + " main\n"
}

// Security returns a line of Archive.Sources for the security updates of a stable suite.
func Security(suite string) string {
	return "deb [signed-by=" + Keyring + "] http://" + mirror + "/debian-security " + suite + "-security main\n"
}

// Archive fetches packages of some suites.
type Archive struct {
	Dir     string               // directory for lists and packages
	Sources string               // the suites, in the format of sources.list
	Say     func(string, ...any) // reports progress
	Advice  string               // last sentence of the error when the archive is unreachable
}

// options returns the options that make apt use Dir and ignore the host's configuration.
func (a *Archive) options(suite string) []string {
	opts := []string{
		"-o", "quiet=1", "-o", "APT::Get::Assume-Yes=1", "-o", "Dir::Etc::sourcelist=" + a.Dir + "/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::Etc::preferencesparts=/dev/null", "-o", "Dir::State=" + a.Dir + "/state", "-o", "Dir::State::status=" + a.Dir + "/status",
		"-o", "Dir::Cache=" + a.Dir + "/cache", "-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64", "-o", "APT::Sandbox::User=",
		"-o", "Acquire::Languages=none", "-o", "Debug::NoLocking=1", "-o", "Acquire::Retries=3",
		"-o", "Acquire::http::Timeout=20", "-o", "APT::Update::Error-Mode=any",
	}
	if suite != "" {
		opts = append(opts, "-o", "APT::Default-Release="+suite)
	}
	return opts
}

// Update fetches the lists of packages. Without a network it keeps those of an earlier run.
func (a *Archive) Update(ctx context.Context) error {
	for _, d := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.Dir, d), 0o755); err != nil {
			return err
		}
	}
	for file, text := range map[string]string{"sources.list": a.Sources, "status": ""} {
		if err := os.WriteFile(filepath.Join(a.Dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	a.Say("fetching Debian's lists of packages")
	err := run(ctx, "apt-get", append(a.options(""), "update")...)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if old, _ := filepath.Glob(filepath.Join(a.Dir, "state/lists/*_Packages*")); len(old) > 0 {
		a.Say("the lists could not be fetched: using those of an earlier run")
		return nil
	}
	return a.unreachable(err)
}

// unreachable adds advice to an error of apt, which usually means that it does not reach the
// archive.
func (a *Archive) unreachable(err error) error {
	return fmt.Errorf("%w\napt-get fetches Debian's packages from http://%s: check that this machine reaches it. "+
		"For a proxy, set http_proxy, or Acquire::http::Proxy in /etc/apt/apt.conf.d. %s", err, mirror, a.Advice)
}

// Query returns the output of apt-cache.
func (a *Archive) Query(ctx context.Context, suite string, args ...string) ([]byte, error) {
	return output(ctx, "apt-cache", append(a.options(suite), args...)...)
}

// Download fetches one package and returns its file.
func (a *Archive) Download(ctx context.Context, suite, name string) (string, error) {
	files, err := a.Fetch(ctx, suite, "download", name)
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// uri is a line of apt-get --print-uris: where a package is, and the name of
// its file in the cache.
var uri = regexp.MustCompile(`(?m)^'[^']+' (\S+\.deb) `)

// Fetch runs apt-get with a command that fetches packages, and returns their files. It
// prefers packages of the suite, unless that is "".
func (a *Archive) Fetch(ctx context.Context, suite string, args ...string) ([]string, error) {
	args = append(a.options(suite), args...)
	// apt-get omits files that it already has. With an empty cache it names all.
	names, err := output(ctx, "apt-get", append(args, "--print-uris", "-o", "Dir::Cache::archives=/nonexistent")...)
	if err != nil {
		return nil, err
	}
	archives := filepath.Join(a.Dir, "cache/archives")
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
	a.Say("fetching %d packages", missing)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir = archives // "apt-get download" saves to the working directory
	if out, err := cmd.CombinedOutput(); err != nil {
		err = fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		if ctx.Err() == nil {
			err = a.unreachable(err)
		}
		return nil, err
	}
	return debs, nil
}
