package pages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// console is a block of commands and of what they print.
type console struct {
	where    string // page and section
	commands []command
}

type command struct {
	line       string
	background bool
	exit       int
	want       []string // lines, in which … is any text
}

// consoles returns the blocks of a page.
func consoles(file, page string) (all []console, err error) {
	head, rest := sections(page)
	for _, s := range append([]section{{"", head}}, rest...) {
		for i, part := range strings.Split("\n"+s.body, "\n```console\n") {
			text, _, ok := strings.Cut("\n"+part, "\n```\n")
			if i == 0 {
				continue
			}
			c := console{where: strings.TrimSpace(file + " " + s.heading)}
			if !ok {
				return nil, fmt.Errorf("%s: a block has no end", c.where)
			}
			if c.commands, err = parse(strings.TrimPrefix(text, "\n")); err != nil {
				return nil, fmt.Errorf("%s: %w", c.where, err)
			}
			all = append(all, c)
		}
	}
	return all, nil
}

var exitLine = regexp.MustCompile(`^\(exit code (\d+)\)$`)

// parse reads the lines of a block.
func parse(text string) (list []command, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if s, ok := strings.CutPrefix(line, "$ "); ok {
			s, background := strings.CutSuffix(s, " &")
			list = append(list, command{line: s, background: background})
			continue
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%q is printed by no command", line)
		}
		c := &list[len(list)-1]
		if m := exitLine.FindStringSubmatch(line); m != nil {
			_, err = fmt.Sscan(m[1], &c.exit)
		} else if strings.Trim(line, "… ") != "" {
			c.want = append(c.want, line)
		}
	}
	for _, c := range list {
		if len(c.want) == 0 && c.exit == 0 && !strings.HasPrefix(c.line, "cd ") && !strings.Contains(c.line, ">") {
			return nil, fmt.Errorf("the page does not say what comes of %q", c.line)
		}
	}
	return list, err
}

// missing returns the first wanted line that does not occur after those before it,
// or "".
func (c *command) missing(output string) string {
	lines := strings.Split(output, "\n")
	for _, want := range c.want {
		parts := strings.Split(want, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		line := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
		i := slices.IndexFunc(lines, line.MatchString)
		if i < 0 {
			return want
		}
		lines = lines[i+1:]
	}
	return ""
}

// TestConsoles reads blocks, and holds output to them.
func TestConsoles(t *testing.T) {
	all, err := consoles("p.md", "# T\n\n## A\n\n```console\n$ serve &\nready\n$ ask it\nno …, code 3\n…\nlast\n(exit code 1)\n```\nmore\n")
	if err != nil || len(all) != 1 || all[0].where != "p.md A" || len(all[0].commands) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	serve, ask := all[0].commands[0], all[0].commands[1]
	if serve.line != "serve" || !serve.background || ask.exit != 1 || ask.background {
		t.Errorf("%+v and %+v", serve, ask)
	}
	for output, want := range map[string]string{
		"first\nno answer, code 3\nbetween\nlast\n": "",
		"last\nno answer, code 3\n":                 "last",
		"no answer, code 33\nlast\n":                "no …, code 3",
	} {
		if got := ask.missing(output); got != want {
			t.Errorf("of %q %q is missing, want %q", output, got, want)
		}
	}
	for _, page := range []string{"```console\n$ a\nb\n", "```console\nb\n```\n", "```console\n$ a\n```\n"} {
		if all, err := consoles("p.md", page); err == nil {
			t.Errorf("%q is read as %+v", page, all)
		}
	}
}
