package ucmatose

import (
	"context"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/cmd/softhca/internal/station"
	"github.com/softhca/softhca/ib"
)

// name is what the program calls itself.
const name = "cmatose"

// Side is a client or a server.
type Side struct {
	Options
	Opener   station.Opener
	Out, Err io.Writer // the program's lines, and everything else
}

// Client connects to a server and waits for its messages. It returns when the
// server has disconnected, or when ctx ends, or with the first error; all is
// closed then.
func (s Side) Client(ctx context.Context) error {
	open := func() (*station.Station, error) { return s.Opener.Client(ctx, s.Bind, s.Host, s.Port) }
	return s.program("client").Run(ctx, open, func(t *nodes.Test) error {
		c := &client{Test: t, o: &s.Options}
		t.Act = c.act
		return c.run(ctx)
	})
}

// Server is Client's other side: it serves as many connections as it is told
// to, and ends them.
func (s Side) Server(ctx context.Context) error {
	open := func() (*station.Station, error) { return s.Opener.Server(ctx, s.Bind, s.Port) }
	return s.program("server").Run(ctx, open, func(t *nodes.Test) error {
		v := &server{Test: t, o: &s.Options}
		t.Act = v.act
		return v.run(ctx)
	})
}

func (s Side) program(role string) nodes.Program {
	return nodes.Program{Name: name, Role: role, Service: ib.RC, Load: s.Load, Out: s.Out, Err: s.Err}
}
