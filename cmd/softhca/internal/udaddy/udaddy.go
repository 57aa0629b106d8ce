package udaddy

import (
	"context"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/cmd/softhca/internal/station"
	"github.com/softhca/softhca/ib"
)

const (
	name = "udaddy"
	port = "7174" // udaddy has no option for another
)

// Side is a client or a server.
type Side struct {
	Options
	Opener   station.Opener
	Out, Err io.Writer // the program's lines, and everything else
}

// Client finds a server's queue pairs, sends to them and waits for as many
// datagrams. It returns when they are there, or when ctx ends, or with the
// first error; all is closed then.
func (s Side) Client(ctx context.Context) error {
	open := func() (*station.Station, error) { return s.Opener.Client(ctx, s.Bind, s.Host, port) }
	return s.program("client").Run(ctx, open, func(t *nodes.Test) error {
		c := &client{Test: t, o: &s.Options}
		t.Act = c.act
		return c.run(ctx)
	})
}

// Server is Client's other side: it serves as many connections as it is told
// to.
func (s Side) Server(ctx context.Context) error {
	open := func() (*station.Station, error) { return s.Opener.Server(ctx, s.Bind, port) }
	return s.program("server").Run(ctx, open, func(t *nodes.Test) error {
		v := &server{Test: t, o: &s.Options}
		t.Act = v.act
		return v.run(ctx)
	})
}

func (s Side) program(role string) nodes.Program {
	return nodes.Program{Name: name, Role: role, Service: ib.UD, Load: s.Load, Out: s.Out, Err: s.Err}
}
