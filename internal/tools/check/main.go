package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
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
		// A directory that an interrupted gate leaves behind does no harm.
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

// step is one part of the gate. Its run returns the output to show when it
// fails.
type step struct {
	name string
	lane int // 0: it runs alone; steps of other lanes that follow each other run side by side
	run  func(ctx context.Context) (output string, err error)
}

// optional is the lane of the steps that are no part of the gate: they run only by name.
const optional = -1

// skipped is the error of a step that cannot run on this machine: why.
type skipped string

func (s skipped) Error() string { return string(s) }

// choose returns the steps whose names are in the list, or the gate if it is empty.
func choose(steps []step, list string) ([]step, error) {
	if list == "" {
		return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.lane == optional }), nil
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

// heartbeat is how often a running step says that it still runs.
const heartbeat = 30 * time.Second

// runAll runs the steps in order until one fails: those of a lane one after the other, the
// lanes side by side.
func runAll(ctx context.Context, w io.Writer, steps []step) error {
	g := &gate{w: w, begin: time.Now(), steps: steps}
	for i := 0; i < len(steps); {
		end := i + 1
		for ; steps[i].lane > 0 && end < len(steps) && steps[end].lane > 0; end++ {
		}
		lanes := map[int][]int{} // indices of the steps of each
		for ; i < end; i++ {
			lanes[steps[i].lane] = append(lanes[steps[i].lane], i)
		}
		all, passing := errgroup.WithContext(ctx)
		for _, lane := range slices.Sorted(maps.Keys(lanes)) {
			all.Go(func() error { return g.lane(ctx, passing, lanes[lane]) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	if g.skipped > 0 {
		g.print("%d of %d steps passed in %v, %d SKIPPED", len(steps)-g.skipped, len(steps), since(g.begin), g.skipped)
		return nil
	}
	g.print("all %d steps passed in %v", len(steps), since(g.begin))
	return nil
}

// gate is a run of steps.
type gate struct {
	begin time.Time
	steps []step

	mu      sync.Mutex // serializes the output, and guards skipped
	w       io.Writer
	skipped int // steps
}

func (g *gate) print(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintf(g.w, format+"\n", args...) // a closed output must not fail the gate
}

// lane runs the steps with these indices until one fails. It begins none when passing
// ends, because a step of another lane failed; a step that runs then may end, because
// killing the go command would leave the tests that it runs.
func (g *gate) lane(ctx, passing context.Context, indices []int) error {
	for n, i := range indices {
		if n > 0 && passing.Err() != nil {
			return nil
		}
		if err := g.run(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// run runs a step and prints its outcome.
func (g *gate) run(ctx context.Context, i int) error {
	s := &g.steps[i]
	title := fmt.Sprintf("[%*d/%d] %s", len(strconv.Itoa(len(g.steps))), i+1, len(g.steps), s.name)
	g.print("%s", title)
	start := time.Now()
	output, err := s.watched(ctx, func() {
		g.print("%s: running for %v, %v in all", title, since(start), since(g.begin))
	})
	var reason skipped
	if errors.As(err, &reason) && ctx.Err() == nil {
		g.print("%s: SKIPPED, %v", title, reason)
		g.mu.Lock()
		g.skipped++
		g.mu.Unlock()
		return nil
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		g.print("%s: FAILED after %v\n%s", title, since(start), output)
		return fmt.Errorf("%s: %w", s.name, err)
	}
	g.print("%s: ok, %v", title, since(start))
	return nil
}

// since returns the time since t, rounded for output.
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
