package cmtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
)

// rerun runs the cycles in parts and compares what each leaves.
type rerun struct {
	waiter
	o       *Options
	client  *adapter.Adapter
	server  *server
	err     io.Writer // progress
	times   timings
	elapsed time.Duration
}

// run adds to the summary. What is left over is an error.
func (r *rerun) run(ctx context.Context, sum *Summary) (err error) {
	var l Leaks
	if l.Before, err = r.count(ctx); err != nil {
		return err
	}
	done := 0
	for i := range parts {
		upTo := r.o.Cycles * (i + 1) / parts
		if l.After[i], err = r.part(ctx, upTo-done); err != nil {
			return fmt.Errorf("after %d cycles: %w", done, err)
		}
		done = upTo
	}
	l.judge(r.o.Cycles / parts)
	sum.Leaks = &l
	sum.Cycles = &Cycles{
		Count: r.o.Cycles, Window: r.o.Window, Seconds: r.elapsed.Seconds(),
		PerSecond: float64(r.o.Cycles) / r.elapsed.Seconds(), Steps: r.times.steps(r.o.Cycles),
	}
	if !l.Clean {
		return errors.New("the cycles left something over")
	}
	return nil
}

// part takes n connections through their lives and returns what there is when
// all of them are over.
func (r *rerun) part(ctx context.Context, n int) (Counts, error) {
	v := newLives(r, n)
	begin := time.Now()
	err := v.Err()
	if err == nil {
		err = v.run(ctx)
	}
	r.elapsed += time.Since(begin)
	if err := errors.Join(err, v.close()); err != nil {
		return Counts{}, err
	}
	return r.count(ctx)
}

// tell says how far it is.
func (r *rerun) tell(over, n int) {
	_, _ = fmt.Fprintf(r.err, "cmtime: %d of %d cycles\n", over, n) // it can do without
}
