package ucmatose

import (
	"context"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
)

// Options are what the user may choose. The load is to be the same on both
// sides.
type Options struct {
	nodes.Options
	Migrate bool // move to another event channel before the end
}

// name is what the program calls itself.
const name = "cmatose"

// Side is a client or a server.
type Side struct {
	Options
	Opener   adapter.Opener
	Out, Err io.Writer // the program's lines, and everything else
}

// Run is the client of Host, or without one the server. A client waits for the
// server's messages, and returns when that has disconnected. A server serves as
// many connections as it is told to, and ends them. Both return when ctx ends, or
// with the first error; all is closed then.
func (s Side) Run(ctx context.Context) error {
	p := nodes.Program{Name: name, Service: ib.RC, Options: s.Options.Options, Opener: s.Opener, Out: s.Out, Err: s.Err}
	return p.RunSide(ctx,
		func(t *nodes.Test) error { return (&client{Test: t, o: &s.Options}).run(ctx) },
		func(t *nodes.Test) error { return (&server{Test: t, o: &s.Options}).run(ctx) })
}
