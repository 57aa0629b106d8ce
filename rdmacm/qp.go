package rdmacm

import (
	"context"
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/verbs"
)

// ownQP is the QP of CreateQP with the objects that belong to it.
type ownQP struct {
	qp             *verbs.QP
	srq            bool
	sendCQ, recvCQ *queue
	cleanup        []func() error // destroys the other objects of this QP, in order
	dev            *adapter
	done           chan struct{} // closed once the QP is destroyed
}

// queue is a completion queue of a QP, with its channel if CreateQP created it.
type queue struct {
	cq *verbs.CQ
	ch *verbs.CompChannel
}

// engine returns the adapter's queue pair; nil if there is none or the program has
// destroyed it.
func (o *ownQP) engine() *qp.QP {
	if o == nil || o.qp == nil {
		return nil
	}
	return device.QPOf(o.qp)
}

// CreateQP creates the ID's queue pair in pd or, if pd is nil, in the default
// protection domain of the adapter. attr.Type may be zero. For nil completion queues,
// CreateQP creates queues of the sizes of the work queues, for GetSendComp and
// GetRecvComp. A QP of a connected service is then in INIT, where receives can be
// posted; Connect and Accept move it on. A UD queue pair is in RTS with DefaultQKey. An
// RD queue pair has a random Q_Key; attr.RDD must be nil or the domain that RDD returns.
// CreateQP writes the actual sizes to attr.Cap.
//
// Errors: EINVAL before the ID has an adapter, for a second QP, for another service,
// and for objects of another adapter; those of verbs' CreateQP.
func (id *ID) CreateQP(pd *verbs.PD, attr *verbs.QPInitAttr) error { return id.createQP(pd, attr) }

// createQP is CreateQP with functions that destroy further objects after the QP. If it
// fails, the caller destroys these objects.
func (id *ID) createQP(pd *verbs.PD, attr *verbs.QPInitAttr, cleanup ...func() error) error {
	return id.run("create QP", func() (err error) {
		if err := id.takesQP(pd, attr); err != nil {
			return err
		}
		if pd == nil {
			if pd, err = id.dev.defaultPD(); err != nil {
				return err
			}
		}
		own := &ownQP{srq: attr.SRQ != nil, dev: id.dev, done: make(chan struct{})}
		if err := own.create(pd, attr); err != nil {
			return errors.Join(err, own.destroy())
		}
		if err := id.own(own); err != nil {
			return errors.Join(err, own.destroy())
		}
		own.cleanup = append(own.cleanup, cleanup...)
		return nil
	})
}

// takesQP returns an error if the ID cannot have such a QP.
func (id *ID) takesQP(pd *verbs.PD, attr *verbs.QPInitAttr) error {
	if attr != nil && attr.Type == 0 {
		attr.Type = id.typ
	}
	var rdd *verbs.RDD
	if id.typ == ib.RD && id.dev != nil && attr != nil {
		var err error
		if rdd, err = id.dev.defaultRDD(); err != nil {
			return err
		}
		if attr.RDD == nil {
			attr.RDD = rdd
		}
	}
	switch {
	case id.dev == nil:
		return fmt.Errorf("the ID has no adapter yet: %w", ib.EINVAL)
	case id.qp != nil:
		return fmt.Errorf("the ID has one: %w", ib.EINVAL)
	case attr == nil || attr.Type != id.typ:
		return fmt.Errorf("the ID takes one of service %v: %w", id.typ, ib.EINVAL)
	case attr.RDD != rdd:
		return fmt.Errorf("the ID takes one of the reliable datagram domain that its RDD returns: %w", ib.EINVAL)
	case pd != nil && pd.Context() != id.dev.ctx:
		return fmt.Errorf("the protection domain is of another adapter: %w", ib.EINVAL)
	}
	return nil
}

// create creates the QP, and completion queues where attr has none.
func (o *ownQP) create(pd *verbs.PD, attr *verbs.QPInitAttr) (err error) {
	a := *attr
	if o.sendCQ, err = o.queue(a.SendCQ, a.Cap.MaxSendWR); err != nil {
		return err
	}
	if o.recvCQ, err = o.queue(a.RecvCQ, a.Cap.MaxRecvWR); err != nil {
		return err
	}
	a.SendCQ, a.RecvCQ = o.sendCQ.cq, o.recvCQ.cq
	o.qp, err = pd.CreateQP(&a)
	attr.Cap = a.Cap
	return err
}

// queue returns cq as a queue, or creates one of n entries.
func (o *ownQP) queue(cq *verbs.CQ, n uint32) (*queue, error) {
	if cq != nil {
		return &queue{cq: cq}, nil
	}
	ch := verbs.NewCompChannel(1)
	cq, err := o.dev.ctx.CreateCQ(int(max(n, 1)), ch)
	if err != nil {
		return nil, err
	}
	o.cleanup = append(o.cleanup, func() error {
		if err := cq.Destroy(); !errors.Is(err, verbs.ErrInvalidCQ) { // the program may have destroyed it after its QP
			return err
		}
		return nil
	})
	return &queue{cq: cq, ch: ch}, nil
}

// destroy destroys the QP and the objects that belong to it. After a failure it can be
// called again.
func (o *ownQP) destroy() error {
	if o.engine() != nil {
		if err := o.qp.Destroy(); err != nil && o.engine() != nil { // the program may have destroyed it first
			return err
		}
	}
	if !isClosed(o.done) {
		close(o.done)
	}
	for len(o.cleanup) > 0 {
		if err := o.cleanup[0](); err != nil {
			return err
		}
		o.cleanup = o.cleanup[1:]
	}
	return nil
}

// own moves the QP to a state in which receives can be posted, and assigns it to the
// ID.
func (id *ID) own(o *ownQP) error {
	if id.typ == ib.UD {
		if err := o.ready(); err != nil {
			return err
		}
	}
	return id.do(func(now clock.Instant) error {
		if q := o.engine(); id.typ != ib.UD {
			if err := id.dev.hca.Prepare(now, q); err != nil {
				return err
			}
		}
		id.qp = o
		return nil
	})
}

// ready moves a UD queue pair to RTS.
func (o *ownQP) ready() error { return o.qp.ModifyToRTS(verbs.QPAttr{Port: 1, QKey: DefaultQKey}) }

// QP returns the queue pair of CreateQP; nil if there is none.
func (id *ID) QP() *verbs.QP {
	if o := id.owned(); o != nil {
		return o.qp
	}
	return nil
}

// SendCQ returns the completion queue for sends of CreateQP's queue pair; nil without
// one.
func (id *ID) SendCQ() *verbs.CQ {
	if o := id.owned(); o != nil {
		return o.sendCQ.cq
	}
	return nil
}

// RecvCQ returns its completion queue for receives.
func (id *ID) RecvCQ() *verbs.CQ {
	if o := id.owned(); o != nil {
		return o.recvCQ.cq
	}
	return nil
}

func (id *ID) owned() *ownQP {
	if id == nil {
		return nil
	}
	id.call.Lock()
	defer id.call.Unlock()
	return id.qp
}

// PD returns the default protection domain of the ID's adapter. The first call
// allocates it, and Manager.Close deallocates it. EINVAL before the ID has an adapter;
// errors of AllocPD.
func (id *ID) PD() (*verbs.PD, error) {
	dev, _, _ := id.place()
	if dev == nil {
		return nil, fmt.Errorf("default protection domain: the ID has no adapter yet: %w", ib.EINVAL)
	}
	return dev.defaultPD()
}

// DestroyQP destroys the queue pair of CreateQP and the completion queues that CreateQP
// created. It sends nothing to the peer. EINVAL if there is no queue pair; errors of
// Destroy.
func (id *ID) DestroyQP() error {
	return id.run("destroy QP", func() error {
		if id.qp == nil {
			return errNoQP
		}
		return id.destroyQP()
	})
}

// destroyQP destroys the QP if there is one. call is held.
func (id *ID) destroyQP() error {
	if id.qp == nil {
		return nil
	}
	if err := id.qp.destroy(); err != nil {
		return err
	}
	for _, j := range id.joins {
		j.attached = false
	}
	return id.do(func(clock.Instant) error {
		id.qp = nil
		return nil
	})
}

// GetSendComp sleeps until a send completes, with any status, or ctx ends. EINVAL unless
// CreateQP created the queue, and once the QP is destroyed; ENODEV if the adapter is
// gone. One goroutine at a time may wait.
func (id *ID) GetSendComp(ctx context.Context) (verbs.WC, error) {
	return id.owned().next(ctx, func(o *ownQP) *queue { return o.sendCQ })
}

// GetRecvComp does the same for a receive.
func (id *ID) GetRecvComp(ctx context.Context) (verbs.WC, error) {
	return id.owned().next(ctx, func(o *ownQP) *queue { return o.recvCQ })
}

// next waits for a completion in one of the queues.
func (o *ownQP) next(ctx context.Context, which func(*ownQP) *queue) (verbs.WC, error) {
	if o == nil {
		return verbs.WC{}, fmt.Errorf("get completion: %w", errNoQP)
	}
	q := which(o)
	if q.ch == nil {
		return verbs.WC{}, fmt.Errorf("get completion: the queue is the program's own: %w", ib.EINVAL)
	}
	var wc [1]verbs.WC
	for {
		n, err := q.cq.Poll(wc[:])
		if n == 0 && err == nil {
			if err = q.cq.ReqNotify(false); err == nil {
				n, err = q.cq.Poll(wc[:])
			}
		}
		switch {
		case n > 0:
			return wc[0], nil
		case isClosed(o.dev.removed):
			return verbs.WC{}, errGone
		case err != nil:
			return verbs.WC{}, err
		}
		select {
		case <-q.ch.C():
		case <-o.done:
			return verbs.WC{}, errNoQP
		case <-o.dev.removed:
		case <-ctx.Done():
			return verbs.WC{}, ctx.Err()
		}
	}
}
