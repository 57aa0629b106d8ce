package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// TestWritePages installs what the command writes: the shells get their completions where
// they look for them.
func TestWritePages(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "softhca")
	const script = "#!/bin/sh\nif test $1 = man; then mkdir -p $2 && echo page >$2/softhca.1; else echo $1 for $2; fi\n"
	must.Do(t, os.WriteFile(command, []byte(script), 0o755))
	var out strings.Builder
	i := &installation{tree: "../../..", root: filepath.Join(dir, "dest", "usr"), out: &out}
	must.Do(t, i.writePages(t.Context(), command))
	for name, want := range map[string]string{
		"share/man/man1/softhca.1":                     "page\n",
		"share/bash-completion/completions/softhca":    "completion for bash\n",
		"share/zsh/site-functions/_softhca":            "completion for zsh\n",
		"share/fish/vendor_completions.d/softhca.fish": "completion for fish\n",
	} {
		name = filepath.Join(i.root, name)
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
		if !strings.Contains(out.String(), filepath.Dir(name)) {
			t.Errorf("%s is installed in silence:\n%s", name, out.String())
		}
	}
	must.Do(t, os.WriteFile(command, []byte("#!/bin/sh\necho broken >&2; exit 1\n"), 0o755))
	if err := i.writePages(t.Context(), command); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a command that fails: %v", err)
	}
}

// TestInstallNamesWhatIsMissing fails before anything is built, and says what to install.
func TestInstallNamesWhatIsMissing(t *testing.T) {
	t.Setenv("CC", "")
	t.Setenv("PATH", t.TempDir())
	var out strings.Builder
	i := &installation{tree: "../../..", root: t.TempDir(), out: &out}
	if err := i.install(t.Context()); !errors.Is(err, libraries.ErrNoCompiler) || out.String() != "" {
		t.Errorf("without a compiler: %v, after %q", err, out.String())
	}
}

// TestMakefile installs by the recipe of the Makefile, into DESTDIR, with nothing of it being
// built.
func TestMakefile(t *testing.T) {
	makeTool, err := exec.LookPath("make")
	if err != nil {
		// Nothing else is said about it.
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), makeTool, "-n", "-C", "../../..", "install", "PREFIX=/usr", "DESTDIR=/tmp/package")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "go run ./internal/tools/install /usr /tmp/package") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNext tells how to reach the command only if it cannot be reached.
func TestNext(t *testing.T) {
	text := next("/opt/softhca", []string{"/usr/bin"})
	for _, want := range []string{`export PATH="/opt/softhca/bin:$PATH"`, "man softhca", "softhca demo", "/opt/softhca/share/zsh/site-functions"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if text := next("/usr", []string{"/bin", "/usr/bin"}); strings.Contains(text, "export PATH") {
		t.Errorf("the command is in PATH, and yet:\n%s", text)
	}
}

// interrupter records what is written, and interrupts at the first write.
type interrupter struct {
	strings.Builder
	interrupt context.CancelFunc
}

func (w *interrupter) Write(b []byte) (int, error) {
	w.interrupt()
	return w.Builder.Write(b)
}

// TestInterrupted checks that an interrupted installation has named the step before its
// minutes of compilation, and returns the interruption.
func TestInterrupted(t *testing.T) {
	if err := libraries.Check(t.Context()); err != nil {
		// Nothing is built without a compiler and the headers.
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interrupter{interrupt: cancel}
	i := &installation{tree: "../../..", root: t.TempDir(), out: out}
	must.Fail(t, i.install(ctx), context.Canceled, "an installation that is interrupted")
	if want := "building softhca; compiling it for the first time takes minutes\n"; out.String() != want {
		t.Errorf("before it compiles it says %q, want %q", out.String(), want)
	}
}
