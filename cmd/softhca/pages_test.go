package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/softhca/softhca/internal/must"
)

var (
	// written finds commands of this program in a code line of a page: from its name
	// to the end of the shell command, or to three blanks, which separate commands
	// from their explanation.
	written = regexp.MustCompile(`(?:^|[ $:])(softhca|go run \./cmd/softhca) .*?(?:   |  #|;| \|\| | && |$)`)
	// inline finds commands in prose, which may lack arguments.
	inline = regexp.MustCompile("`(softhca [^`\n]+)`")
)

// commandsOf returns the commands that a page has in code, indented or between
// fences. A list of programs is none, and dots stand for other options.
func commandsOf(page string) (all []string) {
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			continue
		}
		for rest := strings.TrimRight(line, "\n"); ; {
			at := written.FindStringSubmatchIndex(rest)
			if at == nil {
				break
			}
			cmd := strings.TrimSpace(rest[at[2]:at[1]])
			rest = rest[at[1]:]
			cmd = strings.TrimRight(strings.Replace(cmd, "go run ./cmd/softhca", "softhca", 1), " .;#&|")
			if !strings.Contains(cmd, ", ") {
				all = append(all, cmd)
			}
		}
	}
	return all
}

// TestPagesCommands looks whether the commands that the pages name exist, with
// their options and arguments.
func TestPagesCommands(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	must.Do(t, err)
	n := 0
	for _, file := range append(files, "../../README.md", "../../CONTRIBUTING.md", "../../ARCHITECTURE.md") {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		for _, cmd := range commandsOf(string(page)) {
			n++
			if err := accepts(cmd); err != nil {
				t.Errorf("%s: %q: %v", filepath.Base(file), cmd, err)
			}
		}
		for _, m := range inline.FindAllStringSubmatch(string(page), -1) {
			n++
			root := newRootCommand()
			initCompletion(root)
			cmd, rest, err := root.Find(words(m[1])[1:])
			if err == nil {
				if wrong := cmd.ParseFlags(rest); errors.As(wrong, new(*pflag.NotExistError)) {
					err = wrong // others are of values, for which prose has a letter or nothing
				}
			}
			if err != nil || cmd == root && !strings.HasPrefix(m[1], "softhca --") {
				t.Errorf("%s: `%s`: %v", filepath.Base(file), m[1], err)
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d commands were found", n)
	}
}

// TestCommandsOf finds commands where pages have them, and what is wrong with one.
func TestCommandsOf(t *testing.T) {
	const page = "softhca no\n\n    softhca demo   and: softhca sim || x\n    softhca a, b\n```\n$ softhca pla e08 &\ngo run ./cmd/softhca faults 'a b' ...\n```\nsofthca no\n"
	got := commandsOf(page)
	if !slices.Equal(got, []string{"softhca demo", "softhca sim", "softhca pla e08", "softhca faults 'a b'"}) {
		t.Errorf("%q", got)
	}
	if accepts("softhca pla e08") == nil {
		t.Error("a command that there is not is accepted")
	}
}
