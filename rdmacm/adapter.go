package rdmacm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// errGone is the error of calls and waits once the adapter is closed or has failed.
var errGone = fmt.Errorf("the adapter is gone: %w", ib.ENODEV)

// adapter is an open adapter of a Manager.
type adapter struct {
	m       *Manager
	ctx     *verbs.Context
	addrs   []netip.Addr // its GID table
	mtu     ib.MTU
	maxRD   uint8 // READs and atomics of a QP
	inside  bool  // its network is in this process: the host's routes say nothing about it
	unwatch func()

	dev      *device.Device                 // behind ctx
	hca      *hca.HCA                       // control plane only
	services map[mad.ServiceID]*serviceUser // control plane only
	channels map[*qp.EEC]*Channel           // that IDs use; control plane only

	pdMu  lock.Mutex[lock.Domains] // guards what follows
	pd    *verbs.PD                // default, for IDs without a protection domain of the program
	rdd   *verbs.RDD               // default, for IDs of RD
	noPDs bool                     // the Manager is closed

	gone bool // closed or failed; guarded by m.mu
}

// serviceUser is a service of the adapter and the number of IDs that listen on it: on
// one port, but at different addresses.
type serviceUser struct {
	l     *cm.Listener
	users int
}

func newAdapter(m *Manager, ctx *verbs.Context) (*adapter, error) {
	attr, err := ctx.QueryDevice()
	if err != nil {
		return nil, err
	}
	port, err := ctx.QueryPort()
	if err != nil {
		return nil, err
	}
	dev := device.Of(ctx)
	d := &adapter{
		m: m, ctx: ctx, dev: dev, hca: dev.HCA, mtu: port.ActiveMTU, maxRD: attr.MaxQPRDAtom, inside: port.Transport == "pipe",
		services: make(map[mad.ServiceID]*serviceUser), channels: make(map[*qp.EEC]*Channel),
	}
	for i := range port.GIDTblLen {
		d.addrs = append(d.addrs, ctx.QueryGID(i).Addr())
	}
	d.unwatch = d.dev.Watch(d.lost)
	return d, nil
}

// do runs f in the adapter's control plane. If f could not run, it returns errGone, whether
// the adapter was closed or has failed.
func (d *adapter) do(f func(now clock.Instant) error) error {
	ran := false
	err := d.dev.Control(func(now clock.Instant) error {
		ran = true
		return f(now)
	})
	if err != nil && !ran {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}

// index returns the index of an address in the GID table.
func (d *adapter) index(a netip.Addr) (uint8, bool) {
	i := slices.Index(d.addrs, a)
	return uint8(max(i, 0)), i >= 0
}

// first returns the first address of a's family. It prefers a loopback address if a
// is one, and otherwise another: a loopback address cannot reach another host.
func (d *adapter) first(a netip.Addr) (netip.Addr, bool) {
	var any netip.Addr
	for _, own := range d.addrs {
		switch {
		case own.Is4() != a.Is4():
		case own.IsLoopback() == a.IsLoopback():
			return own, true
		case !any.IsValid():
			any = own
		}
	}
	return any, any.IsValid()
}

// defaultPD returns the default protection domain.
func (d *adapter) defaultPD() (*verbs.PD, error) { return domain(d, &d.pd, d.ctx.AllocPD) }

// defaultRDD returns the default reliable datagram domain.
func (d *adapter) defaultRDD() (*verbs.RDD, error) { return domain(d, &d.rdd, d.ctx.AllocRDD) }

// domain returns a default domain, which the first call allocates.
func domain[T any](d *adapter, have **T, alloc func() (*T, error)) (_ *T, err error) {
	d.pdMu.Lock()
	defer d.pdMu.Unlock()
	switch {
	case d.noPDs:
		return nil, fmt.Errorf("connection manager: %w", ErrClosed)
	case *have == nil:
		*have, err = alloc()
	}
	return *have, err
}

// freeDomains deallocates the default domains, unless the adapter is gone.
func (d *adapter) freeDomains() error {
	d.pdMu.Lock()
	defer d.pdMu.Unlock()
	d.noPDs = true
	if d.isGone() {
		return nil
	}
	if d.rdd != nil {
		if err := d.rdd.Dealloc(); err != nil {
			return fmt.Errorf("default reliable datagram domain: %w", err)
		}
	}
	if d.pd != nil {
		if err := d.pd.Dealloc(); err != nil {
			return fmt.Errorf("default protection domain: %w", err)
		}
	}
	return nil
}

func (d *adapter) isGone() bool {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return d.gone
}

// claim opens a service for a listener with a backlog, unless another process that shares
// the adapter's address has it.
func (d *adapter) claim(s mad.ServiceID, backlog int) error {
	if err := d.dev.Claim(s); err != nil {
		return err
	}
	err := d.do(func(clock.Instant) error { return d.open(s, backlog) })
	if err != nil {
		d.dev.Release(s)
	}
	return err
}

// open makes the adapter accept requests for a service. It runs in the adapter's
// control plane.
func (d *adapter) open(s mad.ServiceID, backlog int) error {
	u := d.services[s]
	if u == nil {
		l, err := d.hca.CM().Listen(s, d.request)
		if err != nil {
			return err
		}
		ps, _, _ := s.IP()
		l.RD = ps == RD
		u = &serviceUser{l: l}
		d.services[s] = u
	}
	u.users++
	u.l.MaxSilent = max(u.l.MaxSilent, backlog, minSilent)
	return nil
}

// shut undoes one call of open.
func (d *adapter) shut(s mad.ServiceID) {
	u := d.services[s]
	if u == nil {
		return
	}
	if u.users--; u.users == 0 {
		u.l.Close()
		delete(d.services, s)
	}
}

// lost tells the IDs of an adapter that it is gone, and with the last adapter the listeners
// on all adapters. It is called once, in the control plane; cause is nil if the adapter is
// being closed, and then connections still disconnect.
func (d *adapter) lost(now clock.Instant, cause error) {
	why := errGone
	if cause != nil {
		why = fmt.Errorf("%w: %w", why, cause)
	}
	d.m.mu.Lock()
	d.gone = true
	d.m.live--
	var ours, wide []*ID
	for id := range d.m.ids {
		switch {
		case id.at.dev == d:
			ours = append(ours, id)
		case id.at.dev == nil && id.at.listener != nil && d.m.live == 0:
			wide = append(wide, id)
		}
	}
	d.m.mu.Unlock()
	for _, id := range ours {
		if cause == nil {
			_ = id.link.end(now) // cannot fail
		}
		id.link.conn, id.link.state = nil, stateRemoved
	}
	for _, id := range append(ours, wide...) {
		id.inbox.post(&Event{Type: EventDeviceRemoval, Err: why})
	}
}

// mtuTo returns the path MTU from an address of the adapter to a peer: that of the port,
// or a lower one if the host's route has a lower MTU.
func (d *adapter) mtuTo(src, dst netip.Addr) ib.MTU {
	if !d.inside {
		if mtu, ok := device.PathMTU(src, dst); ok {
			return min(mtu, d.mtu)
		}
	}
	return d.mtu
}
