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
		Long:  "help shows the help of a command, as softhca COMMAND --help does.",
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
	cmd.Short = "Write a shell completion script"
	cmd.Long = `completion writes a script for shell completion of commands, options, and values such as services, path MTUs, scripts
and this host's addresses. The help of each subcommand says how to install the script.`
	cmd.Example = `  source <(softhca completion bash)       for this bash session
  softhca completion zsh --help`
	var shells []string
	for _, sub := range cmd.Commands() {
		sub.Short, sub.Args = "Write the script for "+sub.Name(), noArgs
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
