package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/fabric/raw"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/judge"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/verbs"
)

// judgeFlags are the flags of judge.
type judgeFlags struct {
	peer, agent string
	run         string
	list        bool
	source      bool
	pages       []string
	topics      string
	json        string
	verbose     bool
	hostile     bool
	quiet, wait time.Duration
	runs        int
}

func newJudgeCommand(g *globals) *cobra.Command {
	f := &judgeFlags{}
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "Test another adapter with the protocol scripts",
		Long: `judge is a conformance test for RoCEv2 adapters. It plays the peer of an adapter, packet by packet, from the protocol
scripts of this project: requests with wrong keys, gaps in the sequence, duplicates, responses that match no request. It compares
the adapter's packets, completions, asynchronous events, states and memory with those that the scripts expect.

Run a small C program, the test agent, on the adapter's host. It makes the verbs calls of the scripts and needs only
libibverbs:

  softhca judge --agent-source > agent.c        compile it there (its first lines say how) and start it

This host needs a route to the adapter and a free UDP port 4791; no RDMA hardware and, with --transport udp, no
privilege. The network must not reorder or lose packets. judge compares the order of events, never their times; a
difference counts only if every run shows it (--runs). If a script, or a part of it, cannot be played to another adapter, judge says
why.

Do not judge a machine that others use: most packets are wrong on purpose, and any of them may crash a peer with a bug.
Packets that end within their headers have crashed peers: judge sends them only with --hostile.

--json writes a report: the description of the adapter, and every difference with its packets, without addresses. If
your adapter is not in the documentation yet, please send us the report.

The exit code is 0 if the adapter agrees with all scripts that were judged, and 1 if it differs from one.`,
		Example: `  softhca judge --list                               list what can be judged
  softhca judge --list --json -                      the same for machines
  softhca judge --agent-source > agent.c             the program for the adapter's host
  softhca judge --peer 10.77.0.2                     judge the adapter with that address
  softhca judge --peer 10.77.0.2 --run e08 -v        some scripts, with the packets of each difference
  softhca judge --peer fd00:77::2 --json report.json --capture judge.pcapng
  softhca judge --page report.json > page.md         reports as a Markdown page`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return named(cmd, f.do(cmd, g)) },
	}
	s := cmd.Flags()
	s.StringVar(&f.peer, "peer", "", "`address` of the adapter, one of its GID table")
	s.StringVar(&f.agent, "agent", "", "`host[:port]` of the test agent; default the peer, port 18516")
	s.StringVar(&f.run, "run", "", "only scripts whose name matches this `regexp`")
	s.BoolVar(&f.list, "list", false, "list the scripts, and which parts can be judged")
	s.BoolVar(&f.source, "agent-source", false, "print the C source of the test agent")
	s.StringSliceVar(&f.pages, "page", nil, "print a Markdown page about the adapters of these `reports`")
	s.StringVar(&f.topics, "topics", "", "with --page: a `file` with remarks on the differences")
	s.StringVar(&f.json, "json", "", "write the report, or the list, to this `file`; - is standard output")
	s.BoolVarP(&f.verbose, "verbose", "v", false, "print each difference with its packets")
	s.BoolVar(&f.hostile, "hostile", false, "also send packets that end within their headers, which can crash the peer's machine")
	s.DurationVar(&f.quiet, "quiet", judge.DefaultQuiet, "time without a packet that counts as silence")
	s.DurationVar(&f.wait, "wait", judge.DefaultWait, "how long to wait for an expected packet or event")
	s.IntVar(&f.runs, "runs", judge.DefaultRuns, "number of runs; a difference counts only if each one shows it")
	cmd.MarkFlagsMutuallyExclusive("peer", "list", "agent-source", "page")
	cmd.MarkFlagsOneRequired("peer", "list", "agent-source", "page")
	return cmd
}

func (f *judgeFlags) do(cmd *cobra.Command, g *globals) error {
	out := cmd.OutOrStdout()
	if f.quiet <= 0 || f.wait <= 0 || f.runs <= 0 {
		return usagef("--quiet, --wait and --runs must be greater than 0")
	}
	if err := f.refuseIgnored(cmd); err != nil {
		return err
	}
	switch {
	case f.source:
		_, err := io.WriteString(out, testagent.Source())
		return err
	case len(f.pages) > 0:
		return f.page(out)
	}
	plans, err := f.plans()
	if err != nil {
		return err
	}
	if f.list && f.json != "" {
		return f.writeJSON(out, func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(plans)
		})
	}
	if f.list {
		for _, p := range plans {
			if _, err := fmt.Fprintf(out, "%-34s %v\n", p.Script, p); err != nil {
				return err
			}
		}
		return nil
	}
	return f.judge(cmd, g, plans)
}

// refuseIgnored refuses options that have no effect in the chosen mode.
func (f *judgeFlags) refuseIgnored(cmd *cobra.Command) error {
	var page, peer, scripts error
	if len(f.pages) == 0 {
		page = refuseGiven(cmd, "it goes with --page", "topics")
	}
	if f.peer == "" {
		peer = refuseGiven(cmd, "it goes with --peer", "agent", "verbose", "quiet", "wait", "runs", "addr", "capture", "transport")
	}
	if f.peer == "" && !f.list {
		scripts = refuseGiven(cmd, "it goes with --peer or --list", "run", "hostile", "json")
	}
	return cmp.Or(page, peer, scripts)
}

// plans reads the scripts that --run chooses.
func (f *judgeFlags) plans() ([]*judge.Plan, error) {
	only, err := regexp.Compile(f.run)
	if err != nil {
		return nil, usagef("--run %q: %w", f.run, err)
	}
	var plans []*judge.Plan
	for _, name := range script.Names() {
		if !only.MatchString(name) {
			continue
		}
		text, err := script.Text(name)
		if err != nil {
			return nil, err
		}
		p, err := judge.MakePlan(name, text, f.hostile)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	if len(plans) == 0 {
		return nil, usagef("--run %q: no script has such a name; see --list", f.run)
	}
	return plans, nil
}

// judge plays the plans.
func (f *judgeFlags) judge(cmd *cobra.Command, g *globals, plans []*judge.Plan) (err error) {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	if f.json == stdoutName {
		out = cmd.ErrOrStderr()
	}
	c := &judge.Config{Quiet: f.quiet, Wait: f.wait, Runs: f.runs}
	if c.Peer, err = oneAddr("peer", f.peer); err != nil {
		return err
	}
	if c.Local, err = localAddr(ctx, g.addr, c.Peer); err != nil {
		return err
	}
	host := f.agent
	if host == "" {
		host = c.Peer.String()
	}
	if c.Agent, err = testagent.Dial(ctx, host, nil); err != nil {
		return err
	}
	defer func() {
		if e := c.Agent.Close(); err == nil { // the first error has the reason of an agent's failure
			err = e
		}
	}()
	var end func() error
	if c.Port, end, err = openJudgePort(g, c.Local); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()

	build := newVersion()
	report := judge.NewReport(c, c.Agent.Device(), time.Now())
	report.Setting.Version, report.Setting.Hostile = cmp.Or(build.Revision, build.Version), f.hostile
	var printed error
	err = c.Judge(ctx, plans, func(r *judge.Result) {
		report.Add(r)
		_, e := fmt.Fprintln(out, r.Line(f.verbose))
		printed = errors.Join(printed, e)
	})
	_, e := fmt.Fprintln(out, report.Summary)
	err = errors.Join(err, printed, e)
	if f.json != "" { // after an error too: the report has the scripts judged before it
		err = errors.Join(err, f.writeJSON(cmd.OutOrStdout(), report.Write))
	}
	if err == nil && report.Summary.Differ > 0 {
		err = fmt.Errorf("%d scripts: %w", report.Summary.Differ, judge.ErrDiffers)
	}
	return err
}

// localAddr returns the given address, or the source address of the route to the peer.
func localAddr(ctx context.Context, given string, peer netip.Addr) (netip.Addr, error) {
	if given != "" {
		return oneAddr("addr", given)
	}
	return adapter.Route(ctx, peer)
}

// openJudgePort opens the port and its capture; end closes both.
func openJudgePort(g *globals, local netip.Addr) (p fabric.Port, end func() error, err error) {
	if g.transport == verbs.Raw.String() {
		p, err = raw.Open(raw.Config{Addrs: []netip.Addr{local}})
	} else {
		p, err = udp.Open(udp.Config{Addrs: []netip.Addr{local}})
	}
	if err != nil || g.capture == "" {
		return p, func() error { return p.Close() }, err
	}
	file, err := os.Create(g.capture)
	if err != nil {
		return nil, nil, errors.Join(captureError("--capture", g.capture, err), p.Close())
	}
	w, err := capture.Wrap(p, file, capture.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, p.Close(), file.Close())
	}
	return w, func() error { return errors.Join(w.Close(), file.Close()) }, nil
}

// stdoutName is the file name for standard output.
const stdoutName = "-"

// writeJSON calls write with the file of --json, or with standard output.
func (f *judgeFlags) writeJSON(stdout io.Writer, write func(io.Writer) error) (err error) {
	if f.json == stdoutName {
		return write(stdout)
	}
	file, err := os.Create(f.json)
	if err != nil {
		return fmt.Errorf("--json %s: %w", f.json, cause(err))
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := bufio.NewWriter(file)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// page prints the page about some reports.
func (f *judgeFlags) page(out io.Writer) error {
	var topics []judge.Topic
	if f.topics != "" {
		file, err := os.Open(f.topics)
		if err != nil {
			return fmt.Errorf("--topics %s: %w", f.topics, cause(err))
		}
		defer file.Close()
		if topics, err = judge.ReadTopics(file); err != nil {
			return err
		}
	}
	var reports []*judge.Report
	for _, name := range f.pages {
		r, err := judge.ReadFile(name)
		if err != nil {
			return fmt.Errorf("--page %s: %w", name, cause(err))
		}
		reports = append(reports, r)
	}
	return judge.WritePage(out, reports, topics)
}
