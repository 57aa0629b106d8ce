package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/cmstates"
	"github.com/softhca/softhca/cmd/softhca/internal/states"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/wording"
)

func newStatesCommand() *cobra.Command {
	typ := ""
	format := formats[ib.QPType]{states.Table, states.JSON, states.Dot}
	cmd := &cobra.Command{
		Use:   "states",
		Short: "Print the queue pair states and the attributes of each move",
		Long: `states prints the table that the adapter enforces: the moves between states that a modify call may make, and for each
move the required and the optional attributes.`,
		Example: `  softhca states
  softhca states --type rc
  softhca states --type ud --json
  softhca states --type rc --format dot | dot -Tsvg > rc.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			types := states.Types()
			if typ != "" {
				t, _ := states.Parse(typ) // the option accepts only valid types
				types = []ib.QPType{t}
			}
			return format.print(cmd, types)
		},
	}
	var names []string
	for _, t := range states.Types() {
		names = append(names, strings.ToLower(t.String()))
	}
	addChoice(cmd.Flags(), &typ, "type", "only one `service`: "+wording.Or(names), names...)
	format.register(cmd)
	return cmd
}

// formats are the ways to print a list.
type formats[T any] struct{ table, json, dot func(io.Writer, []T) error }

func (f formats[T]) register(cmd *cobra.Command) {
	name := "table"
	addChoice(cmd.Flags(), &name, "format", "`format`: table, json or dot (Graphviz)", "table", "json", "dot")
	cmd.Flags().Bool("json", false, "print a JSON array, as --format json does")
	cmd.MarkFlagsMutuallyExclusive("format", "json")
}

// print prints the list as --format asks for.
func (f formats[T]) print(cmd *cobra.Command, list []T) error {
	format := cmd.Flag("format").Value.String()
	if cmd.Flag("json").Changed {
		format = "json"
	}
	switch format {
	case "json":
		return f.json(cmd.OutOrStdout(), list)
	case "dot":
		return f.dot(cmd.OutOrStdout(), list)
	default:
		return f.table(cmd.OutOrStdout(), list)
	}
}

func newCMStatesCommand() *cobra.Command {
	name := ""
	format := formats[cmstates.State]{cmstates.Table, cmstates.JSON, cmstates.Dot}
	cmd := &cobra.Command{
		Use:   "cm-states",
		Short: "Print the state machines of the connection manager",
		Long: `cm-states prints the effect of each message, call and timer in each state of a connection, on the active and the passive
side: the table that the adapter executes. With --json it also prints the inputs that a state refuses or drops.`,
		Example: `  softhca cm-states
  softhca cm-states --state established
  softhca cm-states --json
  softhca cm-states --format dot | dot -Tsvg > cm.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			states := cmstates.States()
			if name != "" {
				s, _ := cmstates.Find(name) // the option accepts only valid states
				states = []cmstates.State{s}
			}
			return format.print(cmd, states)
		},
	}
	addChoice(cmd.Flags(), &name, "state", "only this `state`, such as REQ_SENT", stateNames(cmstates.States())...)
	format.register(cmd)
	return cmd
}

func stateNames(states []cmstates.State) (names []string) {
	for _, s := range states {
		names = append(names, s.Name)
	}
	return names
}
