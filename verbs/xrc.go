package verbs

import (
	"fmt"

	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/device"
)

// XRCDomain is a domain of extended reliable connections (XRC). With XRC a connection reaches
// many receive queues: an initiator (XRCIni) at one side, a target (XRCTgt) at the other, and in
// each request the number of one of the shared receive queues of the target's domain. The
// initiator has a send queue and nothing to receive. The target has no queues: each shared
// receive queue has the protection domain of its requests and the CQ of its receives.
//
// The objects of a domain are of one process: a descriptor that other processes would share
// stands for nothing here.
type XRCDomain struct {
	dev *device.Device
	obj device.XRCD

	check *live.Object
}

// OpenXRCDomain returns a new XRC domain. ErrInsufficientResources at the limit of domains.
func (c *Context) OpenXRCDomain() (*XRCDomain, error) {
	x := &XRCDomain{dev: c.dev()}
	if err := x.dev.OpenXRCD(&x.obj); err != nil {
		return nil, fmt.Errorf("open XRC domain: %w", err)
	}
	x.check = c.checks().Made("XRC domain", 0)
	return x, nil
}

// Close closes the domain. ErrBusy while targets or shared receive queues are in it,
// ErrInvalidXRCD if it was closed before.
func (x *XRCDomain) Close() error {
	err := x.verbs().Close()
	if x != nil && x.dev != nil {
		_ = ended(x.dev.Check, x.check, err)
	}
	return wrap("close XRC domain", err)
}

// CreateQP returns a target (XRCTgt) in RESET. It has neither queues nor CQs. Modify takes the
// attributes of RC without those of the sending side; QP_LAST_WQE_REACHED says that it takes no
// more receives. Errors: ErrInvalidXRCD, ErrInsufficientResources.
func (x *XRCDomain) CreateQP() (*QP, error) {
	return x.target("create XRC target", func(q *QP) error { return x.obj.CreateTarget(&q.obj, q) })
}

// OpenQP returns another handle of the target with number qpn. Both move the same queue pair, an
// event about it comes once for each handle, and the target exists until the last handle is
// destroyed. EINVAL if the domain has no such target, ErrInvalidXRCD.
func (x *XRCDomain) OpenQP(qpn QPN) (*QP, error) {
	return x.target("open QP", func(q *QP) error { return x.obj.OpenTarget(&q.obj, q, qpn) })
}

// target returns a handle that f fills in.
func (x *XRCDomain) target(what string, f func(*QP) error) (*QP, error) {
	if x == nil {
		return nil, fmt.Errorf("%s: %w", what, ErrInvalidXRCD)
	}
	q := &QP{dev: x.dev}
	q.door = device.DoorTo(q.dev, &q.obj.Object)
	if err := f(q); err != nil {
		used(x.dev.Check, err, x.check)
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	q.check = q.dev.Check.MadeQP(q.obj.QP, false, live.QPUses{Domain: x.check})
	return q, nil
}

// CreateXRCSRQ returns a shared receive queue of an XRC domain, as CreateSRQ does. Initiators name
// it by its Number. Requests to it use the protection domain p for memory keys, and its receives
// complete to cq. Errors: those of CreateSRQ, ErrInvalidXRCD, ErrInvalidCQ.
func (p *PD) CreateXRCSRQ(x *XRCDomain, cq *CQ, attr *SRQInitAttr) (*SRQ, error) {
	if p == nil {
		return nil, fmt.Errorf("create XRC SRQ: %w", ErrInvalidPD)
	}
	if attr == nil {
		return nil, fmt.Errorf("create XRC SRQ: %w", errNoAttr)
	}
	s := &SRQ{dev: p.dev}
	err := p.obj.CreateXRCSRQ(&s.obj, s, attr.config(), func() (*device.XRCD, *device.CQ, error) {
		switch {
		case !x.verbs().Of(p.dev):
			return nil, nil, ErrInvalidXRCD
		case !cq.usableIn(p.dev):
			return nil, nil, ErrInvalidCQ
		}
		return &x.obj, &cq.obj, nil
	})
	if err != nil {
		used(p.checks(), err, p.check, x.checked(), cq.checked().Base())
		return nil, fmt.Errorf("create XRC SRQ: %w", err)
	}
	attr.MaxWR, attr.MaxSGE = s.obj.SRQ.Cap()
	s.check = s.dev.Check.MadeSRQ(s.obj.SRQ, attr.MaxWR, p.check, x.check, cq.check.Base())
	return s, nil
}

// Number returns the 24-bit number of a shared receive queue of XRC, which the peer's requests
// have as RemoteSRQN; 0 for others. It is unpredictable, and not used again for a while.
func (s *SRQ) Number() SRQN {
	if s == nil {
		return 0
	}
	return s.obj.SRQ.Num()
}

// checked returns the domain for the checker; nil for none.
func (x *XRCDomain) checked() *live.Object {
	if x == nil {
		return nil
	}
	return x.check
}

// verbs returns the device's side of the domain, nil for nil.
func (x *XRCDomain) verbs() *device.XRCD {
	if x == nil {
		return nil
	}
	return &x.obj
}
