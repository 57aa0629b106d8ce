package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/cmstates"
)

func newCMStatesCommand() *cobra.Command {
	name := ""
	format := formats[cmstates.State]{"table": cmstates.Table, "json": cmstates.JSON, "dot": cmstates.Dot}
	cmd := &cobra.Command{
		Use:   "cm-states",
		Short: "Print the machines of the connection manager",
		Long: `cm-states prints what each message, call and timer does in each state of a connection, on the active and on
the passive side: the table that the adapter executes. JSON has the inputs too that a state refuses or drops.`,
		Example: `  softhca cm-states
  softhca cm-states --state established
  softhca cm-states --format json
  softhca cm-states --format dot | dot -Tsvg > cm.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			states := cmstates.States()
			if name != "" {
				s, ok := cmstates.Find(name)
				if !ok {
					return usagef("--state %q: want one of %s", name, stateNames(states))
				}
				states = []cmstates.State{s}
			}
			return format.print(cmd, states)
		},
	}
	cmd.Flags().StringVar(&name, "state", "", "only this state, such as REQ_SENT")
	format.register(cmd)
	return cmd
}

func stateNames(states []cmstates.State) string {
	var names []string
	for _, s := range states {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}
