package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/faults"
)

func newFaultsCommand(g *globals) *cobra.Command {
	var list, nasty, asJSON bool
	cmd := &cobra.Command{
		Use:   "faults [RULE...]",
		Short: "Explain and check fault rules",
		Long: `faults explains the rules of --fault. Give rules, as arguments or by --fault and --fault-file, to check them and to
read what they do; the exit code is 2 if one is wrong. With --list, or without rules, faults lists every fault, argument
and selector with an example.

--nasty lists the behaviours of softhca run --nasty instead, with the permission of each. They are no faults: a correct
program stands them.`,
		Example: `  softhca faults --list
  softhca faults 'drop nth=3 op=RDMA_WRITE_MIDDLE' 'delay 5ms op=ACK'
  softhca faults 'drop op=REP nth=1'        a message of the connection manager
  softhca faults 'drop path=primary after=1s'   one of two paths fails
  softhca faults --fault-file rules.txt
  softhca faults --nasty                    what run --nasty does`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(append(args, g.faults...), "\n")
			if g.faultFile != "" {
				b, err := os.ReadFile(g.faultFile)
				if err != nil {
					return fmt.Errorf("faults: %w", err)
				}
				text += "\n" + string(b)
			}
			if list && strings.TrimSpace(text) != "" {
				return usagef("--list takes no rules: leave it out to explain rules")
			}
			if nasty && (list || strings.TrimSpace(text) != "") {
				return usagef("--nasty takes no rules, and no --list: the behaviours are no faults")
			}
			out := cmd.OutOrStdout()
			switch {
			case nasty && asJSON:
				return faults.ListNastyJSON(out)
			case nasty:
				return faults.ListNasty(out)
			}
			if list || strings.TrimSpace(text) == "" {
				if asJSON {
					return faults.ListJSON(out)
				}
				return faults.List(out)
			}
			rules, err := faults.Explain(text)
			if err != nil {
				return usagef("%w", err)
			}
			if asJSON {
				return faults.WriteJSON(out, rules)
			}
			return faults.Write(out, rules)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list every fault, argument and selector")
	cmd.Flags().BoolVar(&nasty, "nasty", false, "list the behaviours of run --nasty, and why each is permitted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
