//go:build linux

package ucm

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/rdmacm"
)

func (f *File) createID(c *createID, room int) (answer, error) {
	ps := rdmacm.PortSpace(c.PS)
	if ps == rdmacm.RD {
		return answer{}, fmt.Errorf("port space %#x: %w", c.PS, ib.EINVAL) // a port space that Linux does not have
	}
	id, err := f.m.cm.CreateID(f.ch, ps)
	if err != nil {
		return answer{}, err
	}
	if ps == rdmacm.IB {
		if err := id.SetQPType(ib.QPType(c.QPType)); err != nil {
			_ = id.Destroy() // cannot fail: the ID is new
			return answer{}, err
		}
	}
	f.m.mu.Lock()
	n := f.m.add(f, id, c.UID)
	n.datagrams = ps == rdmacm.UDP || ps == rdmacm.IPoIB || ps == rdmacm.IB && ib.QPType(c.QPType) == ib.UD
	f.m.mu.Unlock()
	a, err := numbered(c.Response, n.number, room)
	a.undo = func() { n.destroy(f.m) }
	return a, err
}

// binary4 is the size of an answer that is a number.
const binary4 = 4

var errNoRoom = fmt.Errorf("no room for the answer: %w", ib.ENOSPC)

// errReserved is returned for commands with values in reserved fields.
var errReserved = fmt.Errorf("a reserved field is not 0: %w", ib.EINVAL)

// numbered returns an answer that is a number.
func numbered(at uint64, n uint32, room int) (answer, error) {
	b, err := encode(numberResp{n}, room, binary4)
	return answer{at: at, bytes: b}, err
}

func (f *File) destroyID(n *node, c *destroyID, room int) (answer, error) {
	if !n.destroy(f.m) { // another thread has destroyed it at the same time
		return answer{}, fmt.Errorf("ID %d is gone: %w", n.number, ib.ENOENT)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return numbered(c.Response, n.taken, room)
}

// destroy destroys an ID. It reports false if another call has destroyed it.
func (n *node) destroy(m *Manager) bool {
	m.mu.Lock()
	is := m.ids[n.number] == n
	if is {
		m.remove(n)
	}
	m.mu.Unlock()
	if is {
		_ = n.id.Destroy() // fails only if the adapter is gone, and then the ID is gone too
	}
	return is
}

func (f *File) bindIP(n *node, c *bindIP) error {
	a, err := named(local(parseSockaddr(c.Addr[:])))
	if err != nil {
		return err
	}
	return f.m.claim(func() error { return n.id.BindAddr(a) })
}

func (f *File) bind(n *node, c *bind) error {
	if c.Reserved != 0 {
		return errReserved
	}
	a, err := named(local(parseSized(c.Addr[:], c.AddrSize)))
	if err != nil {
		return err
	}
	return f.m.claim(func() error { return n.id.BindAddr(a) })
}

// claim calls take, which takes a port. The port may still belong to a file that the program
// has just closed; the kernel closes such files before close returns.
func (m *Manager) claim(take func() error) error {
	err := take()
	if asked := (*device.FaultError)(nil); errors.As(err, &asked) {
		return err
	}
	if errors.Is(err, ib.EADDRINUSE) || errors.Is(err, ib.EADDRNOTAVAIL) {
		m.closeUnread()
		return take() // also if there was no such file: it may have just gone
	}
	return err
}

func (f *File) resolveIP(n *node, c *resolveIP) error {
	src, err := local(parseSockaddr(c.Src[:]))
	if err != nil {
		return err
	}
	dst, err := named(parseSockaddr(c.Dst[:]))
	if err != nil {
		return err
	}
	return f.m.claim(func() error { return n.id.ResolveAddr(src, dst) })
}

func (f *File) resolveAddr(n *node, c *resolveAddr) (err error) {
	if c.Reserved != 0 {
		return errReserved
	}
	var src netip.AddrPort
	if c.SrcSize > 0 {
		if src, err = local(parseSized(c.Src[:], c.SrcSize)); err != nil {
			return err
		}
	}
	dst, err := named(parseSized(c.Dst[:], c.DstSize))
	if err != nil {
		return err
	}
	return f.m.claim(func() error { return n.id.ResolveAddr(src, dst) })
}

func (f *File) resolveRoute(n *node, c *resolveRoute) error {
	if c.TimeoutMS == 0 {
		return fmt.Errorf("the timeout for the route is 0: %w", ib.EINVAL)
	}
	return n.id.ResolveRoute()
}

// migrateID moves an ID to the file to which the command was written.
func (f *File) migrateID(c *migrateID, room int) (answer, error) {
	f.m.mu.Lock()
	n := f.m.ids[c.ID]
	var from *File
	if n != nil {
		from = n.file
	}
	f.m.mu.Unlock()
	switch {
	case n == nil:
		return answer{}, fmt.Errorf("there is no ID %d: %w", c.ID, ib.ENOENT)
	case room < binary4:
		return answer{}, errNoRoom
	case from != f:
		if err := n.id.Migrate(f.ch); err != nil {
			return answer{}, err
		}
	}
	f.m.mu.Lock()
	n.file = f
	a, err := numbered(c.Response, n.taken, room)
	f.m.mu.Unlock()
	from.settle()
	return a, err
}
