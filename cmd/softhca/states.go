package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/cmstates"
	"github.com/softhca/softhca/cmd/softhca/internal/states"
	"github.com/softhca/softhca/ib"
)

func newStatesCommand() *cobra.Command {
	typ := ""
	format := formats[ib.QPType]{"table": states.Table, "json": states.JSON, "dot": states.Dot}
	cmd := &cobra.Command{
		Use:   "states",
		Short: "Print the table of queue pair states and the attributes of each move",
		Long: `states prints the table that the adapter enforces: from which state a modify call may move a queue pair to
which, and the attributes that the call must and may name.`,
		Example: `  softhca states
  softhca states --type rc
  softhca states --type ud --format json
  softhca states --type rc --format dot | dot -Tsvg > rc.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			types := states.Types()
			if typ != "" {
				t, ok := states.Parse(typ)
				if !ok {
					return usagef("--type %q: want rc, uc, ud, rd or gsi", typ)
				}
				types = []ib.QPType{t}
			}
			return format.print(cmd, types)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "only one service: rc, uc, ud, rd or gsi")
	format.register(cmd)
	return cmd
}

// formats are the ways to print a list, by the names that --format takes.
type formats[T any] map[string]func(io.Writer, []T) error

func (f formats[T]) register(cmd *cobra.Command) {
	cmd.Flags().String("format", "table", "table, json or dot (Graphviz)")
}

// print prints the list as --format asks for.
func (f formats[T]) print(cmd *cobra.Command, list []T) error {
	name := cmd.Flag("format").Value.String()
	print, ok := f[strings.ToLower(name)]
	if !ok {
		return usagef("--format %q: want table, json or dot", name)
	}
	return print(cmd.OutOrStdout(), list)
}

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
