package udaddy

import (
	"context"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
)

const (
	name = "udaddy"
	port = "7174" // udaddy has no option for another
)

// Side is a client or a server.
type Side struct {
	Options
	Opener   adapter.Opener
	Out, Err io.Writer // the program's lines, and everything else
}

// Run is the client of Host, or without one the server. A client finds the
// server's queue pairs, sends to them and waits for as many datagrams. A server
// serves as many connections as it is told to. Both return when ctx ends, or with
// the first error; all is closed then.
func (s Side) Run(ctx context.Context) error {
	p := nodes.Program{
		Name: name, Role: "server", Service: ib.UD, Load: s.Load,
		Opener: s.Opener, Host: s.Host, Port: port, Bind: s.Bind, Out: s.Out, Err: s.Err,
	}
	if s.Host == "" {
		return p.Run(ctx, func(t *nodes.Test) error { return (&server{Test: t, o: &s.Options}).run(ctx) })
	}
	p.Role = "client"
	return p.Run(ctx, func(t *nodes.Test) error { return (&client{Test: t, o: &s.Options}).run(ctx) })
}
