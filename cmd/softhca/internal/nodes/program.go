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

// Load is the amount of transferred data, and the limit of waits.
type Load struct {
	Connections int
	Count       int           // messages of a connection in each direction
	Size        int           // bytes of a message; 0 makes Count 0
	Idle        time.Duration // give up after this time without an event; 0: never
}

// Limits of a Load, so that its memory is bounded.
const (
	maxConnections = 1 << 14
	maxSize        = 1 << 30
	maxMemory      = 1 << 30 // bytes of all buffers
)

// Check returns an error for a wrong load. Run checks whether the adapter has queues for
// Count messages.
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

// Messages returns the number of messages that a connection sends, and receives.
func (l *Load) Messages() int {
	if l.Size == 0 {
		return 0
	}
	return l.Count
}

// grhBytes is the size of the GRH before the payload of a UD message in the receive buffer.
const grhBytes = 40

// slot returns the size of a receive buffer, enough for RC and UD.
func (l *Load) slot() int { return grhBytes + l.Size }

// buffer returns the memory size of a node: the first receive, the other receives,
// and the sent data.
func (l *Load) buffer() int { return 2*l.slot() + l.Size }

// Program is one of the programs, in one of its roles.
type Program struct {
	Name string // in front of its lines
	Role string // "client" or "server"
	// Service is the type of the nodes' queue pairs: RC or UD.
	Service ib.QPType
	Options
	Opener adapter.Opener
	Out    io.Writer // the lines of the program
	Err    io.Writer // everything else
}

// Options are the options of a side. The load must be the same on both sides.
type Options struct {
	Load
	Host, Port string // the server, as Opener.Client takes it; no Host: be a server
	Bind       string // local address; "": any for a server, by route for a client
	Space      rdmacm.PortSpace
	// TOS and AckTimeout are set on the connections unless they are nil. Only a client
	// sets TOS.
	TOS, AckTimeout *uint8
}

// open opens the adapter and its connection manager.
func (p *Program) open(ctx context.Context) (*adapter.Adapter, error) {
	if p.Host == "" {
		return p.Opener.Server(ctx, p.Bind, p.Port)
	}
	return p.Opener.Client(ctx, p.Bind, p.Host, p.Port)
}

// RunSide calls Run as the client of Host, or without Host as the server.
func (p Program) RunSide(ctx context.Context, client, server func(*Test) error) error {
	if p.Host == "" {
		p.Role = "server"
		return p.Run(ctx, server)
	}
	p.Role = "client"
	return p.Run(ctx, client)
}

// Run runs a test: it opens the adapter, calls do, ends the remaining connections and
// closes everything. It prints the program's first and last lines. It returns the
// errors of opening, of do and of closing.
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

// Error returns the text of Err.
func (c *Coded) Error() string { return c.Err.Error() }

// Unwrap returns Err.
func (c *Coded) Unwrap() error { return c.Err }

// The status of errors without an event.
const (
	statusFailed = -1
	statusNoName = -2 // EAI_NONAME
)

// Status returns the status of the programs of rdmacm-utils after an error: 0 for no
// error, the status of an event, or a negative number.
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
