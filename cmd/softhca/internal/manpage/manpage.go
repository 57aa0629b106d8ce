package manpage

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Name returns the name of the page of a command, such as "softhca-decode".
func Name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Write writes the page of a command, without hidden options. It blocks as w does.
func Write(w io.Writer, cmd *cobra.Command) error {
	p := &page{bufio.NewWriter(w)}
	p.line(".TH %s 1 %q %q", quoted(strings.ToUpper(Name(cmd))), "", cmd.Root().Name())
	p.line(".SH NAME\n%s \\- %s", escape(Name(cmd)), escape(cmd.Short))
	p.line(".SH SYNOPSIS\n.nh\n.B %s", escape(cmd.UseLine()))
	p.line(".hy\n.SH DESCRIPTION")
	if cmd.Long == "" {
		p.prose(cmd.Short + ".")
	}
	p.prose(cmd.Long)
	p.options("OPTIONS", cmd.NonInheritedFlags())
	p.options("OPTIONS OF ADAPTERS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.line(".SH EXAMPLES")
		p.prose(cmd.Example)
	}
	p.line(".SH EXIT STATUS\n0 is success, 1 failure, 2 a wrong command line, where DESCRIPTION says nothing else.")
	p.related(cmd)
	return p.Flush()
}

// page is the page being written; its Flush returns the first error.
type page struct{ *bufio.Writer }

// line writes a line.
func (p *page) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// prose writes paragraphs. A line that begins with a blank stays one line; the text
// after a gap in it is its explanation.
func (p *page) prose(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		if line == "" {
			p.line(".PP")
			continue
		}
		if line[0] != ' ' {
			p.line("%s", escape(line))
			continue
		}
		line = strings.TrimSpace(line)
		if head, explanation, explained := strings.Cut(line, "   "); explained {
			p.line(".TP\n.B %s\n%s", escape(head), escape(strings.TrimSpace(explanation)))
		} else {
			p.line(".TP\n.B %s", escape(line))
		}
	}
}

// options writes the options that are not hidden.
func (p *page) options(title string, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if title != "" {
			p.line(".SH %s", title)
			title = ""
		}
		kind, usage := pflag.UnquoteUsage(f)
		head := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			head = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + head
		}
		if kind != "" {
			head += ` \fI` + escape(kind) + `\fR`
		}
		p.line(".TP\n%s\n%s", head, escape(usage))
		switch f.DefValue {
		case "", "0", "false", "[]", "0s":
		default:
			if !strings.Contains(usage, "(default ") {
				p.line("(default %s)", escape(f.DefValue))
			}
		}
	})
}

// related writes the names of the pages of the parent command and of subcommands.
func (p *page) related(cmd *cobra.Command) {
	var names []string
	if cmd.HasParent() {
		names = append(names, Name(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, Name(c))
		}
	}
	if len(names) == 0 {
		return
	}
	p.line(".SH SEE ALSO")
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		p.line(`\fB%s\fR(1)%s`, escape(name), comma)
	}
}

// escape returns text without special characters and requests of man(7).
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// quoted returns a word as the argument of a request.
func quoted(s string) string { return `"` + escape(strings.ReplaceAll(s, `"`, "")) + `"` }
