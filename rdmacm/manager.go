package rdmacm

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/verbs"
)

// maxIDs bounds the IDs of a Manager, including those of peers' requests.
const maxIDs = 1 << 17

// Manager joins adapters, as rdma_cm joins those of a host. IDs find an adapter by its
// addresses, and share the ports of the port spaces.
//
// Several goroutines may use a Manager and its objects at once. The state of an ID
// belongs to the control plane of its adapter. One lock of the Manager guards the state that
// several adapters share; it is taken last and never held during a wait.
type Manager struct {
	devices []*adapter
	owned   bool
	done    chan struct{} // closed with the Manager

	mu     lock.Mutex[lock.Manager] // guards the following, the event channels, and what inbox, binding, Channel and adapter say
	ids    map[*ID]struct{}
	ports  portTable
	live   int // adapters that are not gone
	closed bool
}

// errNoManager is returned by calls on a nil Manager.
var errNoManager = fmt.Errorf("no connection manager: %w", ib.EINVAL)

// New returns a Manager of open adapters, which the caller still has to close. EINVAL
// without adapters, or if one occurs twice; ErrInvalidHCA if one is closed.
func New(devices ...*verbs.Context) (*Manager, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("connection manager without an adapter: %w", ib.EINVAL)
	}
	m := &Manager{
		done: make(chan struct{}), live: len(devices),
		ids: make(map[*ID]struct{}), ports: make(portTable),
	}
	for i, ctx := range devices {
		d, err := (*adapter)(nil), fmt.Errorf("it is given twice: %w", ib.EINVAL)
		if !slices.Contains(devices[:i], ctx) {
			d, err = newAdapter(m, ctx)
		}
		if err != nil {
			m.unwatch()
			return nil, fmt.Errorf("adapter %d of the connection manager: %w", i+1, err)
		}
		m.devices = append(m.devices, d)
	}
	return m, nil
}

// Open opens an adapter, which Close closes, and returns its Manager. Errors
// are those of verbs.Open.
func Open(cfg verbs.Config) (*Manager, error) {
	ctx, err := verbs.Open(cfg)
	if err != nil {
		return nil, err
	}
	m, err := New(ctx)
	if err != nil {
		return nil, errors.Join(err, ctx.Close())
	}
	m.owned = true
	return m, nil
}

// disturb applies the rules of faults to a call: those of the first adapter, as a call may be about all.
func (m *Manager) disturb(call string) error { return m.devices[0].dev.Disturb(call, nil) }

// Devices returns the adapters, in the order of New.
func (m *Manager) Devices() (all []*verbs.Context) {
	if m == nil {
		return nil
	}
	for _, d := range m.devices {
		all = append(all, d.ctx)
	}
	return all
}

// IDs returns the number of IDs, including those of pending requests.
func (m *Manager) IDs() int {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ids)
}

// Close destroys every ID with its queue pair, like Destroy but without waiting for
// events to be acknowledged. It closes the event channels and the adapter of Open.
// Calls that wait on a channel return ErrClosed. EBUSY if a default domain is still in
// use; everything else is then closed.
func (m *Manager) Close() error {
	if m == nil {
		return errNoManager
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return fmt.Errorf("close connection manager: %w", ErrClosed)
	}
	m.closed = true
	close(m.done)
	all := slices.Collect(maps.Keys(m.ids))
	m.mu.Unlock()
	var errs []error
	for _, id := range all {
		if err := id.end(); err != nil && !errors.Is(err, errDestroyed) {
			errs = append(errs, err)
		}
	}
	m.unwatch()
	for _, d := range m.devices {
		errs = append(errs, d.freeDomains())
		if m.owned {
			errs = append(errs, d.ctx.Close())
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) unwatch() {
	for _, d := range m.devices {
		d.unwatch()
	}
}

// find returns the adapter that has an address; nil if there is none.
func (m *Manager) find(a netip.Addr) *adapter {
	for _, d := range m.devices {
		if _, ok := d.index(a); ok {
			return d
		}
	}
	return nil
}

// add adds an ID to the Manager. m.mu is held.
func (m *Manager) add(id *ID) error {
	switch {
	case m.closed:
		return ErrClosed
	case len(m.ids) >= maxIDs:
		return fmt.Errorf("%d IDs are the maximum: %w", len(m.ids), ib.ENOMEM)
	}
	m.ids[id] = struct{}{}
	return nil
}

// remove removes an ID that is destroyed, with its port and its pending events, and
// returns the IDs of its pending requests.
func (m *Manager) remove(id *ID) (orphans []*ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ids, id)
	m.ports.release(&id.at)
	return id.inbox.close()
}
