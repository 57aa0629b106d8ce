package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// regionBytes is the size of the memory that each side lets the other use.
const regionBytes = 64 << 10

// waitLimit limits every wait of the demonstration.
const waitLimit = 3 * time.Second

// node is one side: an adapter and its objects.
type node struct {
	*adapter.Adapter
	name     string // "A" or "B"
	addr     string
	pd       *verbs.PD
	cq       *verbs.CQ
	mr       *verbs.MR
	ch       *rdmacm.EventChannel
	listener *rdmacm.ID // B's
	id       *rdmacm.ID // its end of the connection
	qp       *verbs.QP  // of id
	told     []rdmacm.EventType
	events   []verbs.AsyncEvent
	timeout  uint8 // local ACK timeout of its connection
	retries  uint8
	space    rdmacm.PortSpace
	over     *rdmacm.Channel  // RD: the channel that its connection joins; nil for a new one
	peer     rdmacm.ConnParam // last received parameters of the peer's queue pair
}

// rights are the peer's access rights to a node's memory.
const rights = ib.AccessLocalWrite | ib.AccessRemote | ib.AccessFlushGlobal

// open opens the adapter of a side and creates its objects, which closing the adapter
// destroys. It fills the memory with seed.
func open(name, addr string, seed byte, open adapter.Open) (*node, error) {
	response := adapter.Response{Timeout: responseTimeout, Retries: messageRetries}
	a, err := adapter.Opener{Open: open, Response: response}.At(addr)
	if err != nil {
		return nil, err
	}
	r := adapter.NewResources(a.Device)
	n := &node{Adapter: a, name: name, addr: addr, ch: a.NewEventChannel(), timeout: ackTimeout, retries: retries}
	n.pd, n.cq = r.NewPD(), r.NewCQ(256, nil)
	n.mr = r.NewMR(n.pd, regionBytes, rights)
	if err := r.Err(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	for i := range n.mr.Bytes() {
		n.mr.Bytes()[i] = seed + byte(i*31>>3)
	}
	return n, nil
}

// ip returns the first address of the adapter.
func (n *node) ip() netip.Addr { return n.Device.QueryGID(0).Addr() }

// settle synchronizes this goroutine's accesses to the node's memory with those of the
// peer's requests. Two processes could not do so, and a program with a completion of
// its own need not.
func (n *node) settle() error {
	_, err := n.qp.Query()
	return err
}

// part returns size bytes of the node's memory.
func (n *node) part(off, size int) []byte { return n.mr.Bytes()[off : off+size] }

// next waits for a completion.
func (n *node) next(ctx context.Context) (verbs.WC, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	var wc [1]verbs.WC
	for spins := 0; ; spins++ {
		if k, err := n.cq.Poll(wc[:]); k == 1 || err != nil {
			return wc[0], err
		}
		if spins&255 == 0 && ctx.Err() != nil {
			return wc[0], fmt.Errorf("adapter %s: no completion: %w", n.name, ctx.Err())
		}
	}
}

// event waits for an event about the queue pair of the connection.
func (n *node) event(ctx context.Context, want ib.EventType) error { return n.eventOf(ctx, want, n.qp) }

// eventOf waits for an event of a kind about a queue pair, and keeps other events.
func (n *node) eventOf(ctx context.Context, want ib.EventType, q *verbs.QP) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for {
		e, err := n.Device.GetAsyncEvent(ctx)
		if err != nil {
			return fmt.Errorf("adapter %s: wait for event %v: %w", n.name, want, err)
		}
		e.Ack()
		n.events = append(n.events, e)
		if e.Type == want && e.QP == q {
			return nil
		}
	}
}

// wait waits for an event of the connection manager.
func (n *node) wait(ctx context.Context, want rdmacm.EventType) (*rdmacm.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	e, err := n.ch.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("adapter %s: wait for %v: %w", n.name, want, err)
	}
	defer e.Ack()
	n.told = append(n.told, e.Type)
	if e.Param.QPN != 0 {
		n.peer = e.Param
	}
	if e.Type != want || e.Status != 0 {
		return nil, fmt.Errorf("adapter %s: %w: %v, status %d, instead of %v", n.name, cmp.Or(e.Err, errEvent), e.Type, e.Status, want)
	}
	return e, nil
}

// errEvent means an unexpected event.
var errEvent = errors.New("unexpected event")
