package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// regionBytes is the size of the memory that each side lets the other use.
const regionBytes = 16 << 10

// patience bounds every wait of the demonstration.
const patience = 3 * time.Second

// node is one side: an adapter and what it has.
type node struct {
	name   string // "A" or "B"
	addr   string
	hca    *verbs.Context
	pd     *verbs.PD
	cq     *verbs.CQ
	qp     *verbs.QP
	mr     *verbs.MR
	psn    ib.PSN // of its next packet, when it connects
	events []verbs.AsyncEvent
}

// rights are what the peer may do to a node's memory.
const rights = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic

// newNode makes the objects of a side; closing the adapter ends them. The
// memory is filled with seed.
func newNode(name, addr string, hca *verbs.Context, seed byte) (*node, error) {
	n := &node{name: name, addr: addr, hca: hca, psn: ib.NewPSN(rand.Uint32())}
	var err error
	if n.pd, err = hca.AllocPD(); err != nil {
		return nil, err
	}
	if n.cq, err = hca.CreateCQ(256, nil); err != nil {
		return nil, err
	}
	n.qp, err = n.pd.CreateQP(&verbs.QPInitAttr{
		Type: ib.RC, SendCQ: n.cq, RecvCQ: n.cq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return nil, err
	}
	buf := make([]byte, regionBytes)
	for i := range buf {
		buf[i] = seed + byte(i*31>>3)
	}
	n.mr, err = n.pd.RegMR(buf, rights)
	return n, err
}

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

// errState says that a queue pair is not where it should be.
var errState = errors.New("wrong state")

// modify moves the queue pair and looks whether it got there.
func (n *node) modify(attr *verbs.QPAttr, mask ib.AttrMask) error {
	if err := n.qp.Modify(attr, mask|ib.AttrState); err != nil {
		return fmt.Errorf("adapter %s: %w", n.name, err)
	}
	q, err := n.qp.Query()
	if err != nil {
		return fmt.Errorf("adapter %s: %w", n.name, err)
	}
	if q.State != attr.State {
		return fmt.Errorf("adapter %s: queue pair in %v, not in %v: %w", n.name, q.State, attr.State, errState)
	}
	return nil
}
