package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// newHelpCommand returns the command that shows the help of others. cobra's own
// command treats an unknown name like no name.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Long:  "help shows what softhca COMMAND --help does.",
		Example: `  softhca help
  softhca help perf
  softhca help completion bash`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if at, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range at.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil || at == cmd.Root() && len(rest) > 0:
				return noCommand(cmd.Root(), args)
			case len(rest) > 0:
				return usagef("%s has no command %q", at.CommandPath(), rest[0])
			}
			at.InitDefaultHelpFlag() // otherwise its help would lack these flags
			at.InitDefaultVersionFlag()
			return at.Help()
		},
	}
}

// initCompletion adds the command that writes the completion scripts of shells.
func initCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	assert(err)
	cmd.Short = "Write the script by which a shell completes commands, options and their values"
	cmd.Long = `completion writes a script that has a shell complete commands, options, and values such as services, path MTUs,
scripts and this host's addresses. The help of each of its commands says where that shell wants it.`
	cmd.Example = `  source <(softhca completion bash)       for this session of bash
  softhca completion zsh --help`
	var shells []string
	for _, sub := range cmd.Commands() {
		sub.Short, sub.Args = "Write it for "+sub.Name(), noArgs
		shells = append(shells, sub.Name())
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("there is no completion for %s: %s", strconv.Quote(args[0]), text.Want(args[0], shells))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}
