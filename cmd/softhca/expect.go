package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/explain"
)

// expected is what a report must say, for tests that run a program or read a capture.
type expected struct {
	outcome string // clean, repaired, or the name of a completion status; empty: anything
	packets bool   // at least one
}

// flags adds the options to a command.
func (x *expected) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&x.outcome, "expect", "",
		"fail unless the `OUTCOME` is this one: clean; repaired or clean, for repaired; or a completion status that a program got, such as REM_ACCESS_ERR")
	cmd.Flags().BoolVar(&x.packets, "require-packets", false, "fail if no RoCEv2 packet passed")
}

// set reports whether anything is expected.
func (x *expected) set() bool { return x.outcome != "" || x.packets }

// The outcomes that can be expected.
var outcomeClean, outcomeRepaired = "clean", explain.Repaired.String()

// check checks the options.
func (x *expected) check() error {
	if x.outcome == "" || x.outcome == outcomeClean || x.outcome == outcomeRepaired {
		return nil
	}
	for s := ib.WCLocLenErr; s <= ib.WCGeneralErr; s++ {
		if s != ib.WCWRFlushErr && s.String() == x.outcome { // logs of adapters have no flushed requests
			return nil
		}
	}
	return usagef("--expect %s: want clean, repaired, or a completion status such as REM_ACCESS_ERR", x.outcome)
}

// met returns an error unless a report is as expected.
func (x *expected) met(r *explain.Report) error {
	v := &r.Verdict
	switch {
	case x.packets && r.Packets == 0:
		return errors.New("--require-packets: no RoCEv2 packet passed")
	case x.outcome == "":
		return nil
	case x.outcome == outcomeClean || x.outcome == outcomeRepaired:
		if v.Outcome == x.outcome || v.Outcome == outcomeClean {
			return nil
		}
		return fmt.Errorf("--expect %s: %s: %s", x.outcome, v.Outcome, v.Headline)
	}
	got := r.Statuses()
	if slices.Contains(got, x.outcome) {
		return nil
	}
	if len(got) == 0 {
		return fmt.Errorf("--expect %s: no program got an error; %s: %s", x.outcome, v.Outcome, v.Headline)
	}
	return fmt.Errorf("--expect %s: the programs got %s", x.outcome, strings.Join(got, ", "))
}
