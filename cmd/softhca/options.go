package main

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// partial are the commands that have not all options of adapters, with those
// that they have. Other options are refused, and their help does not name them.
var partial = map[string][]string{
	"softhca":    nil,
	"broker":     {"addr"},
	"cm-states":  nil,
	"completion": nil,
	"decode":     nil,
	"devices":    {"addr", "log-level", "transport"},
	"explain":    nil,
	"faults":     {"fault", "fault-file"},
	"help":       nil,
	"judge":      {"addr", "capture", "transport"},
	"man":        nil,
	"play":       nil,
	"sim":        nil,
	"states":     nil,
	"version":    nil,
}

// ignored returns those options of adapters that a command does not have.
func ignored(cmd *cobra.Command) (all []*pflag.Flag) {
	own := cmd
	for own.HasParent() && own.Parent().HasParent() {
		own = own.Parent()
	}
	has, some := partial[own.Name()]
	if !some {
		return nil
	}
	cmd.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(has, f.Name) && cmd.Flags().Lookup(f.Name) == f {
			all = append(all, f)
		}
	})
	return all
}

// refuseIgnored returns a usageError for an option that would have no effect.
func refuseIgnored(cmd *cobra.Command) error {
	for _, f := range ignored(cmd) {
		if !f.Changed {
			continue
		}
		if has := partial[cmd.Name()]; len(has) > 0 {
			return usagef("--%s has no effect here: of the options of adapters %s has --%s", f.Name, cmd.CommandPath(), strings.Join(has, ", --"))
		}
		return usagef("--%s has no effect here: %s opens no adapter", f.Name, cmd.CommandPath())
	}
	return nil
}

// refuseGiven returns a usageError for the first of some options that is given,
// though it has no effect: why says where it has.
func refuseGiven(cmd *cobra.Command, why string, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return usagef("--%s has no effect here: %s", name, why)
		}
	}
	return nil
}

// checkGiven returns a usageError for the first option that is given a value that
// no option of its type takes: no time is negative, and a name that is empty, as
// of a variable of a shell that is not set, names nothing. Without a value --addr
// is any address.
func checkGiven(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		_, isWord := f.Value.(choice)
		switch {
		case err != nil || f.Name == "addr" || isWord:
		case f.Value.Type() == "duration" && strings.HasPrefix(value, "-"):
			err = usagef("--%s %s: a time is not negative", f.Name, value)
		case f.Value.Type() == "string" && strings.TrimSpace(value) == "":
			kind, _ := pflag.UnquoteUsage(f)
			if kind == f.Value.Type() { // the help does not name the value
				kind = "a value"
			}
			err = usagef("--%s is empty: give %s, or leave --%s out", f.Name, kind, f.Name)
		}
	})
	return err
}

// helpWidth is how many columns help has.
const helpWidth = 100

// setHelp has help tell only the options that a command has, in lines that fit a
// terminal.
func setHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 100"))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		for _, f := range ignored(cmd) {
			f.Hidden = true
			defer func() { f.Hidden = false }()
		}
		long, example := cmd.Long, cmd.Example
		defer func() { cmd.Long, cmd.Example = long, example }()
		cmd.Long, cmd.Example = fill(long), fill(example)
		help(cmd, args)
	})
}

// fill breaks the paragraphs of s into lines anew, and those lines that begin
// with a blank and are too long.
func fill(s string) string {
	var lines []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			lines = append(lines, text.Wrap(paragraph, helpWidth, 0)...)
			paragraph = ""
		}
	}
	for line := range strings.SplitSeq(s, "\n") {
		switch {
		case line == "" || line[0] == ' ':
			end()
			lines = append(lines, fold(line)...)
		case paragraph == "":
			paragraph = line
		default:
			paragraph += " " + line
		}
	}
	end()
	return strings.Join(lines, "\n")
}

// Of an indented line that explains something.
const (
	gap       = "   "          // before the explanation, at least
	farRight  = helpWidth - 40 // from here on an explanation goes below
	belowLeft = 6              // where it begins there
)

// fold breaks a line that is too long: a command or a word, and, behind a gap, its
// explanation, which goes on in its own column.
func fold(line string) []string {
	at := strings.LastIndex(line, gap) + len(gap)
	if utf8.RuneCountInString(line) <= helpWidth || at == len(gap)-1 || strings.TrimSpace(line[:at]) == "" {
		return []string{line}
	}
	first, column := line[:at], utf8.RuneCountInString(line[:at])
	var lines []string
	if column > farRight {
		lines = append(lines, strings.TrimRight(first, " "))
		column = belowLeft
		first = strings.Repeat(" ", column)
	}
	for _, part := range text.Wrap(line[at:], helpWidth-column, 0) {
		lines = append(lines, first+part)
		first = strings.Repeat(" ", column)
	}
	return lines
}
