//go:build linux

package ucm

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Manager is the state that the open files of a process share: an ID can move from one file to
// another, and its number is unique among all files.
type Manager struct {
	cm      *rdmacm.Manager
	devices map[*verbs.Context]uint32 // the numbers that ibv_get_device_index returns
	// Listening, if set, is called with the address of each ID that begins to listen.
	Listening func(netip.AddrPort)

	mu    lock.Mutex[lock.UCMManager] // guards what follows
	last  uint32                      // the number given last
	ids   map[uint32]*node
	of    map[*rdmacm.ID]*node
	joins map[uint32]*group
	files map[*File]struct{}
}

// New returns a Manager over the connection manager of some adapters, whose numbers are those
// of ibv_get_device_index.
func New(cm *rdmacm.Manager, numbers map[*verbs.Context]uint32) *Manager {
	return &Manager{
		cm: cm, devices: numbers, ids: make(map[uint32]*node), of: make(map[*rdmacm.ID]*node),
		joins: make(map[uint32]*group), files: make(map[*File]struct{}),
	}
}

// maxFiles bounds the open files: a program cannot have more descriptors.
const maxFiles = 1 << 16

// node is an ID, and its number in the program.
type node struct {
	id        *rdmacm.ID
	number    uint32
	datagrams bool // a UD service

	// The Manager's mu guards what follows.
	file   *File
	uid    uint64        // the program's
	taken  uint32        // events that the program has taken
	route  *rdmacm.Route // nil if there was none yet; it outlives the connection
	failed []*group      // failed joins that the program has not left, the oldest first
}

// number returns an unused number for an ID or a join. mu is held.
func (m *Manager) number() uint32 {
	for {
		m.last++
		if m.ids[m.last] == nil && m.joins[m.last] == nil {
			return m.last
		}
	}
}

// add gives a number to an ID of a file. mu is held.
func (m *Manager) add(f *File, id *rdmacm.ID, uid uint64) *node {
	n := &node{id: id, number: m.number(), file: f, uid: uid}
	m.ids[n.number], m.of[id] = n, n
	return n
}

// remove forgets an ID and its joins. mu is held.
func (m *Manager) remove(n *node) {
	delete(m.ids, n.number)
	delete(m.of, n.id)
	for number, g := range m.joins {
		if g.of == n {
			delete(m.joins, number)
		}
	}
}

// find returns the ID with a number that belongs to a file: ENOENT if there is none, EINVAL if
// it belongs to another file.
func (m *Manager) find(f *File, number uint32) (*node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.ids[number]
	switch {
	case n == nil:
		return nil, fmt.Errorf("there is no ID %d: %w", number, ib.ENOENT)
	case n.file != f:
		return nil, fmt.Errorf("ID %d is of another event channel: %w", number, ib.EINVAL)
	}
	return n, nil
}

// destroyAll destroys the IDs that match which. It calls which with mu held.
func (m *Manager) destroyAll(is func(*node) bool) {
	m.mu.Lock()
	var meant []*node
	for _, n := range m.ids {
		if is(n) {
			meant = append(meant, n)
		}
	}
	m.mu.Unlock()
	for _, n := range meant {
		n.destroy(m)
	}
}

// Shutdown destroys the IDs of all files for a program that ends: like the kernel, it notifies the
// peers. Later commands of other threads find no ID.
func (m *Manager) Shutdown() { m.destroyAll(func(*node) bool { return true }) }
