package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

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
