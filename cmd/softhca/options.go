package main

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// partial maps each command that lacks some options of adapters to those that it
// has. The command refuses the others, and its help omits them.
var partial = map[string][]string{
	"softhca":    nil,
	"broker":     {"addr"},
	"cm-states":  nil,
	"completion": nil,
	"decode":     nil,
	"devices":    {"addr", "log-level", "log-format", "transport", "wire"},
	"explain":    nil,
	"faults":     {"fault", "fault-file"},
	"help":       nil,
	"judge":      {"addr", "capture", "transport"},
	"man":        nil,
	"metrics":    nil,
	"play":       nil,
	"sim":        nil,
	"states":     nil,
	"top":        nil,
	"version":    nil,
}

// ignored returns the options of adapters that a command lacks.
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

// refuseGiven returns a usageError for the first given option among names, which
// have no effect here. why says where they have an effect.
func refuseGiven(cmd *cobra.Command, why string, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return usagef("--%s has no effect here: %s", name, why)
		}
	}
	return nil
}

// checkGiven returns a usageError for the first option with a negative time or an
// empty name, for example from an unset shell variable. An empty --addr is valid:
// it means any address.
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
			if kind == f.Value.Type() { // the help has no name for the value
				kind = "a value"
			}
			err = usagef("--%s is empty: give %s, or leave --%s out", f.Name, kind, f.Name)
		}
	})
	return err
}

// helpWidth is the number of columns of help.
const helpWidth = 100

// setHelp limits help to the options that a command has, in lines that fit a
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

// fill wraps the paragraphs of s, and each line that begins with a blank and is
// too long.
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

// The layout of indented lines with an explanation.
const (
	gap       = "   "          // minimum gap before the explanation
	farRight  = helpWidth - 40 // an explanation from this column on moves to the next line
	belowLeft = 6              // its column there
)

// fold wraps a line that is too long: a command or a word, a gap, and an
// explanation, which continues in its own column.
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
