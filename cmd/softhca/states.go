package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/states"
	"github.com/softhca/softhca/ib"
)

func newStatesCommand() *cobra.Command {
	typ, format := "", ""
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
			formats := map[string]func(io.Writer, []ib.QPType) error{
				"table": states.Table, "json": states.JSON, "dot": states.Dot,
			}
			print, ok := formats[strings.ToLower(format)]
			if !ok {
				return usagef("--format %q: want table, json or dot", format)
			}
			return print(cmd.OutOrStdout(), types)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "only one service: rc, uc, ud, rd or gsi")
	cmd.Flags().StringVar(&format, "format", "table", "table, json or dot (Graphviz)")
	return cmd
}
