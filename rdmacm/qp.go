package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
	sendCQ, recvCQ queue
	created        []*verbs.CQ // of those the queues that CreateQP created
	dev            *adapter
	end            sync.Once
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
// Errors: EINVAL before the ID has an adapter, for a second QP, for another service, for
// XRC, and for objects of another adapter; those of verbs' CreateQP.
func (id *ID) CreateQP(pd *verbs.PD, attr *verbs.QPInitAttr) error {
	return id.run("create QP", func() (err error) {
		if id.link.qp != nil {
			return fmt.Errorf("the ID has one: %w", ib.EINVAL)
		}
		if err := id.at.takesQP(pd, attr); err != nil {
			return err
		}
		if pd == nil {
			if pd, err = id.at.dev.defaultPD(); err != nil {
				return err
			}
		}
		own := &ownQP{srq: attr.SRQ != nil, dev: id.at.dev, done: make(chan struct{})}
		if err = own.create(pd, attr); err == nil {
			device.OnDestroy(own.qp, func() { // also if the program destroys it by the verb
				own.wake()
				id.inbox.signal()
			})
			err = id.link.own(own)
		}
		if err != nil {
			err = errors.Join(err, own.destroy())
		}
		return err
	})
}

// takesQP returns an error if the ID cannot have such a queue pair.
func (b *binding) takesQP(pd *verbs.PD, attr *verbs.QPInitAttr) error {
	if attr != nil && attr.Type == 0 {
		attr.Type = b.typ
	}
	var rdd *verbs.RDD
	if b.typ == ib.RD && b.dev != nil && attr != nil {
		var err error
		if rdd, err = b.dev.defaultRDD(); err != nil {
			return err
		}
		if attr.RDD == nil {
			attr.RDD = rdd
		}
	}
	switch {
	case b.dev == nil:
		return fmt.Errorf("the ID has no adapter yet: %w", ib.EINVAL)
	case b.typ == ib.XRCIni || b.typ == ib.XRCTgt:
		return fmt.Errorf("create the %v queue pair with package verbs, and name it in ConnParam: %w", b.typ, ib.EINVAL)
	case attr == nil || attr.Type != b.typ:
		return fmt.Errorf("the ID needs a queue pair of service %v: %w", b.typ, ib.EINVAL)
	case attr.RDD != rdd:
		return fmt.Errorf("the ID needs a queue pair of the reliable datagram domain that its method RDD returns: %w", ib.EINVAL)
	case pd != nil && pd.Context() != b.dev.ctx:
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
func (o *ownQP) queue(cq *verbs.CQ, n uint32) (queue, error) {
	if cq != nil {
		return queue{cq: cq}, nil
	}
	ch := verbs.NewCompChannel(1)
	cq, err := o.dev.ctx.CreateCQ(int(max(n, 1)), ch)
	if err != nil {
		return queue{}, err
	}
	o.created = append(o.created, cq)
	return queue{cq: cq, ch: ch}, nil
}

// destroy destroys the QP and the objects that belong to it. After a failure it can be
// called again.
func (o *ownQP) destroy() error {
	if o.engine() != nil {
		if err := o.qp.Destroy(); err != nil && o.engine() != nil { // the program may have destroyed it first
			return err
		}
	}
	o.wake()
	for len(o.created) > 0 {
		if err := o.created[0].Destroy(); err != nil && !errors.Is(err, verbs.ErrInvalidCQ) { // the program may have destroyed it after its QP
			return err
		}
		o.created = o.created[1:]
	}
	return nil
}

// wake ends the calls that wait for completions of the QP, which is destroyed.
func (o *ownQP) wake() { o.end.Do(func() { close(o.done) }) }

// own moves a QP to a state in which receives can be posted, and makes it the link's.
// ID.call is held.
func (l *link) own(o *ownQP) error {
	if l.at.typ == ib.UD {
		if err := o.ready(); err != nil {
			return err
		}
	}
	return l.at.do(func(now clock.Instant) error {
		if l.at.typ != ib.UD {
			if err := l.at.dev.hca.Prepare(now, o.engine()); err != nil {
				return err
			}
		}
		l.qp = o
		return nil
	})
}

// ready moves a UD queue pair to RTS.
func (o *ownQP) ready() error { return o.qp.ModifyToRTS(verbs.QPAttr{Port: 1, QKey: DefaultQKey}) }

// QP returns the queue pair of CreateQP; nil if there is none.
func (id *ID) QP() *verbs.QP { return id.owned().qp }

// SendCQ returns the completion queue for sends of CreateQP's queue pair; nil without
// one.
func (id *ID) SendCQ() *verbs.CQ { return id.owned().sendCQ.cq }

// RecvCQ returns its completion queue for receives.
func (id *ID) RecvCQ() *verbs.CQ { return id.owned().recvCQ.cq }

// owned returns what CreateQP created; nothing without a QP.
func (id *ID) owned() *ownQP {
	if id == nil {
		return &ownQP{}
	}
	id.call.Lock()
	defer id.call.Unlock()
	if id.link.qp == nil {
		return &ownQP{}
	}
	return id.link.qp
}

// PD returns the default protection domain of the ID's adapter. The first call
// allocates it, and Manager.Close deallocates it. EINVAL before the ID has an adapter;
// errors of AllocPD.
func (id *ID) PD() (*verbs.PD, error) {
	dev := id.place().dev
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
		if id.link.qp == nil {
			return errNoQP
		}
		if err := id.destroyQP(); err != nil {
			return err
		}
		id.inbox.signal()
		return nil
	})
}

// destroyQP destroys the QP if there is one. call is held.
func (id *ID) destroyQP() error {
	if id.link.qp == nil {
		return nil
	}
	if err := id.link.qp.destroy(); err != nil {
		return err
	}
	id.groups.detached()
	return id.at.do(func(clock.Instant) error {
		id.link.qp = nil
		return nil
	})
}

// GetSendComp sleeps until a send completes, with any status, or ctx ends. EINVAL unless
// CreateQP created the queue, and once the QP is destroyed; ENODEV if the adapter is
// gone. One goroutine at a time may wait.
func (id *ID) GetSendComp(ctx context.Context) (verbs.WC, error) {
	o := id.owned()
	return o.next(ctx, o.sendCQ)
}

// GetRecvComp does the same for a receive.
func (id *ID) GetRecvComp(ctx context.Context) (verbs.WC, error) {
	o := id.owned()
	return o.next(ctx, o.recvCQ)
}

// next waits for a completion in one of the queues.
func (o *ownQP) next(ctx context.Context, q queue) (verbs.WC, error) {
	switch {
	case o.qp == nil:
		return verbs.WC{}, fmt.Errorf("get completion: %w", errNoQP)
	case q.ch == nil:
		return verbs.WC{}, fmt.Errorf("get completion: the program created the completion queue: poll it instead: %w", ib.EINVAL)
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
		case o.dev.isGone():
			return verbs.WC{}, errGone
		case err != nil:
			return verbs.WC{}, err
		}
		select {
		case <-q.ch.C(): // also when the adapter goes
		case <-o.done:
			return verbs.WC{}, errNoQP
		case <-ctx.Done():
			return verbs.WC{}, ctx.Err()
		}
	}
}
