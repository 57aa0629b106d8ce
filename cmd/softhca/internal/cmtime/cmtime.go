package cmtime

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
)

// Side is a client or a server.
type Side struct {
	Options
	Opener adapter.Opener
	Out    io.Writer // the lines of the program
	Err    io.Writer // everything else
}

// Server serves clients until ctx ends, which is no error.
func (s Side) Server(ctx context.Context) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	st, err := s.Opener.Server(ctx, s.Bind, s.Port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	srv, err := newServer(st, s.Out, 0)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.Err, "cmtime: %s\n", st.Listening()) // it can do without
	if err := srv.run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// Client measures against a server. The summary is of what there was also when
// connections failed.
func (s Side) Client(ctx context.Context) (sum Summary, err error) {
	if err := s.Check(); err != nil {
		return sum, err
	}
	st, err := s.Opener.Client(ctx, s.Bind, s.Host, s.Port)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return s.phases(ctx, st, sleeper{})
}

// phases takes all connections through the phases.
func (s Side) phases(ctx context.Context, st *adapter.Adapter, w waiter) (sum Summary, err error) {
	c := newClient(&s, st, w)
	if err = c.Err(); err == nil {
		err = c.run(ctx)
	}
	sum = c.summary()
	return sum, errors.Join(err, c.close())
}
