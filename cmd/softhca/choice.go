package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// choice is the value of a flag that takes one of a list of words, in any case.
// Shells complete the words.
type choice struct {
	word *string
	all  []string
}

var _ pflag.Value = choice{}

// addChoice adds a flag for a word of all. The initial value of *word is the
// default; "" is no default.
func addChoice(fs *pflag.FlagSet, word *string, name, usage string, all ...string) {
	fs.Var(choice{word, all}, name, usage)
}

// String returns the word.
func (c choice) String() string {
	if c.word == nil {
		return ""
	}
	return *c.word
}

// Type returns "string", so that help quotes the default as for other words.
func (c choice) Type() string { return "string" }

// Set parses the text of the command line. The error lists the valid words.
func (c choice) Set(given string) error {
	for _, word := range c.all {
		if strings.EqualFold(word, given) {
			*c.word = word
			return nil
		}
	}
	return fmt.Errorf("%q: %s", given, c.want(given))
}

func (c choice) want(got string) string { return text.Want(got, c.all) }

// complete completes the words.
func (c choice) complete(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.all, cobra.ShellCompDirectiveNoFileComp
}
