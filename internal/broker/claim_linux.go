//go:build !portable

package broker

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/poll"
	"github.com/softhca/softhca/mad"
)

// next processes the next message of a member, and returns it with the answer. The message
// is nil if another goroutine has just processed it. next returns false once the connection
// has ended.
func (b *Broker) next(r *memberConn) (m, answer *message, ok bool) {
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

// read reads and processes a message, and returns it with the answer, which is nil if there
// is none. It returns false once the connection has ended, and for a message that a member
// must not send. The caller holds the member's turn.
func (b *Broker) read(r *memberConn) (m, answer *message, ok bool) {
	m, fds, err := r.wire.receive()
	if err != nil {
		return nil, nil, false
	}
	closeAll(fds) // members must not send descriptors
	answer, ok = b.handle(r, m)
	return m, answer, ok
}

// catchUp processes the unread messages of the member that has a service. It returns false
// if the host has the service, which has no such messages. A process may release a port, or
// end, before another one claims the port: the claim must then succeed.
func (b *Broker) catchUp(id mad.ServiceID) bool {
	b.mu.Lock()
	var r *memberConn
	if slot, ok := b.holder(id); ok {
		r = b.members[slot]
	}
	b.mu.Unlock()
	if r == nil || r.wire == nil {
		return r == nil // the host sends no messages
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	for r.wire.readable() {
		_, answer, ok := b.read(r)
		if !ok {
			_ = r.wire.CloseRead() // ends serve
			b.engine.release(r.Slot, id)
			return true
		}
		if answer != nil {
			_ = r.wire.send(answer) // the member may have ended
		}
	}
	return true
}

// holder returns the slot of the member that has a service.
func (b *Broker) holder(id mad.ServiceID) (slot uint8, ok bool) {
	if b.engine == nil {
		return 0, false
	}
	_ = b.engine.do(func(clock.Instant) { // an engine that is closed has no services
		if a := b.engine.router.services[id]; a != nil {
			slot, ok = a.slot, true
		}
	})
	return slot, ok
}

// await waits until the connection is readable, and returns false if it never will be.
func (w *wire) await() bool {
	raw, err := w.SyscallConn()
	return err == nil && raw.Read(canRead) == nil
}

// readable reports whether there is a message to read, or the connection has ended.
func (w *wire) readable() (is bool) {
	raw, err := w.SyscallConn()
	if err != nil {
		return true // the next read returns the error
	}
	if raw.Control(func(fd uintptr) { is = canRead(fd) }) != nil {
		return true
	}
	return is
}

// canRead reports whether a read would not wait.
func canRead(fd uintptr) bool { return poll.Readable(int(fd)) }
