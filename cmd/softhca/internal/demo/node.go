package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// regionBytes is the size of the memory that each side lets the other use.
const regionBytes = 64 << 10

// patience bounds every wait of the demonstration.
const patience = 3 * time.Second

// node is one side: an adapter and what it has.
type node struct {
	name     string // "A" or "B"
	addr     string
	hca      *verbs.Context
	pd       *verbs.PD
	cq       *verbs.CQ
	mr       *verbs.MR
	cm       *rdmacm.Manager
	ch       *rdmacm.EventChannel
	listener *rdmacm.ID // B's
	id       *rdmacm.ID // its end of the connection
	qp       *verbs.QP  // of id
	told     []rdmacm.EventType
	events   []verbs.AsyncEvent
}

// rights are what the peer may do to a node's memory.
const rights = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic

// newNode makes the objects of a side; closing its CM and then the adapter ends
// them. The memory is filled with seed.
func newNode(name, addr string, hca *verbs.Context, seed byte) (*node, error) {
	n := &node{name: name, addr: addr, hca: hca}
	var err error
	if n.pd, err = hca.AllocPD(); err != nil {
		return nil, err
	}
	if n.cq, err = hca.CreateCQ(256, nil); err != nil {
		return nil, err
	}
	buf := make([]byte, regionBytes)
	for i := range buf {
		buf[i] = seed + byte(i*31>>3)
	}
	if n.mr, err = n.pd.RegMR(buf, rights); err != nil {
		return nil, err
	}
	if n.cm, err = rdmacm.New(hca); err != nil {
		return nil, err
	}
	n.ch = n.cm.NewEventChannel()
	return n, nil
}

// ip returns the first address of the adapter.
func (n *node) ip() netip.Addr { return n.hca.QueryGID(0).Addr() }

// settle stands between what this goroutine does to the node's memory and what
// the peer does to it over the network. In two processes nothing could, and a
// program that is told by a completion of its own need not.
func (n *node) settle() error {
	_, err := n.qp.Query()
	return err
}

// part returns size bytes of the node's memory.
func (n *node) part(off, size int) []byte { return n.mr.Bytes()[off : off+size] }

// next waits for a completion.
func (n *node) next(ctx context.Context) (verbs.WC, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var wc [1]verbs.WC
	for spins := 0; ; spins++ {
		if n.cq.Poll(wc[:]) == 1 {
			return wc[0], nil
		}
		if spins&255 == 0 && ctx.Err() != nil {
			return wc[0], fmt.Errorf("adapter %s: no completion: %w", n.name, ctx.Err())
		}
	}
}

// event waits for an event of a kind and keeps the others that come.
func (n *node) event(ctx context.Context, want ib.EventType) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		e, err := n.hca.GetAsyncEvent(ctx)
		if err != nil {
			return fmt.Errorf("adapter %s: no event %v: %w", n.name, want, err)
		}
		e.Ack()
		n.events = append(n.events, e)
		if e.Type == want && e.QP == n.qp {
			return nil
		}
	}
}

// wait waits for an event of the connection manager.
func (n *node) wait(ctx context.Context, want rdmacm.EventType) (*rdmacm.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e, err := n.ch.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("adapter %s: no %v: %w", n.name, want, err)
	}
	defer e.Ack()
	n.told = append(n.told, e.Type)
	if e.Type != want || e.Status != 0 {
		return nil, fmt.Errorf("adapter %s: %w: %v, status %d, instead of %v", n.name, cmp.Or(e.Err, errEvent), e.Type, e.Status, want)
	}
	return e, nil
}

// errEvent says that something else happened than should.
var errEvent = errors.New("unexpected event")
