package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// resolveTimeout limits the resolution of an address or a route, as in the programs
// of rdma-core.
const resolveTimeout = 2 * time.Second

// noticeAfter is the duration of a wait before its first notice. The intervals between
// further notices double.
const noticeAfter = 5 * time.Second

// progress is the interval of progress lines of a transfer.
const progress = 10 * time.Second

// disconnectTime limits the wait for the peers' answers to disconnects after a failure
// or an interruption.
const disconnectTime = 5 * time.Second

// ErrIdle means that a peer or the network is silent.
var ErrIdle = errors.New("nothing happened for too long")

// Test is a run of a program, used by one goroutine.
type Test struct {
	Program
	*adapter.Adapter
	// Channel gets the events of all nodes and of Listener.
	Channel  *rdmacm.EventChannel
	Listener *rdmacm.ID // of a server
	Nodes    []*Node
	// Act handles an event during every wait. The event is acknowledged after it. An
	// error ends the wait, which returns it.
	Act func(*rdmacm.Event) error

	resources *adapter.Resources // of all nodes
	pd        *verbs.PD
	tally     [numStates]int // nodes in each state
	failed    error          // error of the first node that failed
	told      time.Time      // time of the last progress line
}

// CheckMTU returns an error, after the line of the programs, if messages do not
// fit into the datagrams of the adapter.
func (t *Test) CheckMTU() error {
	port, err := t.Device.QueryPort()
	if err != nil {
		return err
	}
	mtu := port.ActiveMTU.Bytes()
	if t.Size <= mtu {
		return nil
	}
	t.Line("%s: message_size %d is larger than active mtu %d", t.Name, t.Size, mtu)
	return &Coded{-int(ib.EINVAL), fmt.Errorf("messages of %d bytes do not fit into the datagrams of this network: give -S at most %d", t.Size, mtu)}
}

// Line prints a line of the program. It ignores write errors.
func (t *Test) Line(format string, args ...any) { _, _ = fmt.Fprintf(t.Out, format+"\n", args...) }

// notice prints a line for people.
func (t *Test) notice(format string, args ...any) {
	_, _ = fmt.Fprintf(t.Err, t.Name+": "+format+"\n", args...)
}

// Listen creates Listener on the address of the adapter.
func (t *Test) Listen(ps rdmacm.PortSpace) (err error) {
	if t.Listener, err = t.Adapter.Bind(t.Channel, ps); err != nil {
		return err
	}
	if err := t.Listener.Listen(0); err != nil {
		return err
	}
	t.notice("%s", t.Listening())
	return nil
}

// Collect waits for the next event while a server collects connections. It waits
// for the first connection without a limit.
func (t *Test) Collect(ctx context.Context) error {
	if len(t.Nodes) == 0 {
		return t.Event(ctx, 0, "a client")
	}
	return t.Event(ctx, t.Idle, fmt.Sprintf("all of %d connections (-c): %d are there", t.Connections, len(t.Nodes)))
}

// AwaitEnds waits until all connections have ended.
func (t *Test) AwaitEnds(ctx context.Context, what string) error {
	for t.tally[Connected] > 0 {
		if err := t.Event(ctx, t.Idle, what); err != nil {
			return err
		}
	}
	return nil
}

// Refuse rejects the request of an event, by destroying its ID, unless the client
// has given up.
func (t *Test) Refuse(e *rdmacm.Event) error {
	t.Line("%s: failing connection request", t.Name)
	return e.ID.Destroy()
}

// Resolve creates the client's nodes and resolves all their addresses at once.
func (t *Test) Resolve(ps rdmacm.PortSpace) error {
	for range t.Connections {
		id, err := t.NewID(t.Channel, ps)
		if err != nil {
			return err
		}
		t.NewNode(id)
		if err := id.ResolveAddr(t.Local, t.Peer, resolveTimeout); err != nil {
			return err
		}
	}
	return nil
}

// Decide waits until every node of a client is connected or has failed. The
// connection manager's retries limit the wait; after a failure, disconnectTime
// limits each further wait for an event.
func (t *Test) Decide(ctx context.Context, what string) error {
	for t.tally[Pending] > 0 {
		limit := time.Duration(0)
		if t.failed != nil {
			limit = disconnectTime
		}
		switch err := t.Event(ctx, limit, what); {
		case errors.Is(err, ErrIdle):
			return t.failed
		case err != nil:
			return err
		}
	}
	return t.failed
}

// Step is a part of a transfer. Title, if set, is printed before it.
type Step struct {
	Title string
	Do    func(context.Context) error
}

// Transfer runs the steps in order, if there are messages.
func (t *Test) Transfer(ctx context.Context, steps ...Step) error {
	if t.Messages() == 0 {
		return nil
	}
	for _, s := range steps {
		if s.Title != "" {
			t.Line("%s", s.Title)
		}
		if err := s.Do(ctx); err != nil {
			return err
		}
	}
	t.Line("data transfers complete")
	return nil
}

// Send posts the messages of all nodes.
func (t *Test) Send(context.Context) error { return t.each((*Node).PostSends) }

// AwaitSends waits for the messages of all nodes, as Node.AwaitSends does.
func (t *Test) AwaitSends(ctx context.Context) error {
	return t.each(func(n *Node) error { return n.AwaitSends(ctx) })
}

// AwaitRecvs waits for the messages to all nodes, as Node.AwaitRecvs does.
func (t *Test) AwaitRecvs(ctx context.Context) error {
	return t.each(func(n *Node) error { return n.AwaitRecvs(ctx) })
}

// each calls do with every node, until the first error.
func (t *Test) each(do func(*Node) error) error {
	for _, n := range t.Nodes {
		if err := do(n); err != nil {
			return err
		}
	}
	return nil
}

// NewNode adds a node with an ID, which becomes the test's.
func (t *Test) NewNode(id *rdmacm.ID) *Node {
	n := &Node{Resources: adapter.NewResources(t.Device), ID: id, test: t, number: len(t.Nodes) + 1}
	n.OnClose(id.Destroy)
	id.Context = n
	t.Nodes = append(t.Nodes, n)
	t.tally[n.state]++
	return n
}

// Accept accepts the request of an ID. If that fails, destroying the ID rejects the
// request.
func (t *Test) Accept(id *rdmacm.ID) (*Node, error) {
	n := t.NewNode(id)
	err := n.Prepare()
	if err == nil && t.AckTimeout != nil {
		err = id.SetAckTimeout(*t.AckTimeout)
	}
	if err == nil {
		err = id.Accept(nil)
	}
	if err != nil {
		t.Line("%s: failing connection request", t.Name)
		n.Become(Failed)
	}
	return n, err
}

// In returns the number of nodes in a state.
func (t *Test) In(s State) int { return t.tally[s] }

// Report prints the Linux programs' line for a failure event, and returns the event
// as an error. These programs print no line for the end of a connection.
func (t *Test) Report(e *rdmacm.Event) error {
	if e.Type != rdmacm.EventDisconnected {
		t.Line("%s: event: %v, error: %d", t.Name, e.Type, e.Status)
	}
	return adapter.NewFailure(e)
}

// Fail reports an event that prevented or ended the connection of a client's node.
// When no node is pending any more, it returns the error of the first failure.
func (t *Test) Fail(n *Node, e *rdmacm.Event) error {
	err := t.Report(e)
	n.Become(Failed)
	if t.failed == nil {
		t.failed = err
	}
	if t.tally[Pending] > 0 {
		return nil
	}
	return t.failed
}

// Event waits for an event and handles it. limit limits the wait unless it is 0;
// what names the awaited event in errors.
func (t *Test) Event(ctx context.Context, limit time.Duration, what string) error {
	var e *rdmacm.Event
	err := t.wait(ctx, limit, what, func(ctx context.Context) (err error) {
		e, err = t.Channel.Get(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer e.Ack()
	return t.Act(e)
}

// wait calls try with contexts of limited time until try returns something else than
// the end of its context, or until limit.
func (t *Test) wait(ctx context.Context, limit time.Duration, what string, try func(context.Context) error) error {
	begin := time.Now()
	for slice := noticeAfter; ; slice *= 2 {
		left := slice
		if limit > 0 {
			left = min(left, limit-time.Since(begin))
		}
		short, cancel := context.WithTimeout(ctx, left)
		err := try(short)
		ended := short.Err() != nil
		cancel()
		waited := time.Since(begin)
		switch {
		case err == nil || !ended:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case limit > 0 && waited >= limit:
			return fmt.Errorf("wait for %s: %w (%v)", what, ErrIdle, limit)
		}
		t.notice("%s", t.still(what, waited))
	}
}

// still returns the notice of a wait. If no server has answered, a client's first
// notice names the usual causes.
func (t *Test) still(what string, waited time.Duration) string {
	line := fmt.Sprintf("still waiting for %s after %v", what, waited.Round(time.Second))
	if t.Peer.IsValid() && t.tally[Connected] == 0 && waited < 2*noticeAfter {
		line += ": " + adapter.NoAnswer(t.Peer)
	}
	return line
}

// Migrate moves the events of all IDs to a new channel.
func (t *Test) Migrate() error {
	t.Line("migrating to new event channel")
	to := t.NewEventChannel()
	if t.Listener != nil {
		if err := t.Listener.Migrate(to); err != nil {
			return errors.Join(err, to.Close())
		}
	}
	for _, n := range t.Nodes {
		if err := n.ID.Migrate(to); err != nil {
			return err
		}
	}
	from := t.Channel
	t.Channel = to
	return from.Close()
}

// Disconnect disconnects all connected nodes.
func (t *Test) Disconnect() error {
	return t.each(func(n *Node) error {
		if n.state != Connected {
			return nil
		}
		return n.ID.Disconnect()
	})
}

// part ends the connections that are left after a failure or an interruption, so that
// peers need no timeout to notice. It waits at most disconnectTime; a peer that does not
// answer is no failure of this side.
func (t *Test) part(ctx context.Context) {
	if t.Service != ib.RC || t.tally[Connected] == 0 || t.Disconnect() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disconnectTime)
	defer cancel()
	for t.tally[Connected] > 0 {
		e, err := t.Channel.Get(ctx)
		if err != nil {
			return
		}
		switch e.Type {
		case rdmacm.EventConnectRequest:
			err = t.Refuse(e)
		case rdmacm.EventDisconnected:
			e.ID.Context.(*Node).Become(Ended)
		}
		e.Ack()
		if err != nil {
			return
		}
	}
}

// close destroys the objects in the reverse order of their creation.
func (t *Test) close() error {
	if t.Adapter == nil {
		return nil
	}
	var errs []error
	for _, n := range t.Nodes {
		errs = append(errs, n.Close())
	}
	if t.Listener != nil {
		errs = append(errs, t.Listener.Destroy())
	}
	if t.Channel != nil {
		errs = append(errs, t.Channel.Close())
	}
	if t.resources != nil {
		errs = append(errs, t.resources.Close())
	}
	return errors.Join(append(errs, t.Adapter.Close())...)
}
