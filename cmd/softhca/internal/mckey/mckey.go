package mckey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// name is the name of the Linux program.
const name = "mckey"

// Options are the options of a side.
type Options struct {
	nodes.Load
	Group    string // multicast address, or a host name for one
	MGID     string // a group without an IP address
	Bind     string // local address; "": by route to the group
	Sender   bool
	Space    rdmacm.PortSpace
	SendOnly bool // join without receiving
	NoLoop   bool // do not receive what this host sends
	// Pause is the time between joining and sending, in which groups and receivers
	// get ready.
	Pause time.Duration
}

// Check returns an error for wrong options.
func (o *Options) Check() error {
	if err := o.Load.Check(); err != nil {
		return err
	}
	switch {
	case o.MGID != "" && o.Bind == "":
		return fmt.Errorf("unmapped multicast address requires binding to source address (-b)")
	case o.MGID != "":
		return fmt.Errorf("group %s: RoCE has only groups with an IP address: name it with -m: %w", o.MGID, ib.EOPNOTSUPP)
	case o.Group == "":
		return fmt.Errorf("no group: name a multicast address with -m, such as 239.1.2.3")
	case o.NoLoop:
		return fmt.Errorf("the adapter cannot leave out what it sends itself (-l): %w", ib.EOPNOTSUPP)
	case o.Pause < 0:
		return fmt.Errorf("pause %v: want a time, or 0 for none", o.Pause)
	}
	if a, err := netip.ParseAddr(o.Group); err == nil && !a.IsMulticast() {
		return fmt.Errorf("%v is no multicast address: those of IPv4 are 224.0.0.0 to 239.255.255.255, of IPv6 ff00::/8", a)
	}
	return nil
}

// Side is a sender or a receiver.
type Side struct {
	Options
	Opener   adapter.Opener
	Out, Err io.Writer // the program's lines, and everything else
}

// Run joins the group, and sends or receives. It returns at the end of the transfer,
// when ctx ends, or with the first error, after it has left the group and closed
// everything.
func (s Side) Run(ctx context.Context) error {
	p := nodes.Program{
		Name: name, Role: "server", Service: ib.UD, Options: nodes.Options{Load: s.Load, Host: s.Group, Port: "0", Bind: s.Bind},
		Opener: s.Opener, Out: s.Out, Err: s.Err,
	}
	if s.Sender {
		p.Role = "client"
	}
	return p.Run(ctx, func(t *nodes.Test) error {
		m := &member{Test: t, o: &s.Options}
		t.Act = m.act
		return errors.Join(m.run(ctx), m.leave())
	})
}

// member is a run of a sender or a receiver.
type member struct {
	*nodes.Test
	o *Options
}

func (m *member) run(ctx context.Context) error {
	if err := m.CheckMTU(); err != nil {
		return err
	}
	m.Line("%s: joining", name)
	if err := m.Resolve(m.o.Space); err != nil {
		return err
	}
	if err := m.Decide(ctx, "the group"); err != nil {
		return err
	}
	if err := m.pause(ctx); err != nil {
		return err
	}
	if m.o.Sender {
		return m.Transfer(ctx, nodes.Step{Title: "initiating data transfers", Do: m.Send}, nodes.Step{Do: m.AwaitSends})
	}
	return m.Transfer(ctx, nodes.Step{Title: "receiving data transfers", Do: m.receive})
}

// pause waits until the others have joined.
func (m *member) pause(ctx context.Context) error {
	select {
	case <-time.After(m.o.Pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// receive waits for the first datagram without a limit.
func (m *member) receive(ctx context.Context) error {
	if _, _, err := m.Nodes[0].AwaitFirst(ctx, 0); err != nil {
		return err
	}
	return m.AwaitRecvs(ctx)
}

// act handles an event.
func (m *member) act(e *rdmacm.Event) error {
	n := e.ID.Context.(*nodes.Node)
	switch e.Type {
	case rdmacm.EventAddrResolved:
		// A queue pair that exists when its ID joins the group receives.
		if !m.o.SendOnly {
			if err := m.create(n); err != nil {
				return err
			}
		}
		return n.ID.JoinMulticast(m.Peer, nil)
	case rdmacm.EventMulticastJoin:
		if m.o.SendOnly {
			if err := m.create(n); err != nil {
				return err
			}
		}
		m.Line("%s: joined dgid: %v mlid 0x0 sl %d", name, netip.AddrFrom16(e.UD.AH.DGID), e.UD.AH.SL)
		return n.Reach(e.UD.AH, e.UD.QPN, e.UD.QKey)
	default:
		return m.Fail(n, e)
	}
}

// create makes a node's queue pair. A sender receives nothing.
func (m *member) create(n *nodes.Node) error {
	if err := n.Create(); err != nil {
		return fmt.Errorf("create QP: %w", err)
	}
	if m.o.Sender {
		return nil
	}
	return n.PostRecvs()
}

// leave ends the memberships.
func (m *member) leave() error {
	var errs []error
	for _, n := range m.Nodes {
		if n.Connected() {
			errs = append(errs, n.ID.LeaveMulticast(m.Peer))
		}
	}
	return errors.Join(errs...)
}
