package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "run only these steps, separated by commas")
	list := flag.Bool("list", false, "print the names of the steps")
	fuzz := flag.Duration("fuzztime", 5*time.Second, "time for each fuzz target")
	results := flag.String("results", "", "file for the results of the tests (default one in a temporary directory)")
	flag.Parse()
	if *results == "" {
		dir, err := os.MkdirTemp("", "softhca-check-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "check:", err)
			os.Exit(1)
		}
		// What is left of it if the gate is interrupted does no harm.
		defer func() { _ = os.RemoveAll(dir) }()
		*results = filepath.Join(dir, "tests.json")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	steps := allSteps(*fuzz, *results)
	if *list {
		for _, s := range steps {
			fmt.Println(s.name)
		}
		return
	}
	steps, err := choose(steps, *only)
	if err == nil {
		err = runAll(ctx, os.Stdout, steps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

// step is one part of the gate. Its run returns what the reader needs to see
// when it fails.
type step struct {
	name string
	run  func(ctx context.Context) (output string, err error)
}

// choose returns the steps whose names are in the list; all for an empty one.
func choose(steps []step, list string) ([]step, error) {
	if list == "" {
		return steps, nil
	}
	var chosen []step
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no step is called %q", name)
		}
		chosen = append(chosen, steps[i])
	}
	return chosen, nil
}

// runAll runs the steps in order until one fails.
func runAll(ctx context.Context, w io.Writer, steps []step) error {
	begin := time.Now()
	for _, s := range steps {
		fmt.Fprintf(w, "%-20s ", s.name)
		start := time.Now()
		output, err := s.run(ctx)
		took := time.Since(start).Round(100 * time.Millisecond)
		if err = errors.Join(err, ctx.Err()); err != nil {
			fmt.Fprintf(w, "FAILED  %v\n%s\n", took, output)
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(w, "ok      %v\n", took)
	}
	fmt.Fprintf(w, "all %d steps passed in %v\n", len(steps), time.Since(begin).Round(time.Second))
	return nil
}
