package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/softhca/softhca/internal/libraries"
)

// installation is a source tree and the directory to install it into.
type installation struct {
	tree string
	root string // the prefix, below DESTDIR if there is one
	out  io.Writer
}

// Where shells look for completions, below the prefix.
const (
	bashDir = "share/bash-completion/completions"
	zshDir  = "share/zsh/site-functions"
	fishDir = "share/fish/vendor_completions.d"
)

// completions has the file of each shell's completions.
var completions = [...]struct{ shell, file string }{
	{"bash", bashDir + "/softhca"},
	{"zsh", zshDir + "/_softhca"},
	{"fish", fishDir + "/softhca.fish"},
}

// say prints a line. It ignores errors: the installation does not depend on it.
func (i *installation) say(format string, args ...any) {
	_, _ = fmt.Fprintf(i.out, format+"\n", args...)
}

// install builds and installs everything. It reports missing packages before it builds.
func (i *installation) install(ctx context.Context) error {
	if err := libraries.Check(ctx); err != nil {
		return err
	}
	command := filepath.Join(i.root, "bin", "softhca")
	i.say("building softhca; compiling it for the first time takes minutes")
	if err := i.buildCommand(ctx, command); err != nil {
		return err
	}
	i.say("  %s", command)
	dir := filepath.Join(i.root, "lib", "softhca")
	if err := libraries.Build(ctx, i.tree, dir, i.out); err != nil {
		return err
	}
	i.say("  %s, %s and %s in %s", libraries.Verbs, libraries.Engine, libraries.Preload, dir)
	return i.writePages(ctx, command)
}

// buildCommand builds the command. Where git refuses to name the revision, as in a tree of
// another user, the command has no revision.
func (i *installation) buildCommand(ctx context.Context, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	build := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-o", file}, args...)...)
		cmd.Dir = i.tree
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := build("./cmd/softhca")
	if err != nil && ctx.Err() == nil && strings.Contains(out, "VCS") {
		out, err = build(libraries.NoVCS, "./cmd/softhca")
	}
	if err != nil {
		return fmt.Errorf("build softhca: %w\n%s", cmp.Or(ctx.Err(), err), out)
	}
	return nil
}

// writePages has the command write its manual pages and completions.
func (i *installation) writePages(ctx context.Context, command string) error {
	i.say("writing manual pages and completions")
	dir := filepath.Join(i.root, "share", "man", "man1")
	if out, err := exec.CommandContext(ctx, command, "man", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("manual pages: %w\n%s", cmp.Or(ctx.Err(), err), out)
	}
	i.say("  softhca.1 and a page of each command in %s", dir)
	for _, c := range completions {
		var errs bytes.Buffer
		cmd := exec.CommandContext(ctx, command, "completion", c.shell)
		cmd.Stderr = &errs
		text, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("completion for %s: %w\n%s", c.shell, cmp.Or(ctx.Err(), err), errs.Bytes())
		}
		name := filepath.Join(i.root, c.file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644)); err != nil {
			return err
		}
		i.say("  %s", name)
	}
	return nil
}
