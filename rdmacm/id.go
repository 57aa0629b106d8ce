package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// PortSpace is a name space of ports, with the values of enum rdma_port_space.
// What is bound in one does not matter in another, nor to the ports of the
// host's sockets. String gives its short name, such as "tcp".
//
//	func (p PortSpace) String() string
type PortSpace = mad.PortSpace

// The port spaces.
const (
	TCP   = mad.PSTCP   // RC queue pairs
	RD    = mad.PSRD    // RD queue pairs; Linux has no such space, so peers are of this package
	UDP   = mad.PSUDP   // UD queue pairs
	IB    = mad.PSIB    // RC or, after SetQPType, UC or UD queue pairs
	IPoIB = mad.PSIPoIB // UD; an adapter of Ethernet resolves no address in it
)

// errDestroyed is returned for calls on an ID that is gone.
var errDestroyed = fmt.Errorf("the ID is nil or destroyed: %w", ib.EINVAL)

// ID is what a connection, a listener or a UD service is made from: struct
// rdma_cm_id. Calls that lead to an event return at once and the event tells;
// those of a synchronous ID, one without an event channel, wait for the event
// and return its error.
//
// Calls may come from several goroutines. One that an ID's state does not allow
// fails with EINVAL and changes nothing. After the adapter is gone all but
// Destroy fail with ENODEV.
type ID struct {
	// Context is the program's own. The ID of a CONNECT_REQUEST begins with its
	// listener's.
	Context any

	m  *Manager
	ps PortSpace

	call      sync.Mutex // serialises the calls, and guards what follows; taken first
	destroyed bool
	settings  settings
	joins     []*join
	listensOn []*adapter
	boundOn   []*adapter // whose other processes cannot have the port

	// The state is that of the adapter's thread. While there is no adapter, call
	// guards it.
	state    idState
	typ      ib.QPType
	conn     *cm.Conn
	path     cm.Path // to the peer, once the route is resolved
	answers  bool    // a DREQ is answered at once, whatever the program does
	accepted bool    // passive: events other than CONNECT_REQUEST are wanted
	leaving  bool    // Disconnect was called

	// Written with call held and on the adapter's thread: one of them is enough
	// to read.
	qp      *ownQP
	channel *Channel // RD only

	// Written with call and m.mu held: one of them is enough to read. An ID of a
	// listener has them from the beginning.
	dev      *adapter
	src, dst netip.AddrPort

	// m.mu guards what follows.
	ch        *EventChannel
	sync      bool   // ch is its own
	event     *Event // sync: the last one that a call took
	acks      ackCount
	waiting   int  // events in ch
	dead      bool // destroyed: no more events
	listening bool
	backlog   backlog
}

// settings are what SetTOS and the like change.
type settings struct {
	tos        uint8
	ackTimeout uint8 // 5-bit code
	ackSet     bool  // ackTimeout is what SetAckTimeout said, not the path's
	cmTimeout  uint8 // 5-bit code; 0: the default
	cmRetries  uint8 // 0: the default
	altPath    AltPathPolicy

	// Written with m.mu held too.
	reuse  bool
	afSet  bool // afOnly is what SetAFOnly said
	afOnly bool
}

// CreateID returns an ID whose events go to ch; without one it is synchronous.
// EINVAL for an unknown port space or a channel of another Manager, ErrClosed
// for one that is closed, ENOMEM when there are no more IDs.
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

// join gives the ID its channel, one of its own for nil. m.mu is held.
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

// place returns the adapter and the addresses of an ID, nothing for nil.
func (id *ID) place() (dev *adapter, src, dst netip.AddrPort) {
	if id == nil {
		return nil, src, dst
	}
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.dev, id.src, id.dst
}

// LocalAddr returns the address and port that the ID is bound to, the zero
// value before that.
func (id *ID) LocalAddr() netip.AddrPort {
	_, src, _ := id.place()
	return src
}

// PeerAddr returns the address that was resolved or that the peer told, the
// zero value before that.
func (id *ID) PeerAddr() netip.AddrPort {
	_, _, dst := id.place()
	return dst
}

// Device returns the adapter; nil before the ID is bound to one of its
// addresses or resolved, and for one that is bound to all.
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

// Event returns the event that ended the last call of a synchronous ID, nil
// if there is none. It is acknowledged by the next such call or by Destroy.
func (id *ID) Event() *Event {
	if id == nil {
		return nil
	}
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.event
}

// run makes one call at a time: f, as long as the ID exists. The error says what
// could not be done.
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

// start is run of a call that leads to one of some events, for which one of a
// synchronous ID waits.
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

// room returns why no event can wait any more.
func (id *ID) room() error {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.waiting >= maxWaiting {
		return fmt.Errorf("%d events of the ID wait to be taken: %w", id.waiting, ib.ENOMEM)
	}
	return nil
}

// post gives the ID's channel an event. Any thread may call it.
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

// complete ends a call that leads to one of some events: one of a synchronous
// ID waits for the next event, whatever it is. call is not held.
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
	case !slices.Contains(to, e.Type): // a connection that has ended before it was established
		err = fmt.Errorf("%v: %w", e.Type, ib.ENOTCONN)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// next takes an event of a synchronous ID, after acknowledging the one before.
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

// keep makes an event the last one of a synchronous ID, and reports false if
// that has been destroyed meanwhile.
func (id *ID) keep(e *Event) bool {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.dead {
		e.ack()
		return false
	}
	id.release() // of another call at the same time
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

// Destroy ends the ID in any state: it disconnects from the peer, rejects a
// listener's requests that were not taken, destroys a queue pair of CreateQP and
// leaves groups. It waits until the events that were taken are acknowledged; it
// discards those that were not. If the queue pair, or the EE context of a channel
// without other connections, cannot be destroyed, Destroy returns that error and
// the ID stays.
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
	id.call.Lock()
	defer id.call.Unlock()
	if id.destroyed {
		return errDestroyed
	}
	// A closed adapter may not have told yet that it is gone.
	if err := id.destroyQP(); err != nil && !errors.Is(err, verbs.ErrInvalidHCA) && !id.dev.isGone() {
		return err
	}
	if id.channel != nil {
		// Nobody may use the channel any more when its EE context ends.
		_ = id.do(id.endConn)
		if err := id.closeChannel(); err != nil {
			return err
		}
	}
	id.destroyed = true
	orphans := id.detach()
	id.stopListening()
	id.giveBack()
	// Of an adapter that is gone, so are the connections.
	_ = id.do(id.endConn)
	for _, o := range orphans {
		_ = o.end() // it has no other user, so this cannot fail
	}
	return nil
}

// endConn ends the connection for good, on the adapter's thread.
func (id *ID) endConn(now clock.Instant) error {
	if id.conn != nil {
		id.conn.Destroy(now)
		id.conn = nil
	}
	return nil
}

// detach takes the ID out of the Manager. It returns the IDs of requests that
// nobody took.
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
