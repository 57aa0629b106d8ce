package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/explore"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/wording"
)

// exploreFlags are the flags of explore.
type exploreFlags struct {
	only   []string
	all    bool
	list   bool
	replay string
	budget time.Duration
	limit  time.Duration
	jobs   int
	fast   bool
	oracle string
	reportFlags
}

// exploreLong is the help of explore.
const exploreLong = `explore runs an unmodified RDMA program, or a script that starts several, as softhca run does. The first run records
what the processes do that can fail. Then explore runs the program again for each fault, with one thing going wrong in one process:

  call     a call of a verb or of rdma_cm returns an error, such as ENOMEM from ibv_reg_mr
  wc       a work request completes with an error, such as RETRY_EXC_ERR or REM_ACCESS_ERR
  cm       a message of the connection manager is lost, once or from then on, repeated or late, or a request is rejected
  packet   another packet is lost, once or from then on, repeated or late
  rnr      a request finds no receive
  event    an asynchronous event is raised, such as QP_FATAL or DEVICE_FATAL
  process  a process is killed, or stopped for 5 s, when it sends or receives a packet

It tries each of these at the first, the last and the middle call, request or packet of its kind in its process; --all tries every one.
A process is named by its program, a dot and a number: server.1, client.1, client.2.

The verdict of a run is

  crashed    a signal or a sanitizer ended a process
  hung       the program did not end in its time, and its processes were killed
  lost       the program ended well, and never polled an error completion, or the oracle said no
  broke      the program broke a rule of the verbs that it did not break in the first run, as softhca run --check finds them
  reported   the program ended with an error
  absorbed   the program ended well
  unreached  the fault did not happen, as the run differed from the first one

A run may take ten times as long as the first one, at least 5 s, and longer than the timers of its queue pairs and connections; --limit sets
another time. In most runs, these timers are 50 times shorter after the first of a connection has expired. The first four verdicts are findings. For each, explore prints a command that shows it again.

The program gets no standard input, must end by itself, and must end well without a fault. It runs many times in a row, so it must clean up
files that it leaves. explore kills all processes that a run leaves behind. A run under a fault takes the time of the program and about 0.1 s;
--time limits them all, and Ctrl-C ends them: the report has the faults that were tried.

With --jobs, there are several runs at the same time. Each has a network of its own with only a loopback interface, so their TCP ports do not collide. Files may:
SOFTHCA_JOB in the environment has a different number in each. This needs namespaces: root, or a system that allows them to users.

A script must pass the exit codes of its programs on. The first run may take ten minutes.

--oracle CMD runs CMD by sh -c after each run that ended well: its exit code says whether the result is right. It must be 0 after the first run.
With another exit code the verdict is lost.

Of a run that hung, the report has the stacks of all threads, and the goroutines of programs in Go. --json writes the report for machines, --junit
for continuous integration, --html as a page for a browser. --resume FILE takes the results of a report of --json, whose exploration was ended,
and tries only the other faults. --baseline FILE compares the findings with those of a report of --json.

Exit codes:
  0    no finding, also if --time ended the exploration; with --baseline, no finding that is new or worse
  1    findings, or the program does not end well in the first run
  2    the command line is wrong
  130  after Ctrl-C`

const exploreExample = `  softhca explore -- ./my_test.sh                        all faults
  softhca explore --list -- ./my_test.sh                 only list them
  softhca explore --only wc,cm --time 10m -- ./my_test.sh
  softhca explore --jobs 4 -- ./my_test.sh               four runs at the same time
  softhca explore --fail-fast -- ./my_test.sh            end at the first finding
  softhca explore --json report.json -- sh -c './server & s=$!; ./client 127.0.0.1 && wait $s'
  softhca explore --resume report.json --json report.json -- ./my_test.sh
  softhca explore --baseline old.json --junit report.xml --html report.html -- ./my_test.sh
  softhca explore --oracle 'cmp sent received' -- ./my_test.sh
  softhca explore --replay 'wc RETRY_EXC_ERR nth=1 op=SEND process=client.1' -- ./my_test.sh`

func newExploreCommand() *cobra.Command {
	f := &exploreFlags{}
	cmd := &cobra.Command{
		Use:     "explore [flags] [--] PROGRAM [ARGUMENT...]",
		Short:   "Run a program again for each thing that can go wrong, and judge how it ends",
		Long:    exploreLong,
		Example: exploreExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s needs a program to run", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return named(cmd, f.do(cmd, args)) },
	}
	s := cmd.Flags()
	s.StringSliceVar(&f.only, "only", nil, "only faults of these `kinds`: "+wording.Or(explore.Kinds()))
	s.BoolVar(&f.all, "all", false, "try every call, request and packet, not only the first, the middle and the last of its kind in its process")
	s.BoolVar(&f.list, "list", false, "only list the faults, after the first run")
	s.StringVar(&f.replay, "replay", "", "run the program under this `fault` only, with its output")
	f.reportFlags.register(s)
	s.StringVar(&f.oracle, "oracle", "", "run this `command` of the shell after each run that ended well; it fails if the result is wrong")
	s.DurationVar(&f.budget, "time", 0, "begin no run after this time; 0: no limit")
	s.IntVar(&f.jobs, "jobs", 1, "runs at the same time, each in a network of its own")
	s.BoolVar(&f.fast, "fail-fast", false, "end at the first finding")
	s.DurationVar(&f.limit, "limit", 0, "how long a run may take; 0: ten times the first run, and at least 5 s")
	s.SetInterspersed(false) // words after the program's name are its arguments
	for _, name := range []string{"list", "json", "only", "all", "time", "junit", "html", "resume", "baseline", "jobs", "fail-fast"} {
		cmd.MarkFlagsMutuallyExclusive("replay", name)
	}
	for _, name := range []string{"time", "junit", "html", "resume", "baseline"} {
		cmd.MarkFlagsMutuallyExclusive("list", name)
	}
	return cmd
}

// newExploreJobCommand returns the command that explore executes for each of several runs at the same time.
func newExploreJobCommand() *cobra.Command {
	return &cobra.Command{
		Use: explore.JobCommand, Hidden: true, Args: cobra.NoArgs, Short: "Run a program for explore",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if environ.Privileged() {
				return errRunPrivileged
			}
			return named(cmd, explore.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
}

// check checks the flags, and returns the rule of --replay, if there is one.
func (f *exploreFlags) check() (*fault.Rule, error) {
	for _, k := range f.only {
		if !slices.Contains(explore.Kinds(), k) {
			return nil, usagef("--only: %q: %s", k, text.Want(k, explore.Kinds()))
		}
	}
	if f.junit == "-" || f.html == "-" {
		return nil, usagef("--junit and --html need the name of a file, not -")
	}
	if f.jobs < 1 || f.jobs > explore.MaxJobs {
		return nil, usagef("--jobs: want a number from 1 to %d", explore.MaxJobs)
	}
	if f.replay == "" {
		return nil, nil
	}
	rules, err := fault.Parse(f.replay)
	switch {
	case err != nil:
		return nil, usagef("--replay: %w", err)
	case len(rules) != 1:
		return nil, usagef("--replay: want one fault, such as 'fail errno=ENOMEM nth=1 op=RegMR process=client.1'")
	}
	return &rules[0], nil
}

func (f *exploreFlags) do(cmd *cobra.Command, args []string) error {
	if environ.Privileged() {
		return errRunPrivileged
	}
	rule, err := f.check()
	if err != nil {
		return err
	}
	earlier, err := f.read(args)
	if err != nil {
		return err
	}
	command, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this command: %w", err)
	}
	p := &explore.Program{Softhca: command, Args: args, Env: os.Environ(), Oracle: f.oracle, Jobs: f.jobs}
	first, err := p.Record(cmd.Context())
	if err != nil {
		return err
	}
	o := explore.Options{Selection: explore.Selection{Kinds: f.only, All: f.all}, Budget: f.budget, Limit: f.limit, Earlier: earlier.resumed, FailFast: f.fast}
	switch {
	case rule != nil:
		return f.again(cmd, p, first, rule, o)
	case f.list:
		return f.print(cmd.OutOrStdout(), first, o)
	}
	shown, begin := newProgress(cmd.ErrOrStderr()), time.Now()
	o.Progress = func(r *explore.Report, next *explore.Fault) {
		shown.show(time.Since(begin), fmt.Sprintf("%d of %d faults tried, %d findings; %s", r.Tried, r.Planned, r.Findings(), next))
	}
	report, err := p.Explore(cmd.Context(), first, o)
	shown.end()
	if report == nil {
		return err
	}
	if earlier.baseline != nil {
		report.Compare(earlier.baseline, f.baseline)
	}
	if err := errors.Join(err, f.write(cmd.OutOrStdout(), report)); err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return err // after Ctrl-C
	}
	return verdictOf(report)
}

// writeFaults writes faults as JSON.
func writeFaults(w io.Writer, faults []explore.Fault) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(append([]explore.Fault{}, faults...))
}

// print prints the list of faults.
func (f *exploreFlags) print(out io.Writer, first *explore.Run, o explore.Options) error {
	faults, cut := explore.Plan(first.Processes, o.Selection)
	asJSON := func(w io.Writer) error { return writeFaults(w, faults) }
	switch f.json {
	case "":
	case "-":
		return asJSON(out)
	default:
		return toFile(f.json, asJSON)
	}
	b := bufio.NewWriter(out)
	if cut > 0 {
		fmt.Fprintf(b, "# without %d more, beyond the bound of a plan\n", cut)
	}
	for i := range faults {
		fmt.Fprintf(b, "%s\n", faults[i].Rule)
	}
	return b.Flush()
}

// again runs the program under the fault of --replay.
func (f *exploreFlags) again(cmd *cobra.Command, p *explore.Program, first *explore.Run, rule *fault.Rule, o explore.Options) error {
	out := cmd.OutOrStdout()
	r, err := p.Again(cmd.Context(), first, explore.FaultOf(rule), o, out)
	if err != nil {
		return err
	}
	why := ""
	if r.Why != "" {
		why = ": " + r.Why
	}
	_, err = fmt.Fprintf(out, "%s%s\n  %s\n", r.Verdict, why, r.Verdict.Text())
	for i := range r.Stacks {
		r.Stacks[i].Text(out, "  ")
	}
	if err == nil && r.Verdict.Finding() {
		err = fmt.Errorf("%s: %s", r.Verdict, rule.Explain())
	}
	return err
}
