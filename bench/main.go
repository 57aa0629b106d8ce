package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// options are the choices of the command line.
type options struct {
	rounds    int
	seconds   float64
	only      string
	noTargets bool
	results   string
	before    string
	list      bool
	libraries bool
	epoll     bool
	tables    bool
	check     bool
	page      string
	path      float64
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 9, "how often each side is measured, in turns")
	flag.Float64Var(&o.seconds, "seconds", 1, "length of each measurement")
	flag.StringVar(&o.only, "only", "", "measure only the cases whose name contains this")
	flag.BoolVar(&o.noTargets, "no-targets", false, "only measure: a missed target is no failure")
	flag.StringVar(&o.results, "results", "bench/results", "directory for the results; empty for none")
	flag.StringVar(&o.before, "before", "", "another softhca `program`, of an older commit, to be measured in the same rounds")
	flag.BoolVar(&o.libraries, "libraries", false, "measure Debian's programs over the libraries for programs in C instead")
	flag.BoolVar(&o.epoll, "epoll", false, "measure a server and a client that sleep in epoll_wait instead, on these libraries and over TCP")
	flag.BoolVar(&o.tables, "tables", false, "compare softhca with itself without tables of objects instead, and with readers of its tables")
	flag.BoolVar(&o.check, "check", false, "compare Debian's programs under softhca run --check with themselves without it instead")
	flag.StringVar(&o.page, "page", "", "with -libraries: write the table to this `file` as Markdown too")
	flag.BoolVar(&o.list, "list", false, "only list the cases")
	flag.Float64Var(&o.path, "path", -1, "for this program itself: run a server and a client where this `share` of packets is lost")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := do(ctx, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measurements returns all measurements that the options could choose by name.
func (o *options) measurements() []measurement {
	switch {
	case o.epoll:
		return epollMeasurements()
	case o.libraries:
		return programMeasurements()
	case o.tables:
		return tableMeasurements()
	case o.check:
		return checkedMeasurements()
	default:
		return measurements()
	}
}

// kind names the table in the names of files, "" for the first one.
func (o *options) kind() string {
	switch {
	case o.epoll:
		return "epoll"
	case o.libraries:
		return "programs"
	case o.tables:
		return "tables"
	case o.check:
		return "check"
	default:
		return ""
	}
}

// several reports whether more than one set of measurements is chosen.
func (o *options) several() bool {
	n := 0
	for _, is := range []bool{o.epoll, o.libraries, o.tables, o.check} {
		if is {
			n++
		}
	}
	return n > 1
}

// do carries out the command line.
func do(ctx context.Context, o options, args []string) error {
	switch {
	case o.path >= 0:
		return runPath(ctx, o.path, args)
	case len(args) > 0:
		return fmt.Errorf("%q is no flag: -only chooses by name, -help shows all", args[0])
	case o.list:
		return list(os.Stdout, o.measurements())
	case o.several():
		return errors.New("-epoll, -libraries, -tables and -check are different measurements: choose one")
	case o.page != "" && (!o.libraries || o.only != ""):
		return errors.New("-page is for all of -libraries")
	}
	return run(ctx, o)
}

// run measures, and prints and stores the results.
func run(ctx context.Context, o options) (err error) {
	if o.rounds < 1 || o.seconds <= 0 {
		return fmt.Errorf("%d rounds of %g s measure nothing", o.rounds, o.seconds)
	}
	dir, err := os.MkdirTemp("", "softhca-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := build(ctx, dir, &o)
	if err != nil {
		return err
	}
	p.seconds, p.before = o.seconds, o.before
	r, err := p.compare(ctx, o)
	if err != nil {
		return err
	}
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	if o.results != "" {
		names, err := r.write(o.results, time.Now())
		if err != nil {
			return err
		}
		fmt.Println("written to", strings.Join(names, " and "))
	}
	if o.page != "" {
		if err := os.WriteFile(o.page, []byte(r.markdown()), 0o644); err != nil {
			return err
		}
	}
	if failed := r.failed(); len(failed) > 0 {
		return fmt.Errorf("not measured: %s", strings.Join(failed, "; "))
	}
	if missed := r.missed(); len(missed) > 0 && !o.noTargets {
		return fmt.Errorf("missed: %s", strings.Join(missed, "; "))
	}
	return nil
}

// compare makes all measurements that the options choose.
func (p *programs) compare(ctx context.Context, o options) (*report, error) {
	r := &report{
		Date: time.Now().Format(time.DateOnly), Machine: thisMachine(), Rounds: o.rounds, Seconds: o.seconds,
		Command: strings.Join(append([]string{"go run ./bench"}, os.Args[1:]...), " "), kind: o.kind(),
	}
	if o.before != "" {
		var err error
		if r.Before, err = revision(o.before); err != nil {
			return nil, fmt.Errorf("-before: %w", err)
		}
		r.Command = strings.ReplaceAll(r.Command, o.before, filepath.Base(o.before)) // paths of this machine mean nothing to readers
	}
	for _, m := range o.measurements() {
		if !strings.Contains(m.name, o.only) {
			continue
		}
		x, err := p.rounds(ctx, &m, o.rounds)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			x.Failed = err.Error()
		}
		r.Results = append(r.Results, *x)
		fmt.Fprintln(os.Stderr, x)
	}
	if len(r.Results) == 0 {
		return nil, fmt.Errorf("nothing has %q in its name: -list shows the names", o.only)
	}
	r.Overall = r.sum()
	return r, nil
}

// rounds measures both sides in turns. With an error the result has only a
// name.
func (p *programs) rounds(ctx context.Context, m *measurement, n int) (*result, error) {
	if m.few {
		n = (n + 2) / 3
	}
	x := &result{Name: m.name, Unit: m.unit, Rounds: n, Reference: m.reference.name, group: m.group}
	if x.Skipped = cmp.Or(m.own.missing(), m.reference.missing()); x.Skipped != "" {
		return x, nil
	}
	x.BaselineRun, x.SofthcaRun = p.told(&m.reference, m.loss.share), p.told(&m.own, m.loss.share)
	var base, own, older series
	for i := range n {
		b, _, err := p.measure(ctx, &m.reference, m.loss.share)
		if err != nil {
			return x, err
		}
		base = append(base, b)
		for k := range 2 {
			if k == i%2 { // the two sides take turns in going first
				v, told, err := p.measure(ctx, &m.own, m.loss.share)
				if err != nil {
					return x, err
				}
				own = append(own, v)
				x.Retransmits += told.Retransmits
				x.Timeouts += told.Client.Timeouts
			} else if p.before != "" {
				if v, ok := p.measureBefore(ctx, m); ok {
					older = append(older, v)
				}
			}
		}
	}
	x.Baseline, x.Softhca, x.Ratio = base.spread(), own.spread(), own.over(base).spread()
	if len(older) == n {
		before, change := older.spread(), own.over(older).spread()
		x.Before, x.Change = &before, &change
	}
	x.judge(m.target)
	return x, nil
}

// measureBefore measures the older program, which may not know the arguments.
func (p *programs) measureBefore(ctx context.Context, m *measurement) (float64, bool) {
	old := *p
	old.softhca = p.before
	v, _, err := old.measure(ctx, &m.own, m.loss.share)
	return v, err == nil
}

// list writes the list of measurements.
func list(w io.Writer, all []measurement) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range all {
		// The writer keeps everything until Flush, which returns the error.
		_, _ = fmt.Fprintf(t, "%s\tagainst %s\t%s\n", m.name, m.reference.name, m.target.text)
	}
	return t.Flush()
}
