//go:build !portable

package broker

import (
	"syscall"

	"github.com/softhca/softhca/internal/fabric/poll"
	"github.com/softhca/softhca/mad"
)

// next returns the next message of a member, nil when none is there after all: somebody
// else has just done what it said. It reports false once the member is gone.
func (b *Broker) next(r *resident) (m, answer *message, ok bool) {
	if !r.wire.await() {
		return nil, nil, false
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	if !r.wire.readable() {
		return nil, nil, true
	}
	return b.read(r)
}

// read reads a message, does what it says, and returns both it and the answer, which is
// nil if there is to be none. It reports false once the member is gone, or has said what
// members do not say. The caller holds the member's turn.
func (b *Broker) read(r *resident) (m, answer *message, ok bool) {
	m, fds, err := r.wire.receive()
	if err != nil {
		return nil, nil, false
	}
	closeAll(fds) // members have nothing to bring
	answer, ok = b.obey(r, m)
	return m, answer, ok
}

// catchUp does what the member says that has a service and that nobody has read yet. It
// reports false where that has changed nothing: the host has it. A process that has given a port back, or
// has ended, may have done so before another one asks for the port, and that one knows.
func (b *Broker) catchUp(id mad.ServiceID) bool {
	b.mu.Lock()
	var r *resident
	if slot, ok := b.holder(id); ok {
		r = b.members[slot]
	}
	b.mu.Unlock()
	if r == nil || r.wire == nil {
		return r == nil // the host does what others say
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	for r.wire.readable() {
		_, answer, ok := b.read(r)
		if !ok {
			_ = r.wire.CloseRead() // which who attends to it finds out
			b.engine.mu.Lock()
			b.engine.router.release(r.Slot, id)
			b.engine.mu.Unlock()
			return true
		}
		if answer != nil {
			_ = r.wire.send(answer) // it may be gone
		}
	}
	return true
}

// holder returns the slot of the member that has a service.
func (b *Broker) holder(id mad.ServiceID) (slot uint8, ok bool) {
	if b.engine == nil {
		return 0, false
	}
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	a := b.engine.router.services[id]
	if a == nil {
		return 0, false
	}
	return a.slot, true
}

// claim gives a service to a member of a slot, if nobody has it any more.
func (b *Broker) claim(slot uint8, id mad.ServiceID) syscall.Errno {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	return b.engine.claim(slot, id)
}

// await waits until something is to be read, and reports false if nothing will be.
func (w *wire) await() bool {
	raw, err := w.SyscallConn()
	return err == nil && raw.Read(canRead) == nil
}

// readable reports whether something is to be read, or the end has come.
func (w *wire) readable() (is bool) {
	raw, err := w.SyscallConn()
	if err != nil {
		return true // who reads finds out why
	}
	if raw.Control(func(fd uintptr) { is = canRead(fd) }) != nil {
		return true
	}
	return is
}

// canRead reports whether a read would not wait.
func canRead(fd uintptr) bool { return poll.Readable(int(fd)) }
