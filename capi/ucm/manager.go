//go:build linux

package ucm

import (
	"fmt"
	"sync"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Manager is what the open files of a process share: IDs can move from one to another,
// and their numbers are of all of them.
type Manager struct {
	cm      *rdmacm.Manager
	devices map[*verbs.Context]uint32 // their numbers in ibv_get_device_index

	mu    sync.Mutex // guards what follows
	last  uint32     // number that was given
	ids   map[uint32]*node
	of    map[*rdmacm.ID]*node
	joins map[uint32]*group
	files map[*File]struct{}
}

// New returns a Manager over that of some adapters, whose numbers are those of
// ibv_get_device_index.
func New(cm *rdmacm.Manager, numbers map[*verbs.Context]uint32) *Manager {
	return &Manager{
		cm: cm, devices: numbers, ids: make(map[uint32]*node), of: make(map[*rdmacm.ID]*node),
		joins: make(map[uint32]*group), files: make(map[*File]struct{}),
	}
}

// maxFiles bounds the open files: a program has no more descriptors for them than this.
const maxFiles = 1 << 16

// node is an ID as the program names it.
type node struct {
	id        *rdmacm.ID
	number    uint32
	datagrams bool // it is of UD

	// The Manager's mu guards what follows.
	file   *File
	uid    uint64        // the program's
	taken  uint32        // events
	route  *rdmacm.Route // nil: none was seen yet; it outlives the connection
	failed []*group      // joins that have, and nobody has left, the oldest first
}

// number returns a number that no ID and no join has. mu is held.
func (m *Manager) number() uint32 {
	for {
		m.last++
		if m.ids[m.last] == nil && m.joins[m.last] == nil {
			return m.last
		}
	}
}

// add gives an ID of a file a number. mu is held.
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

// find returns the ID of a number that belongs to a file: ENOENT if there is none, EINVAL
// if it is another file's.
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

// destroyAll destroys the IDs of which is says that they are meant. mu is held while it
// is asked.
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

// Part destroys the IDs of all files, for a program that ends: its peers are told, as
// the kernel does it. Commands of other threads find no ID from then on.
func (m *Manager) Part() { m.destroyAll(func(*node) bool { return true }) }
