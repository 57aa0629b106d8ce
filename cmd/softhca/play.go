package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/play"
)

func newPlayCommand() *cobra.Command {
	var list, asJSON bool
	cmd := &cobra.Command{
		Use:   "play SCRIPT...",
		Short: "Play protocol scripts to an adapter in virtual time",
		Long: `play runs protocol scripts. A script creates one adapter and plays its peer, packet by packet: it shows what causes a
completion status or an event, and how the packets look. SCRIPT is the name of a built-in script, or a file. play uses
no network, and does not wait: time is virtual.

In the output, a line that begins with < is a packet that the adapter receives. The indented lines below each step are
the adapter's reaction: > is a packet that it sends, wc a completion, event an asynchronous event, -> a state change of
a queue pair or a connection, count the values of counters.

The exit code is 0 if the adapter reacts exactly as the script says, 1 if not, and 2 if there is no such script.`,
		Example: `  softhca play --list                       list the built-in scripts, with the statuses and events that they provoke
  softhca play e08_retries_exceeded
  softhca play --json e15_send_too_long
  softhca play my.qp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch {
			case list && len(args) > 0:
				return usagef("--list takes no script: %q", args[0])
			case list:
				return play.List(out, asJSON)
			case len(args) == 0:
				return usagef("play needs a SCRIPT; softhca play --list lists them")
			}
			var scripts []play.Script
			for _, name := range args {
				s, err := play.Find(name, os.ReadFile)
				if err != nil {
					return &usageError{err}
				}
				scripts = append(scripts, s)
			}
			return play.Run(out, scripts, asJSON)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the built-in scripts")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: an array of scripts")
	return cmd
}
