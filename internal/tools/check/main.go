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
	"strconv"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "run only these steps, separated by commas")
	list := flag.Bool("list", false, "print the names of the steps")
	fuzz := flag.Duration("fuzztime", time.Second, "time for each fuzz target")
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

// heartbeat is how often a step that runs says so.
const heartbeat = 30 * time.Second

// runAll runs the steps in order until one fails.
func runAll(ctx context.Context, w io.Writer, steps []step) error {
	begin := time.Now()
	for i, s := range steps {
		title := fmt.Sprintf("[%*d/%d] %s", len(strconv.Itoa(len(steps))), i+1, len(steps), s.name)
		fmt.Fprintln(w, title)
		start := time.Now()
		output, err := s.watched(ctx, func() {
			fmt.Fprintf(w, "%s: running for %v, %v in all\n", title, since(start), since(begin))
		})
		if err = errors.Join(err, ctx.Err()); err != nil {
			fmt.Fprintf(w, "%s: FAILED after %v\n%s\n", title, since(start), output)
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(w, "%s: ok, %v\n", title, since(start))
	}
	fmt.Fprintf(w, "all %d steps passed in %v\n", len(steps), since(begin))
	return nil
}

// since returns the time since t as people want to read it.
func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }

// watched runs the step and calls beat from time to time until it ends.
func (s *step) watched(ctx context.Context, beat func()) (output string, err error) {
	done := make(chan struct{})
	go func() {
		output, err = s.run(ctx)
		close(done)
	}()
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		select {
		case <-done:
			return output, err
		case <-t.C:
			beat()
		}
	}
}
