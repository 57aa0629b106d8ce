package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// options is what the command line chooses.
type options struct {
	rounds    int
	seconds   float64
	only      string
	noTargets bool
	results   string
	before    string
	path      float64
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 9, "how often each side is measured, in turns")
	flag.Float64Var(&o.seconds, "seconds", 1, "length of each measurement")
	flag.StringVar(&o.only, "only", "", "measure only what has this in its name")
	flag.BoolVar(&o.noTargets, "no-targets", false, "only measure: a missed target is no failure")
	flag.StringVar(&o.results, "results", "bench/results", "directory for the results; empty for none")
	flag.StringVar(&o.before, "before", "", "another softhca `program`, of an older commit, to be measured in the same rounds")
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

// do does what the command line says.
func do(ctx context.Context, o options, args []string) error {
	switch {
	case o.path >= 0:
		return runPath(ctx, o.path, args)
	case len(args) > 0:
		return fmt.Errorf("%q is no flag: -only chooses by name, -help shows all", args[0])
	}
	return run(ctx, o)
}

// run measures, prints and keeps the results.
func run(ctx context.Context, o options) (err error) {
	if o.rounds < 1 || o.seconds <= 0 {
		return fmt.Errorf("%d rounds of %g s measure nothing", o.rounds, o.seconds)
	}
	dir, err := os.MkdirTemp("", "softhca-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := build(ctx, dir)
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
		name, err := r.write(o.results, time.Now())
		if err != nil {
			return err
		}
		fmt.Println("written to", name)
	}
	if missed := r.missed(); len(missed) > 0 && !o.noTargets {
		return fmt.Errorf("missed: %s", strings.Join(missed, "; "))
	}
	return nil
}

// compare measures everything that the options choose.
func (p *programs) compare(ctx context.Context, o options) (*report, error) {
	r := &report{
		Date: time.Now().Format(time.DateOnly), Machine: thisMachine(), Rounds: o.rounds, Seconds: o.seconds,
		Command: strings.Join(append([]string{"go run ./bench"}, os.Args[1:]...), " "),
	}
	if o.before != "" {
		var err error
		if r.Before, err = revision(o.before); err != nil {
			return nil, fmt.Errorf("-before: %w", err)
		}
		r.Command = strings.ReplaceAll(r.Command, o.before, filepath.Base(o.before)) // who reads it has another disk
	}
	for _, m := range measurements {
		if !strings.Contains(m.name, o.only) {
			continue
		}
		x, err := p.rounds(ctx, &m, o.rounds)
		if err != nil {
			return nil, err
		}
		x.judge(m.target)
		r.Results = append(r.Results, *x)
		fmt.Fprintf(os.Stderr, "%s: %s, ratio %s%s\n", x.Name, x.Softhca.in(x.Unit), x.Ratio.in(""), x.change())
	}
	if len(r.Results) == 0 {
		return nil, fmt.Errorf("nothing has %q in its name", o.only)
	}
	return r, nil
}

// rounds measures both sides in turns.
func (p *programs) rounds(ctx context.Context, m *measurement, n int) (*result, error) {
	var base, own series
	x := &result{
		Name: m.name, Unit: m.beside.unit,
		BaselineRun: "baseline " + strings.Join(p.baselineArgs(&m.beside), " "),
		SofthcaRun:  "softhca " + strings.Join(p.softhcaArgs(m), " "),
	}
	older := make(series, 0, n)
	for i := range n {
		b, err := p.measureBaseline(ctx, &m.beside)
		if err != nil {
			return nil, err
		}
		base = append(base, b)
		for k := range 2 {
			if k == i%2 { // now the one is first, now the other
				v, again, err := p.measure(ctx, p.softhca, m)
				if err != nil {
					return nil, err
				}
				own = append(own, v)
				x.Retransmits += again
			} else if p.before != "" && m.of != nil { // asleep, older ones took milliseconds
				v, _, err := p.measure(ctx, p.before, m)
				if err != nil {
					return nil, err
				}
				older = append(older, v)
			}
		}
	}
	x.Baseline, x.Softhca, x.Ratio = base.spread(), own.spread(), own.over(base).spread()
	if len(older) > 0 {
		before, change := older.spread(), own.over(older).spread()
		x.Before, x.Change = &before, &change
	}
	return x, nil
}
