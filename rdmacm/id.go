package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// PortSpace is a name space of ports, with the values of enum rdma_port_space. The
// ports of port spaces, and of the host's sockets, are independent of each other.
// String returns its short name, such as "tcp".
//
//	func (p PortSpace) String() string
type PortSpace = mad.PortSpace

// The port spaces.
const (
	TCP   = mad.PSTCP   // RC queue pairs
	RD    = mad.PSRD    // RD queue pairs; Linux has no such space, so peers are of this package
	UDP   = mad.PSUDP   // UD queue pairs
	IB    = mad.PSIB    // RC or, after SetQPType, UC, UD or XRC queue pairs
	IPoIB = mad.PSIPoIB // UD; an Ethernet adapter resolves no address in it
)

// errDestroyed is returned for calls on an ID that is nil or destroyed.
var errDestroyed = fmt.Errorf("the ID is nil or destroyed: %w", ErrClosed)

// ID is a connection, a listener or a UD service, like struct rdma_cm_id. Calls that
// lead to an event return at once, and the event reports the result. Such a call fails with
// ENOMEM while 64 events of the ID are pending. An ID without an event channel is
// synchronous: its calls wait for the event and return its error.
//
// Several goroutines may call methods at once. A call that the ID's state does not
// allow fails with EINVAL and changes nothing. After the adapter is gone, all calls
// except Destroy fail with ENODEV.
type ID struct {
	// Context belongs to the program. The ID of a CONNECT_REQUEST starts with the
	// Context of its listener.
	Context any

	m         *Manager
	call      lock.Mutex[lock.IDCalls] // serialises the calls; taken first
	destroyed bool                     // guarded by call

	at     binding
	inbox  inbox
	link   link
	groups groups
}

// newID returns an ID that the Manager does not know yet.
func newID(m *Manager, ps PortSpace, typ ib.QPType) *ID {
	id := &ID{m: m}
	id.at = binding{m: m, ps: ps, typ: typ}
	id.inbox.id = id
	id.link.at, id.link.inbox = &id.at, &id.inbox
	id.groups.link = &id.link
	return id
}

// CreateID returns an ID whose events go to ch; if ch is nil, the ID is synchronous.
// EINVAL for an unknown port space or a channel of another Manager, ErrClosed for a
// closed channel, ENOMEM at the limit of IDs.
func (m *Manager) CreateID(ch *EventChannel, ps PortSpace) (*ID, error) {
	if m == nil {
		return nil, fmt.Errorf("create ID: %w", errNoManager)
	}
	var typ ib.QPType
	switch ps {
	case TCP, IB:
		typ = ib.RC
	case UDP, IPoIB:
		typ = ib.UD
	case RD:
		typ = ib.RD
	default:
		return nil, fmt.Errorf("create ID: port space %#x: %w", uint16(ps), ib.EINVAL)
	}
	if err := m.disturb("CMCreateID"); err != nil {
		return nil, err
	}
	id := newID(m, ps, typ)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := id.inbox.use(ch); err != nil {
		return nil, fmt.Errorf("create ID: %w", err)
	}
	if err := m.add(id); err != nil {
		id.inbox.ch.users--
		return nil, fmt.Errorf("create ID: %w", err)
	}
	return id, nil
}

// PortSpace returns the port space.
func (id *ID) PortSpace() PortSpace {
	if id == nil {
		return 0
	}
	return id.at.ps
}

// place returns where the ID is; the zero value for nil.
func (id *ID) place() place {
	if id == nil {
		return place{}
	}
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.at.place
}

// LocalAddr returns the address and port to which the ID is bound; the zero value
// before that.
func (id *ID) LocalAddr() netip.AddrPort { return id.place().src }

// PeerAddr returns the resolved address, or the peer's address from its request; the
// zero value before that.
func (id *ID) PeerAddr() netip.AddrPort { return id.place().dst }

// Device returns the adapter; nil before the ID is bound to one of the adapter's
// addresses or resolved, and for an ID that is bound to all adapters.
func (id *ID) Device() *verbs.Context {
	if dev := id.place().dev; dev != nil {
		return dev.ctx
	}
	return nil
}

// Port returns the adapter's port, which is 1, and 0 without an adapter.
func (id *ID) Port() uint8 {
	if id.Device() == nil {
		return 0
	}
	return 1
}

// Event returns the event that ended the last call of a synchronous ID; nil if there
// is none. The next such call, or Destroy, acknowledges it.
func (id *ID) Event() *Event {
	if id == nil {
		return nil
	}
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.inbox.last
}

// disturb applies the rules of faults to a call.
func disturb(id *ID, call string) error {
	if id == nil {
		return nil
	}
	return id.m.disturb(call)
}

// run calls f, one call at a time, unless the ID is destroyed. what names the operation
// in the error.
func (id *ID) run(what string, f func() error) error {
	if id == nil {
		return fmt.Errorf("%s: %w", what, errDestroyed)
	}
	id.call.Lock()
	defer id.call.Unlock()
	err := errDestroyed
	if !id.destroyed {
		err = f()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// runOn is run with f in the control plane of the ID's adapter.
func (id *ID) runOn(what string, f func(now clock.Instant) error) error {
	return id.run(what, func() error { return id.at.do(f) })
}

// start is run for a call that leads to one of the events to, which must fit into the
// inbox. On a synchronous ID it waits for the event.
func (id *ID) start(what string, f func() error, to ...EventType) error {
	err := id.run(what, func() error {
		if err := id.inbox.room(); err != nil {
			return err
		}
		return f()
	})
	if err != nil {
		return err
	}
	return id.inbox.complete(what, to...)
}

// Migrate moves the ID to another event channel of its Manager, with its pending
// events, which are added at the end; nil makes the ID synchronous. It waits until the
// events that were taken before are acknowledged. EINVAL if ch is nil and the ID is
// already synchronous, and for a channel of another Manager; ErrClosed for a closed
// channel.
func (id *ID) Migrate(ch *EventChannel) error {
	if err := disturb(id, "CMMigrate"); err != nil {
		return err
	}
	var taken <-chan struct{}
	err := id.run("migrate", func() (err error) {
		taken, err = id.inbox.move(ch)
		return err
	})
	if err != nil {
		return err
	}
	id.m.drain(taken)
	return nil
}

// Destroy destroys the ID in any state: it disconnects from the peer, rejects a
// listener's pending requests, destroys a queue pair of CreateQP and leaves groups. It
// discards pending events, and waits until those that were taken are acknowledged. If
// the queue pair, or the EE context of a channel without other connections, cannot be
// destroyed, Destroy returns that error and the ID stays.
func (id *ID) Destroy() error {
	if err := id.end(); err != nil {
		return fmt.Errorf("destroy ID: %w", err)
	}
	id.m.drain(id.inbox.forget(&id.inbox.acks))
	for _, j := range id.groups.joins {
		id.m.drain(id.inbox.forget(&j.acks))
	}
	return nil
}

// end is Destroy without the waiting.
func (id *ID) end() error {
	if id == nil {
		return errDestroyed
	}
	orphans, err := id.m.destroy(id)
	for _, o := range orphans {
		_ = o.end() // it has no other user, so this cannot fail
	}
	return err
}

// destroy destroys an ID, and returns the IDs of pending requests, which the caller destroys:
// their locks have the same rank.
func (m *Manager) destroy(id *ID) (orphans []*ID, err error) {
	id.call.Lock()
	defer id.call.Unlock()
	if id.destroyed {
		return nil, errDestroyed
	}
	// A closed adapter may not have reported yet that it is gone.
	if err := id.destroyQP(); err != nil && !errors.Is(err, verbs.ErrInvalidHCA) && !id.at.dev.isGone() {
		return nil, err
	}
	if id.link.channel != nil {
		// The connection must not use the channel when its EE context is destroyed.
		_ = id.at.do(id.link.end)
		if err := id.link.leaveChannel(); err != nil {
			return nil, err
		}
	}
	id.destroyed = true
	orphans = m.remove(id)
	id.at.close()
	// If the adapter is gone, so is the connection.
	_ = id.at.do(id.link.end)
	return orphans, nil
}
