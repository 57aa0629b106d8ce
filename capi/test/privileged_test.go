//go:build linux && cgo

package test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/environ/setid"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// bait is the effects that an attacker tries to cause in a privileged program with its
// environment.
type bait struct {
	dir     string // of the program and the libraries
	attempt string // of the attacker
	secret  string // a file of root
	victim  string // another one, to which captures would be appended
}

// The texts in root's files.
const (
	secretText = "drop the-first-line-of-roots-file"
	victimText = "untouched\n"
)

// evil is a library whose constructor leaves a file with the effective user ID.
const evil = `#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void)
{
	char name[] = MARK "-XXXXXX";
	int fd = mkstemp(name);
	dprintf(fd, "%d", geteuid());
}`

// newBait builds the program with the libraries in its run path, where the loader of a
// privileged program looks too, and the attacker's files.
func newBait(t *testing.T, s *stand) *bait {
	t.Helper()
	dir := setid.Dir(t)
	b := &bait{dir: dir, attempt: filepath.Join(dir, "attempt"), secret: filepath.Join(dir, "secret"), victim: filepath.Join(dir, "victim")}
	image := filepath.Join(b.attempt, "sys/class/infiniband/bait")
	err := errors.Join(
		os.MkdirAll(image, 0o755), os.Chmod(b.attempt, 0o777),
		os.WriteFile(b.secret, []byte(secretText+"\n"), 0o600), os.WriteFile(b.victim, []byte(victimText), 0o600),
		syscall.Mkfifo(filepath.Join(b.attempt, "fifo"), 0o666),
	)
	must.Do(t, err)
	for from, to := range map[string]string{
		filepath.Join(s.dir, engineFile):                        libraries.Engine,
		filepath.Join(s.dir, libraries.Preload):                 libraries.Preload,
		filepath.Join(s.dir, s.variant.name, "libibverbs.so.1"): libraries.Verbs,
	} {
		run(t, "cp", from, filepath.Join(dir, to))
	}
	run(t, "gcc", libraries.Dialect, "-Wall", "-Wextra", "-Werror", "-o", b.program(), "privileged/privileged.c", "-Wl,-rpath,"+dir, "-L"+dir, "-l:libibverbs.so.1",
		"-Wl,--no-as-needed", "-l:"+libraries.Preload)
	source := filepath.Join(b.attempt, "evil.c")
	must.Do(t, os.WriteFile(source, []byte("#include <stdlib.h>\n"+evil), 0o644))
	run(t, "gcc", "-shared", "-fPIC", fmt.Sprintf("-DMARK=%q", filepath.Join(b.attempt, "ran")), "-o", filepath.Join(b.attempt, "evil.so"), source)
	return b
}

func (b *bait) program() string { return filepath.Join(b.dir, "privileged") }

// environment returns the attacker's environment.
func (b *bait) environment() []string {
	return []string{
		"SOFTHCA_ENGINE=" + filepath.Join(b.attempt, "evil.so"), "LD_PRELOAD=" + filepath.Join(b.attempt, "evil.so"),
		"SOFTHCA_CAPTURE=" + b.victim, "SOFTHCA_FAULTS=drop p=1\n@" + b.secret, "SOFTHCA_NASTY=none",
		"SOFTHCA_ADDR=127.77.77.77", "SOFTHCA_DEVICE=evil0", "SOFTHCA_GUID=0212:3456:789a:bcde", "SOFTHCA_LOG_LEVEL=debug",
		"SOFTHCA_SYSFS=" + b.attempt, "SYSFS_PATH=" + b.attempt, "XDG_RUNTIME_DIR=" + b.attempt, "TMPDIR=" + b.attempt,
		"HOME=" + filepath.Join(b.attempt, "home"), "TZ=:" + filepath.Join(b.attempt, "fifo"),
	}
}

// run runs the program as the attacker.
func (b *bait) run(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *scenarioTime)
	defer cancel()
	cmd := setid.AsStranger(exec.CommandContext(ctx, b.program(), args...))
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ran returns the files that the attacker's library has left.
func (b *bait) ran(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.attempt, "ran-*"))
	must.Do(t, err)
	return files
}

// wantOpened is what the program prints that has an adapter with the defaults.
var wantOpened = regexp.MustCompile(`^secure 1 euid (\d+) egid (\d+)\nsysfs /sys, bait unseen\ndevice softhca0 on 127\.0\.0\.\d+ guid 02[0-9a-f]{14}\n$`)

// TestPrivilegedPrograms attacks programs that are set-user-ID, set-group-ID or have file
// capabilities with every variable that the libraries read. They ignore all of them.
func TestPrivilegedPrograms(t *testing.T) {
	s := &stand{builds: newBuilds(t, "program", plain), variant: plain}
	b := newBait(t, s)
	// The attack works on a program without privileges, whose user loses nothing.
	out, _ := b.run(t, b.environment()) // it has no adapter then
	if !strings.Contains(out, "secure 0") || !strings.Contains(out, "bait seen") || len(b.ran(t)) == 0 {
		t.Fatalf("the attack does not work where it may:\n%s", out)
	}
	for _, f := range b.ran(t) {
		must.Do(t, os.Remove(f))
	}
	for _, kind := range setid.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			run(t, "cp", "--remove-destination", b.program(), b.program()+".new") // without the rights of the kind before
			must.Do(t, os.Rename(b.program()+".new", b.program()))
			setid.Grant(t, kind, b.program())
			b.attack(t, kind)
		})
	}
}

// attack runs a privileged program in the attacker's environment.
func (b *bait) attack(t *testing.T, kind setid.Kind) {
	t.Helper()
	out, err := b.run(t, b.environment())
	if err != nil || !wantOpened.MatchString(out) || strings.Contains(out, "123456789abcde") {
		t.Errorf("%s: %v, want an adapter with the defaults:\n%s", kind, err, out)
	}
	// An error is logged without a look at the file that TZ names.
	starved, err := b.run(t, b.environment(), "starved")
	if err == nil || !strings.Contains(starved, "softhca: no adapter") || !regexp.MustCompile(`(?m)^time=\S+Z level=ERROR`).MatchString(starved) {
		t.Errorf("%s without descriptors: %v\n%s", kind, err, starved)
	}
	if strings.Contains(out+starved, "first-line") {
		t.Errorf("%s prints a file of root:\n%s", kind, out+starved)
	}
	if text, err := os.ReadFile(b.victim); err != nil || string(text) != victimText {
		t.Errorf("%s has written to a file of root: %q, %v", kind, text, err)
	}
	if files := b.ran(t); len(files) > 0 {
		t.Errorf("%s ran the attacker's library: %v", kind, files)
	}
	if _, err := os.Lstat(filepath.Join(b.attempt, "home")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s has written below the attacker's HOME (%v)", kind, err)
	}
}

// TestLibrariesReadNoOtherEnvironment checks that the C libraries read the environment only with
// secure_getenv.
func TestLibrariesReadNoOtherEnvironment(t *testing.T) {
	reads := regexp.MustCompile(`(?m)^.*\b(getenv|environ)\b.*$`)
	found := 0
	for _, dir := range []string{"../libibverbs", "../preload"} {
		for _, file := range sources(t, dir) {
			text, err := os.ReadFile(file)
			must.Do(t, err)
			for _, line := range reads.FindAllString(string(text), -1) {
				t.Errorf("%s reads the environment of a privileged program: %s", file, line)
			}
			found += strings.Count(string(text), "secure_getenv(")
		}
	}
	if found == 0 {
		t.Error("no library reads the environment: this test looks at the wrong files")
	}
}
