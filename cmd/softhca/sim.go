package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/sim"
)

// simFlags are the flags of sim.
type simFlags struct {
	seed      uint64
	seeds     string
	only      []int
	ops       int
	profile   string
	trace     bool
	minimize  bool
	packets   uint64
	duration  time.Duration
	jobs      int
	asJSON    bool
	lossRatio float64
}

func newSimCommand() *cobra.Command {
	f := &simFlags{}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Test adapters on a simulated faulty network",
		Long: `sim runs two to four adapters, and programs that use them, on a network that loses, repeats, delays, damages and forges
packets, in virtual time, all from one seed. After every step an oracle checks that each work request completes once, in
order and with a status that the faults explain, that memory holds exactly the written data, that each atomic executes
once, that state changes are legal, and that the counters are consistent. Finally the faults end, and everything must
complete.

The profile connect tests connections: two to five adapters whose programs connect, accept, refuse, delay, disconnect and
vanish while a fifth of all packets is lost. After every step the oracle checks that each program gets exactly the
events of its connection, that a side reports when it gives up, that messages are repeated on time and a limited number
of times, that a request leads to one connection, and that data comes from the right peer. Finally the faults end, both
ends must agree, and no connection may remain.

The profile rd tests reliable datagrams: two or three adapters with up to six queue pairs each over a few EE contexts, which
migrate between two paths while these fail and recover. The oracle checks that each message arrives once and in the order of
its queue pair, that no queue pair starves, that a channel stays up whatever its queue pairs do, and that
forged packets, and packets over an abandoned path, have no effect.

Without --seed or --seeds, sim runs the seeds 1..100. The same seed, ops and profile always give the same run. When a
run fails, sim searches for the smallest run that fails in the same way, and prints it with its last packets; the exit
code is 1.

Profiles:
` + simProfiles(),
		Example: `  softhca sim
  softhca sim --seeds 1..1000
  softhca sim --seed 42 --profile chaos --trace
  softhca sim --profile bulk --packets 100000000
  softhca sim --profile connect --seeds 1..1000
  softhca sim --for 1h
  softhca sim --loss-ratio 0.01           WRITE throughput on a network that loses 1 % of the packets`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	s := cmd.Flags()
	s.Uint64Var(&f.seed, "seed", 0, "run only this `seed`")
	s.StringVar(&f.seeds, "seeds", "", "run the seeds `A..B`, or from A on with A..")
	s.IntVar(&f.ops, "ops", sim.DefaultOps, "number of actions of the programs in a run")
	f.profile = sim.Profiles()[0].Name
	addChoice(s, &f.profile, "profile", "`profile` of faults, one of those above", profileNames()...)
	s.BoolVar(&f.trace, "trace", false, "print everything that happens (with --seed)")
	s.BoolVar(&f.minimize, "minimize", true, "when a run fails, search for the smallest run that fails in the same way")
	s.Uint64Var(&f.packets, "packets", 0, "stop after this number of packets")
	s.DurationVar(&f.duration, "for", 0, "run one seed after another for this time")
	s.IntSliceVar(&f.only, "only", nil, "run only the actions with these `numbers` (with --seed)")
	s.IntVar(&f.jobs, "jobs", runtime.GOMAXPROCS(0), "number of concurrent runs")
	s.BoolVar(&f.asJSON, "json", false, "print the result as one JSON object")
	s.Float64Var(&f.lossRatio, "loss-ratio", 0, "measure the WRITE throughput without loss and with this `share` of packets lost")
	cmd.MarkFlagsMutuallyExclusive("seed", "seeds", "loss-ratio")
	return cmd
}

// profileNames returns the names of the profiles.
func profileNames() (names []string) {
	for _, p := range sim.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// simProfiles lists the profiles.
func simProfiles() string {
	var b strings.Builder
	for _, p := range sim.Profiles() {
		fmt.Fprintf(&b, "  %-10s %s\n", p.Name, p.About)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (f *simFlags) run(cmd *cobra.Command) error {
	if cmd.Flags().Changed("loss-ratio") {
		return f.measure(cmd)
	}
	c, err := f.campaign(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	run, stop := ctx, context.CancelFunc(func() {})
	if f.duration > 0 {
		run, stop = context.WithTimeout(ctx, f.duration)
	}
	defer stop()
	p := newProgress(cmd.ErrOrStderr())
	if !f.trace { // a trace shows progress itself
		c.Progress = func(s sim.Summary) { p.show(s.Elapsed, f.howFar(c, &s)) }
	}
	sum, err := c.Run(run)
	p.end()
	if err != nil {
		return &usageError{err}
	}
	if sum.Failed == nil && ctx.Err() != nil {
		err = ctx.Err() // interrupted: print the partial result
	}
	var small *sim.Smallest
	if sum.Failed != nil && f.minimize {
		// A failure to print progress does not stop the search.
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "seed %d fails: searching for the smallest run that fails\n", sum.Failed.Seed)
		small = sim.Minimize(ctx, sim.Config{Seed: sum.Failed.Seed, Ops: f.ops, Profile: f.profile, Skip: c.Skip}, sum.Failed)
	}
	out := cmd.OutOrStdout()
	if f.asJSON {
		err = errors.Join(err, f.printJSON(out, &sum, small))
	} else {
		err = errors.Join(err, f.print(out, &sum, small))
	}
	if sum.Failed != nil {
		return errors.Join(err, fmt.Errorf("seed %d, profile %s, ops %d: %w", sum.Failed.Seed, f.profile, f.ops, sum.Failed.Violation))
	}
	return err
}

// campaign returns the campaign that the flags describe.
func (f *simFlags) campaign(cmd *cobra.Command) (*sim.Campaign, error) {
	c := &sim.Campaign{
		Config: sim.Config{Ops: f.ops, Profile: f.profile}, First: 1, Last: 100, Packets: f.packets, Workers: f.jobs,
	}
	switch {
	case f.ops <= 0:
		return nil, usagef("--ops %d: want 1 or more", f.ops)
	case f.jobs <= 0:
		return nil, usagef("--jobs %d: want 1 or more", f.jobs)
	case f.duration < 0:
		return nil, usagef("--for %v: want more than 0", f.duration)
	case f.trace && !cmd.Flags().Changed("seed"):
		return nil, usagef("--trace shows one run: choose it with --seed")
	case cmd.Flags().Changed("only") && !cmd.Flags().Changed("seed"):
		return nil, usagef("--only applies to one run: choose it with --seed")
	case cmd.Flags().Changed("seed") && f.seed == 0:
		return nil, usagef("--seed 0: seeds begin with 1")
	case cmd.Flags().Changed("seed"):
		c.First, c.Last = f.seed, f.seed
		c.Skip = f.skip()
	case f.seeds != "":
		var err error
		if c.First, c.Last, err = parseSeeds(f.seeds); err != nil {
			return nil, &usageError{err}
		}
	case f.packets > 0 || f.duration > 0:
		c.Last = 0
	}
	if f.trace {
		c.Trace, c.Workers = cmd.OutOrStdout(), 1
		if f.asJSON {
			c.Trace = cmd.ErrOrStderr()
		}
	}
	return c, nil
}

// howFar describes the progress of a campaign in seeds, packets and time.
func (f *simFlags) howFar(c *sim.Campaign, s *sim.Summary) string {
	runs := text.Count(s.Runs, "run", "runs")
	var far string
	switch {
	case c.Last != 0:
		all := c.Last - c.First + 1
		runs = fmt.Sprintf("%d of %s", s.Runs, text.Count(all, "run", "runs"))
		far = howFar(s.Elapsed, uint64(s.Runs), all)
	case c.Packets != 0:
		far = howFar(s.Elapsed, min(s.Packets, c.Packets), c.Packets)
	case f.duration > 0:
		far = fmt.Sprintf("%v of %v, %v left", s.Elapsed.Round(time.Second), f.duration, max(f.duration-s.Elapsed, 0).Round(time.Second))
	default:
		far = s.Elapsed.Round(time.Second).String()
	}
	return fmt.Sprintf("%s, %s, %.1f M packets, %.0f packets/s/core", far, runs, float64(s.Packets)/1e6, s.PerCore())
}

// skip returns the actions that --only leaves out.
func (f *simFlags) skip() map[int]bool {
	if len(f.only) == 0 {
		return nil
	}
	skip := make(map[int]bool)
	for i := range f.ops {
		skip[i] = !slices.Contains(f.only, i)
	}
	return skip
}

// parseSeeds reads "A..B", "A.." or "A".
func parseSeeds(s string) (first, last uint64, err error) {
	a, b, isRange := strings.Cut(s, "..")
	if first, err = strconv.ParseUint(a, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("--seeds %q: want A..B, such as 1..1000", s)
	}
	switch {
	case first == 0:
		return 0, 0, fmt.Errorf("--seeds %q: seeds begin with 1", s)
	case !isRange:
		return first, first, nil
	case b == "":
		return first, 0, nil
	}
	if last, err = strconv.ParseUint(b, 10, 64); err != nil || last < first || last == 0 {
		return 0, 0, fmt.Errorf("--seeds %q: want A..B, such as 1..1000, with B not below A", s)
	}
	return first, last, nil
}

// print writes the result as text.
func (f *simFlags) print(w io.Writer, s *sim.Summary, small *sim.Smallest) error {
	var b strings.Builder
	if s.Failed != nil {
		f.printFailure(&b, s.Failed, small)
	}
	what := "clean"
	if s.Failed != nil {
		what = "FAILED"
	}
	fmt.Fprintf(&b, "%s: %s (profile %s, %d ops, seeds up to %d), %d packets, %d work requests, %d completions, %v of virtual time\n",
		what, text.Count(s.Runs, "run", "runs"), f.profile, f.ops, s.NextSeed-1, s.Packets, s.Posted, s.Completions, s.Virtual.Round(time.Millisecond))
	fmt.Fprintf(&b, "took %v: %.0f packets/s/core\n", s.Elapsed.Round(time.Millisecond), s.PerCore())
	fmt.Fprintf(&b, "situations, and how often each occurred:\n")
	for i, name := range sim.MarkNames(f.profile) {
		if s.Marks[i] > 0 {
			fmt.Fprintf(&b, "  %-28s %12d\n", name, s.Marks[i])
		}
	}
	printReached(&b, "situations", sim.MarkNames(f.profile), s.Marks)
	printReached(&b, "cells of the connection manager's state table", sim.CellNames(f.profile), s.Cells)
	_, err := io.WriteString(w, b.String())
	return err
}

// printReached writes how many of the named things were reached, and the names of the
// others.
func printReached(b *strings.Builder, things string, names []string, counts sim.Marks) {
	if len(names) == 0 {
		return
	}
	var never []string
	for i, name := range names {
		if counts[i] == 0 {
			never = append(never, name)
		}
	}
	fmt.Fprintf(b, "%d of %d %s", len(names)-len(never), len(names), things)
	if len(never) > 0 {
		fmt.Fprintf(b, "; never: %s", strings.Join(never, ", "))
	}
	fmt.Fprintln(b)
}

// printFailure writes the failed run, or the smallest run that fails like it.
func (f *simFlags) printFailure(b *strings.Builder, r *sim.Result, small *sim.Smallest) {
	fmt.Fprintf(b, "seed %d (profile %s: %s) fails\n  %v\n", r.Seed, r.Profile, r.Faults, r.Violation)
	again := fmt.Sprintf("softhca sim --seed %d --profile %s --ops %d --trace", r.Seed, f.profile, f.ops)
	if small != nil {
		r = small.Result
		kept := small.Config.Kept()
		fmt.Fprintf(b, "the smallest run that fails like this has %d of %d actions (found in %d runs):\n  %v\n", len(kept), f.ops, small.Runs, r.Violation)
		again = fmt.Sprintf("softhca sim --seed %d --profile %s --ops %d --only %s --trace", r.Seed, f.profile, r.Ops, numbers(kept))
	}
	fmt.Fprintf(b, "its end:\n")
	for _, line := range r.Ladder {
		fmt.Fprintf(b, "  %s\n", line)
	}
	fmt.Fprintf(b, "see all of it: %s\n\n", again)
}

// numbers returns the value of --only. For a run without any action it is the number
// of an action that does not exist.
func numbers(list []int) string {
	if len(list) == 0 {
		return "-1"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")
}

// printJSON writes the result as JSON.
func (f *simFlags) printJSON(w io.Writer, s *sim.Summary, small *sim.Smallest) error {
	byName := func(names []string, counts sim.Marks) map[string]uint64 {
		m := make(map[string]uint64)
		for i, name := range names {
			m[name] = counts[i]
		}
		return m
	}
	v := simResult{
		s, f.profile, f.ops, s.PerCore(), byName(sim.MarkNames(f.profile), s.Marks), byName(sim.CellNames(f.profile), s.Cells), nil,
	}
	if r := s.Failed; r != nil {
		v.Failure = &simFailure{Seed: r.Seed, Check: r.Violation.Check, Detail: r.Violation.Detail, Ladder: r.Ladder}
		if small != nil {
			v.Failure.Actions, v.Failure.Ladder = small.Config.Kept(), small.Result.Ladder
		}
	}
	return json.NewEncoder(w).Encode(v)
}

// simResult is the result of simulations as JSON.
type simResult struct {
	*sim.Summary
	Profile string            `json:"profile"`                     // the kinds of faults in the runs
	Ops     int               `json:"ops"`                         // actions of the programs in a run
	PerCore float64           `json:"packets_per_second_per_core"` // of real time
	Marks   map[string]uint64 `json:"marks"`                       // counts of the situations that occurred
	Cells   map[string]uint64 `json:"cells,omitempty"`             // cells of the connection manager's state table, and how often they were reached
	Failure *simFailure       `json:"failure,omitempty"`           // the run that failed
}

// simFailure is a failed run as JSON.
type simFailure struct {
	Seed    uint64   `json:"seed"`                       // of the run
	Check   string   `json:"check"`                      // the violated check
	Detail  string   `json:"detail"`                     // how it was violated
	Actions []int    `json:"smallest_actions,omitempty"` // their numbers, for --only
	Ladder  []string `json:"ladder"`                     // the last packets
}

// measure prints the throughput with and without loss.
func (f *simFlags) measure(cmd *cobra.Command) error {
	if !(f.lossRatio > 0 && f.lossRatio < 1) {
		return usagef("--loss-ratio %v: want a share of packets between 0 and 1, such as 0.01", f.lossRatio)
	}
	if err := refuseGiven(cmd, "--loss-ratio measures one run of its own", "ops", "profile", "trace", "minimize", "packets", "for", "only", "jobs"); err != nil {
		return err
	}
	r, err := sim.MeasureLoss(f.lossRatio)
	if err != nil {
		return err
	}
	return printResult(cmd.OutOrStdout(), f.asJSON, r)
}
