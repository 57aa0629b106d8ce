package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
)

// Program is one of the programs, in one of its roles.
type Program struct {
	Name string // in front of its lines
	Role string // "client" or "server"
	// Service is what the nodes' queue pairs are: RC or UD.
	Service ib.QPType
	Load
	Opener     adapter.Opener
	Host, Port string    // the server, as Opener.Client takes it; no Host: be a server
	Bind       string    // own address; "": any, or that of the route
	Out        io.Writer // the lines of the program
	Err        io.Writer // everything else
}

// open opens the adapter and its connection manager.
func (p *Program) open(ctx context.Context) (*adapter.Adapter, error) {
	if p.Host == "" {
		return p.Opener.Server(ctx, p.Bind, p.Port)
	}
	return p.Opener.Client(ctx, p.Bind, p.Host, p.Port)
}

// Run does a test: it opens the adapter, lets do work, ends the connections
// that are still there and closes everything. It prints the program's first and
// last lines. The error is that of opening, or do's.
func (p Program) Run(ctx context.Context, do func(*Test) error) (err error) {
	t := &Test{Program: p, told: time.Now()}
	t.Line("%s: starting %s", p.Name, p.Role)
	defer func() {
		t.Line("test complete")
		err = errors.Join(err, t.close())
		t.Line("return status %d", Status(err))
	}()
	if t.Adapter, err = p.open(ctx); err != nil {
		return err
	}
	dev, err := t.Device.QueryDevice()
	if err != nil {
		return err
	}
	if limit := int(dev.MaxQPWR); t.Messages() > limit {
		return fmt.Errorf("%d messages: the queues of this adapter hold %d", t.Messages(), limit)
	}
	t.resources = adapter.NewResources(t.Device)
	t.pd = t.resources.NewPD()
	if err := t.resources.Err(); err != nil {
		return err
	}
	t.Channel = t.NewEventChannel()
	err = do(t)
	t.part(ctx)
	return err
}
