package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/manpage"
)

// TestManPages writes a page of each command that help names, with its examples
// and without the options that it refuses. Where groff is, it has no complaint.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "share", "man1")
	if code, _, errs := command(t, "man", dir); code != exitOK {
		t.Fatal(errs)
	}
	pages := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		data, err := os.ReadFile(filepath.Join(dir, manpage.Name(cmd)+".1"))
		page := string(data)
		if pages++; err != nil || !strings.Contains(page, ".SH NAME\n") || cmd.Example != "" && !strings.Contains(page, ".SH EXAMPLES\n") {
			t.Errorf("the page of %s: %v\n%s", cmd.CommandPath(), err, page)
		}
		for _, f := range ignored(cmd) {
			if strings.Contains(page, `\fB\-\-`+strings.ReplaceAll(f.Name, "-", `\-`)+`\fR`) {
				t.Errorf("the page of %s names --%s, which it refuses", cmd.CommandPath(), f.Name)
			}
		}
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				walk(c)
			}
		}
	}
	root := newRootCommand()
	root.InitDefaultCompletionCmd("completion")
	walk(root)
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) != pages || pages < 20 {
		t.Errorf("%d pages of %d commands, %v", len(files), pages, err)
	}
	if groff, err := exec.LookPath("groff"); err == nil {
		if out, err := exec.Command(groff, append([]string{"-man", "-Tutf8", "-ww", "-z"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("groff: %v\n%s", err, out)
		}
	}
	if code, _, errs := command(t, "man"); code != exitUsage || !strings.Contains(errs, "DIRECTORY") {
		t.Errorf("without a directory: code %d, %s", code, errs)
	}
	if code, _, errs := command(t, "man", files[0]); code != exitFailed || !strings.HasPrefix(errs, "softhca: man: ") {
		t.Errorf("into a file: code %d, %s", code, errs)
	}
}
