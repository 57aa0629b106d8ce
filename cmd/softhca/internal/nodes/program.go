package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// Load is what is transferred, and how long to wait for it.
type Load struct {
	Connections int
	Count       int           // messages of a connection in each direction
	Size        int           // bytes of a message; 0 makes Count 0
	Idle        time.Duration // give up when nothing happens for so long; 0: never
}

// Limits of a Load, so that its memory is bounded.
const (
	maxConnections = 1 << 14
	maxSize        = 1 << 30
	maxMemory      = 1 << 30 // bytes of all buffers
)

// Check returns what is wrong with the load. Whether the adapter has queues for
// Count messages is seen when they are made.
func (l *Load) Check() error {
	switch {
	case l.Connections < 1 || l.Connections > maxConnections:
		return fmt.Errorf("%d connections: want 1 to %d", l.Connections, maxConnections)
	case l.Count < 0:
		return fmt.Errorf("count %d: want a number of messages, or 0 for none", l.Count)
	case l.Size < 0 || l.Size > maxSize:
		return fmt.Errorf("size %d: want 0 to %d bytes", l.Size, maxSize)
	case l.Connections*l.buffer() > maxMemory:
		return fmt.Errorf("the buffers of %d connections with messages of %d bytes are larger than %d bytes", l.Connections, l.Size, maxMemory)
	case l.Idle < 0:
		return fmt.Errorf("idle %v: want a time, or 0 for no limit", l.Idle)
	}
	return nil
}

// Messages returns how many messages a connection sends, and receives.
func (l *Load) Messages() int {
	if l.Size == 0 {
		return 0
	}
	return l.Count
}

// grhBytes stand before the payload of a UD message in the receive buffer.
const grhBytes = 40

// slot is the room of a receive, enough for either service.
func (l *Load) slot() int { return grhBytes + l.Size }

// buffer is the memory of a node: the first receive, the other receives, and
// what is sent.
func (l *Load) buffer() int { return 2*l.slot() + l.Size }

// Program is one of the programs, in one of its roles.
type Program struct {
	Name string // in front of its lines
	Role string // "client" or "server"
	// Service is what the nodes' queue pairs are: RC or UD.
	Service ib.QPType
	Options
	Opener adapter.Opener
	Out    io.Writer // the lines of the program
	Err    io.Writer // everything else
}

// Options are what the user may choose. The load is to be the same on both
// sides.
type Options struct {
	Load
	Host, Port string // the server, as Opener.Client takes it; no Host: be a server
	Bind       string // own address; "": any, or that of the route
	Space      rdmacm.PortSpace
	// TOS and AckTimeout are set on the connections unless they are nil. The
	// type of service is for the client to choose.
	TOS, AckTimeout *uint8
}

// open opens the adapter and its connection manager.
func (p *Program) open(ctx context.Context) (*adapter.Adapter, error) {
	if p.Host == "" {
		return p.Opener.Server(ctx, p.Bind, p.Port)
	}
	return p.Opener.Client(ctx, p.Bind, p.Host, p.Port)
}

// RunSide is Run as the client of Host, or without one as the server.
func (p Program) RunSide(ctx context.Context, client, server func(*Test) error) error {
	if p.Host == "" {
		p.Role = "server"
		return p.Run(ctx, server)
	}
	p.Role = "client"
	return p.Run(ctx, client)
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

// Coded is an error with the status that the program returns for it.
type Coded struct {
	Code int
	Err  error
}

// Error is that of the error.
func (c *Coded) Error() string { return c.Err.Error() }

// Unwrap returns the error.
func (c *Coded) Unwrap() error { return c.Err }

// What the programs return where no event tells.
const (
	statusFailed = -1
	statusNoName = -2 // EAI_NONAME
)

// Status returns what the programs of rdmacm-utils return after an error: 0 for
// none, the status of the event that it was, or a negative number.
func Status(err error) int {
	var coded *Coded
	var failure *adapter.Failure
	var lookup *net.DNSError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &failure) && failure.Status != 0:
		return failure.Status
	case errors.As(err, &lookup):
		return statusNoName
	default:
		return statusFailed
	}
}
