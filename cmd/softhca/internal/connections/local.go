package connections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
)

// Local measures within one process: its Side is the client, and Host the
// server's address.
type Local struct {
	Side
	ServerOpener adapter.Opener
}

// errOver ends the server when the client is done.
var errOver = errors.New("the measurement is over")

// Run measures the phases, the cycles if Cycles is not 0, and messages without RDMA for
// comparison.
func (l Local) Run(ctx context.Context) (sum Summary, err error) {
	if err := l.Check(); err != nil {
		return sum, err
	}
	server, err := l.ServerOpener.Server(l.Port)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := l.Opener.Client(ctx, l.Host, l.Port)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	srv, err := newServer(server, l.Err, max(l.Connections, l.Window))
	if err != nil {
		return sum, err
	}
	if sum, err = l.both(ctx, client, srv); err != nil {
		return sum, err
	}
	if srv.got != l.Cycles {
		return sum, fmt.Errorf("%d of %d messages arrived", srv.got, l.Cycles)
	}
	a, b := client.Device.QueryGID(0).Addr(), server.Device.QueryGID(0).Addr()
	plain := exchange{asker: a, answerer: b, n: max(l.Cycles, leastExchanges), window: l.Window}
	raw, err := plain.run(ctx, l.Events)
	if err != nil {
		return sum, err
	}
	sum.compare(raw)
	return sum, nil
}

// both runs the client and the server: in one thread, or with Events in two.
func (l Local) both(ctx context.Context, client *adapter.Adapter, srv *server) (sum Summary, err error) {
	if !l.Events {
		sum, err = l.measure(ctx, client, srv, oneThread{srv})
		return sum, errors.Join(err, srv.bad)
	}
	ctx, end := context.WithCancelCause(ctx)
	served := make(chan error, 1)
	go func() {
		err := srv.run(ctx)
		end(err) // without a server the client would wait long
		served <- err
	}()
	sum, err = l.measure(ctx, client, srv, sleeper{})
	end(errOver)
	if e := <-served; !errors.Is(e, errOver) {
		err = errors.Join(err, e)
	}
	return sum, errors.Join(err, srv.bad)
}

// leastExchanges is the minimum number of exchanges of plain messages for a measurement
// that lasts long enough.
const leastExchanges = 20000

// measure runs the client.
func (l Local) measure(ctx context.Context, client *adapter.Adapter, srv *server, w waiter) (sum Summary, err error) {
	if sum, err = l.phases(ctx, client, w); err != nil || l.Cycles == 0 {
		return sum, err
	}
	r := &rerun{waiter: w, o: &l.Options, client: client, server: srv, err: l.Err}
	err = r.run(ctx, &sum)
	return sum, err
}

// rerun runs the cycles in parts, and compares the objects that each part leaves.
type rerun struct {
	waiter
	o       *Options
	client  *adapter.Adapter
	server  *server
	err     io.Writer // progress
	times   timings
	elapsed time.Duration
}

// run adds its results to the summary. It returns an error for leaks.
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
		return errors.New("the cycles left resources behind")
	}
	return nil
}

// part takes n connections through their lives, and then returns the counts.
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

// tell prints the progress.
func (r *rerun) tell(over, n int) {
	_, _ = fmt.Fprintf(r.err, "%d of %d cycles\n", over, n) // a write error does not matter
}
