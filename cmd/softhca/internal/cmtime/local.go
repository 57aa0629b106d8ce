package cmtime

import (
	"context"
	"errors"
	"fmt"

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

// Run measures the phases, the cycles if there are to be any, and as many
// messages without RDMA.
func (l Local) Run(ctx context.Context) (sum Summary, err error) {
	if err := l.Check(); err != nil {
		return sum, err
	}
	server, err := l.ServerOpener.Server(ctx, l.Host, l.Port)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := l.Opener.Client(ctx, l.Bind, l.Host, l.Port)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	srv, err := newServer(server, l.Out, max(l.Connections, l.Window))
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

// both runs the client beside the server: in one thread, or with Events in two.
func (l Local) both(ctx context.Context, client *adapter.Adapter, srv *server) (sum Summary, err error) {
	if !l.Events {
		sum, err = l.measure(ctx, client, srv, duet{srv})
		return sum, errors.Join(err, srv.bad)
	}
	ctx, end := context.WithCancelCause(ctx)
	served := make(chan error, 1)
	go func() {
		err := srv.run(ctx)
		end(err) // a client without a server would wait for long
		served <- err
	}()
	sum, err = l.measure(ctx, client, srv, sleeper{})
	end(errOver)
	if e := <-served; !errors.Is(e, errOver) {
		err = errors.Join(err, e)
	}
	return sum, errors.Join(err, srv.bad)
}

// leastExchanges makes the measurement of plain messages last long enough.
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
