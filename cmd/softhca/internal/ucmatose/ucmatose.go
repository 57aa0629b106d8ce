package ucmatose

import (
	"context"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
)

// Options are the options of a side. The load must be the same on both sides.
type Options struct {
	nodes.Options
	Migrate bool // move to another event channel before the end
}

// name is the name in the Linux program's output.
const name = "cmatose"

// Side is a client or a server.
type Side struct {
	Options
	Opener   adapter.Opener
	Out, Err io.Writer // the program's lines, and everything else
}

// Run runs the client of Host, or without Host the server. A client waits for the
// server's messages, and returns when the server has disconnected. A server serves
// the number of connections in the options, and ends them. Both also return when ctx
// ends, or with the first error, after they have closed everything.
func (s Side) Run(ctx context.Context) error {
	p := nodes.Program{Name: name, Service: ib.RC, Options: s.Options.Options, Opener: s.Opener, Out: s.Out, Err: s.Err}
	return p.RunSide(ctx,
		func(t *nodes.Test) error { return (&client{Test: t, o: &s.Options}).run(ctx) },
		func(t *nodes.Test) error { return (&server{Test: t, o: &s.Options}).run(ctx) })
}
