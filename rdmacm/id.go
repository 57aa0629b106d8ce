package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
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
	IB    = mad.PSIB    // RC or, after SetQPType, UC or UD queue pairs
	IPoIB = mad.PSIPoIB // UD; an Ethernet adapter resolves no address in it
)

// errDestroyed is returned for calls on an ID that is nil or destroyed.
var errDestroyed = fmt.Errorf("the ID is nil or destroyed: %w", ib.EINVAL)

// ID is a connection, a listener or a UD service, like struct rdma_cm_id. Calls that
// lead to an event return at once, and the event reports the result. An ID without an
// event channel is synchronous: its calls wait for the event and return its error.
//
// Several goroutines may call methods at once. A call that the ID's state does not
// allow fails with EINVAL and changes nothing. After the adapter is gone, all calls
// except Destroy fail with ENODEV.
type ID struct {
	// Context belongs to the program. The ID of a CONNECT_REQUEST starts with the
	// Context of its listener.
	Context any

	m  *Manager
	ps PortSpace

	call      lock.Mutex[lock.IDCalls] // serialises the calls, and guards what follows
	destroyed bool
	settings  settings
	joins     []*join
	listensOn []*adapter
	boundOn   []*adapter // adapters on which the port is reserved against other processes

	// The state belongs to the adapter's thread. While there is no adapter, call guards
	// it.
	state    idState
	typ      ib.QPType
	conn     *cm.Conn
	path     cm.Path // to the peer, once the route is resolved
	answers  bool    // a DREQ is answered at once, without the program
	accepted bool    // passive: events other than CONNECT_REQUEST are wanted
	leaving  bool    // Disconnect was called

	// Written with call held and on the adapter's thread: either suffices to read.
	qp      *ownQP
	channel *Channel // RD only

	// Written with call and m.mu held: either suffices to read. The ID of a request has
	// them from the start.
	dev      *adapter
	src, dst netip.AddrPort

	// m.mu guards what follows.
	ch        *EventChannel
	sync      bool   // synchronous: no other ID uses ch
	event     *Event // sync: the last one that a call took
	acks      ackCount
	waiting   int  // events in ch
	dead      bool // destroyed: no more events
	listening bool
	backlog   backlog
}

// settings holds the values of SetTOS and the other setters.
type settings struct {
	tos        uint8
	ackTimeout uint8 // 5-bit code
	ackSet     bool  // ackTimeout was set by SetAckTimeout; otherwise the path's applies
	cmTimeout  uint8 // 5-bit code; 0: the default
	cmRetries  uint8 // 0: the default
	altPath    AltPathPolicy

	// Written with m.mu held too.
	reuse  bool
	afSet  bool // afOnly was set by SetAFOnly
	afOnly bool
}

// CreateID returns an ID whose events go to ch; if ch is nil, the ID is synchronous.
// EINVAL for an unknown port space or a channel of another Manager, ErrClosed for a
// closed channel, ENOMEM at the limit of IDs.
func (m *Manager) CreateID(ch *EventChannel, ps PortSpace) (*ID, error) {
	if m == nil {
		return nil, fmt.Errorf("create ID: %w", errNoManager)
	}
	id := &ID{m: m, ps: ps}
	switch ps {
	case TCP, IB:
		id.typ = ib.RC
	case UDP, IPoIB:
		id.typ = ib.UD
	case RD:
		id.typ = ib.RD
	default:
		return nil, fmt.Errorf("create ID: port space %#x: %w", uint16(ps), ib.EINVAL)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := id.join(ch); err != nil {
		return nil, fmt.Errorf("create ID: %w", err)
	}
	if err := m.add(id); err != nil {
		id.ch.users--
		return nil, fmt.Errorf("create ID: %w", err)
	}
	return id, nil
}

// join sets the ID's channel, a new one if ch is nil. m.mu is held.
func (id *ID) join(ch *EventChannel) error {
	own := ch == nil
	if own {
		ch = id.m.NewEventChannel()
	}
	switch {
	case ch.m != id.m:
		return fmt.Errorf("the event channel is of another Manager: %w", ib.EINVAL)
	case ch.closed:
		return fmt.Errorf("event channel: %w", ErrClosed)
	}
	id.ch, id.sync = ch, own
	ch.users++
	return nil
}

// PortSpace returns the port space.
func (id *ID) PortSpace() PortSpace {
	if id == nil {
		return 0
	}
	return id.ps
}

// place returns the adapter and the addresses of an ID; zero values for nil.
func (id *ID) place() (dev *adapter, src, dst netip.AddrPort) {
	if id == nil {
		return nil, src, dst
	}
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.dev, id.src, id.dst
}

// LocalAddr returns the address and port to which the ID is bound; the zero value
// before that.
func (id *ID) LocalAddr() netip.AddrPort {
	_, src, _ := id.place()
	return src
}

// PeerAddr returns the resolved address, or the peer's address from its request; the
// zero value before that.
func (id *ID) PeerAddr() netip.AddrPort {
	_, _, dst := id.place()
	return dst
}

// Device returns the adapter; nil before the ID is bound to one of the adapter's
// addresses or resolved, and for an ID that is bound to all adapters.
func (id *ID) Device() *verbs.Context {
	if dev, _, _ := id.place(); dev != nil {
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
	return id.event
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

// runOn is run with f on the thread of the ID's adapter.
func (id *ID) runOn(what string, f func(now clock.Instant) error) error {
	return id.run(what, func() error { return id.do(f) })
}

// start is run for a call that leads to one of the events to. On a synchronous ID it
// waits for the event.
func (id *ID) start(what string, f func() error, to ...EventType) error {
	if err := id.run(what, f); err != nil {
		return err
	}
	return id.complete(what, to...)
}

// do runs f on the thread of the ID's adapter or, while it has none, here.
// call is held.
func (id *ID) do(f func(now clock.Instant) error) error {
	if id.dev == nil {
		return f(0)
	}
	return id.dev.do(f)
}

// room returns an error if the maximum number of events is pending.
func (id *ID) room() error {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.waiting >= maxWaiting {
		return fmt.Errorf("%d events of the ID wait to be taken: %w", id.waiting, ib.ENOMEM)
	}
	return nil
}

// post adds an event to the ID's channel. Any thread may call it.
func (id *ID) post(e *Event) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.dead {
		return
	}
	e.ID, e.about = id, id
	if e.count == nil {
		e.count = &id.acks
	}
	id.ch.put(e)
}

// complete ends a call that leads to one of the events to. On a synchronous ID it waits
// for the next event, of any type. call is not held.
func (id *ID) complete(what string, to ...EventType) error {
	id.m.mu.Lock()
	wait := id.sync
	id.m.mu.Unlock()
	if !wait {
		return nil
	}
	e, err := id.next(context.Background())
	switch {
	case err != nil:
	case e.Err != nil:
		err = e.Err
	case !slices.Contains(to, e.Type): // the connection ended before it was established
		err = fmt.Errorf("%v: %w", e.Type, ib.ENOTCONN)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// next acknowledges the last event of a synchronous ID and takes the next one.
func (id *ID) next(ctx context.Context) (*Event, error) {
	id.m.mu.Lock()
	ch := id.ch
	id.release()
	id.m.mu.Unlock()
	e, err := ch.Get(ctx)
	if err != nil {
		return nil, err
	}
	if id.keep(e) {
		return e, nil
	}
	if e.Type == EventConnectRequest {
		_ = e.ID.end() // it has no other user, so this cannot fail
	}
	return nil, errDestroyed
}

// keep makes an event the last one of a synchronous ID. It returns false if the ID was
// destroyed meanwhile.
func (id *ID) keep(e *Event) bool {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.dead {
		e.ack()
		return false
	}
	id.release() // a concurrent call may have kept one
	id.event = e
	return true
}

// release acknowledges the last event of a synchronous ID. m.mu is held.
func (id *ID) release() {
	if id.event != nil {
		id.event.ack()
		id.event = nil
	}
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
	id.m.mu.Lock()
	waits := []<-chan struct{}{id.acks.wait()}
	for _, j := range id.joins {
		waits = append(waits, j.acks.wait())
	}
	id.m.mu.Unlock()
	for _, w := range waits {
		id.m.drain(w)
	}
	return nil
}

// end is Destroy without the waiting.
func (id *ID) end() error {
	if id == nil {
		return errDestroyed
	}
	orphans, err := id.endAlone()
	for _, o := range orphans {
		_ = o.end() // it has no other user, so this cannot fail
	}
	return err
}

// endAlone destroys the ID and returns the IDs of pending requests.
func (id *ID) endAlone() (orphans []*ID, err error) {
	id.call.Lock()
	defer id.call.Unlock()
	if id.destroyed {
		return nil, errDestroyed
	}
	// A closed adapter may not have reported yet that it is gone.
	if err := id.destroyQP(); err != nil && !errors.Is(err, verbs.ErrInvalidHCA) && !id.dev.isGone() {
		return nil, err
	}
	if id.channel != nil {
		// The connection must not use the channel when its EE context is destroyed.
		_ = id.do(id.endConn)
		if err := id.closeChannel(); err != nil {
			return nil, err
		}
	}
	id.destroyed = true
	orphans = id.detach()
	id.stopListening()
	id.giveBack()
	// If the adapter is gone, so is the connection.
	_ = id.do(id.endConn)
	return orphans, nil
}

// endConn ends the connection for good, on the adapter's thread.
func (id *ID) endConn(now clock.Instant) error {
	if id.conn != nil {
		id.conn.Destroy(now)
		id.conn = nil
	}
	return nil
}

// detach removes the ID from the Manager. It returns the IDs of pending requests.
func (id *ID) detach() (orphans []*ID) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	id.dead = true
	delete(id.m.ids, id)
	id.m.ports.release(id)
	for _, e := range id.ch.remove(id) {
		if e.Type == EventConnectRequest {
			orphans = append(orphans, e.ID)
		}
	}
	id.release()
	id.ch.users--
	if id.sync {
		id.ch.shut()
	}
	return orphans
}
