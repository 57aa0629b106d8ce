//go:build !portable

package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/fdmark"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/lock"
)

// Broker serves addresses that processes share.
type Broker struct {
	cfg       Config
	listeners []*listener
	names     []string      // of the listeners
	host      *Lease        // of the member that runs the broker; nil: no member does
	handed    chan struct{} // of a deputy: closed when another process has its store; nil: not a deputy
	recovered bool
	settled   chan struct{} // closed once members of the previous broker have rejoined or had settleTime
	ending    chan struct{} // closed by Close

	conns sync.WaitGroup

	mu        lock.Mutex[lock.Broker] // guards what follows
	groups    [][]int                 // by address, as udp.OpenGroup returns them; only the first socket of each while the host is alone
	connTable *connTable
	store     int
	lock      int     // descriptor that holds brokerLock; -1 while the host is alone
	engine    *engine // nil while the host is alone; once set, it and the fields opened with it do not change

	free      []uint8 // slots without a member, the longest free first
	absent    []uint8 // slots whose member has not rejoined and claimed its services since the takeover
	strangers int
	open      map[*wire]bool
	closed    bool

	membersMu lock.Mutex[lock.MemberConns] // guards members
	members   [256]*memberConn
	unmailed  uint64 // MADs dropped because a member's queue was full
}

// memberConn is a member as the broker sees it.
type memberConn struct {
	Member
	wire    *wire // nil for the host
	forward int
	turn    lock.Mutex[lock.MemberTurn] // held to read a message from wire and to process it

	ended atomic.Bool // whether the process has ended; its children may still hold the slot
}

// newBroker returns a broker without sockets.
func newBroker(c Config) *Broker {
	return &Broker{cfg: c, store: -1, lock: -1, settled: make(chan struct{}), ending: make(chan struct{}), open: make(map[*wire]bool)}
}

// Open opens the sockets of a broker, which Serve then runs. It fails with EADDRINUSE if
// another broker serves an address, or another program has the port.
func Open(c Config) (*Broker, error) {
	addrs, err := iface.Clean(c.Addrs)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	c.Addrs = addrs
	if err := distinct(); err != nil {
		return nil, err
	}
	b := newBroker(c)
	for _, begin := range []func() error{b.openGroups, b.start} {
		if err := begin(); err != nil {
			b.release()
			return nil, err
		}
	}
	return b, nil
}

// listen binds the names of the addresses, of which this process has the UDP port. It fails with
// errSquatted if another user has all names of one of them.
func (b *Broker) listen() error {
	for _, a := range b.cfg.Addrs {
		bound, taken := 0, ""
		for _, name := range namesOf(a, b.cfg.Secret) {
			l, err := listenAt(name)
			if errors.Is(err, unix.EADDRINUSE) {
				taken = squatter(name)
				continue
			}
			if err != nil {
				return err
			}
			b.listeners, b.names = append(b.listeners, l), append(b.names, name)
			bound++
		}
		switch {
		case bound == 0:
			return fmt.Errorf("%w: %s: one process at a time can use %v: %w", errSquatted, taken, a, unix.EPERM)
		case taken != "":
			b.cfg.log("%s: processes that have the user's secret use another socket for %v", taken, a)
		}
	}
	return nil
}

// start opens QP1 in the groups.
func (b *Broker) start() error {
	for i := range b.cfg.Slots {
		b.free = append(b.free, uint8(i+1))
	}
	lease := &udp.Lease{Forwarded: -1}
	for _, group := range b.groups {
		fd, err := fdmark.Copy(group[udp.QP1Socket])
		if err != nil {
			closeAll(lease.Sockets)
			return fmt.Errorf("broker: %w", err)
		}
		lease.Sockets = append(lease.Sockets, fd)
	}
	port, err := udp.Open(udp.Config{Addrs: b.cfg.Addrs, Lease: lease, DisableGRO: true})
	if err != nil {
		return err
	}
	if b.engine, err = newEngine(port, b.cfg.GUID, b.connTable, b.forward); err != nil {
		return errors.Join(err, port.Close())
	}
	if b.recovered {
		return b.restore()
	}
	return nil
}

// label returns the message in the store.
func (b *Broker) label() *message {
	return &message{Version: version, Addrs: b.cfg.Addrs, Slots: b.cfg.Slots, GUID: b.cfg.GUID, Hosted: b.cfg.hosted, Names: b.names}
}

// socketOf returns the socket of a slot in a group.
func socketOf(group []int, slot uint8) int {
	if slot == 0 {
		return group[udp.FirstSocket]
	}
	return group[int(slot)+udp.QP1Socket]
}

// openGroups opens the groups and listens, or takes over what the members have.
func (b *Broker) openGroups() error {
	for _, a := range b.cfg.Addrs {
		first, err := udp.OpenFirst(a)
		if errors.Is(err, unix.EADDRINUSE) {
			for _, g := range b.groups {
				closeAll(g)
			}
			b.groups = nil
			return b.recover(err)
		}
		if err != nil {
			return err
		}
		b.groups = append(b.groups, []int{first})
	}
	if err := b.listen(); err != nil {
		return err
	}
	return b.expand()
}

// expand creates the groups around the first sockets of the addresses.
func (b *Broker) expand() (err error) {
	for i, a := range b.cfg.Addrs {
		if b.groups[i], err = udp.OpenGroup(a, b.groups[i][0], b.cfg.Slots); err != nil {
			return err
		}
	}
	if b.connTable, err = newConnTable(); err != nil {
		return err
	}
	if b.lock, err = b.connTable.hold(brokerLock); err != nil {
		return err
	}
	var listening []int
	for _, l := range b.listeners {
		listening = append(listening, l.fd)
	}
	b.store, err = newStore(b.label(), stored{b.groups, listening, b.connTable})
	return err
}

// recover asks the members of the previous broker for the store, for at most recoverTime. It
// returns inUse if there are none.
func (b *Broker) recover(inUse error) error {
	began := time.Now()
	for pause := firstPause; ; pause = nextPause(pause, began) {
		err := b.ask()
		switch {
		case err == nil || errors.As(err, new(*refusal)):
			return err
		case errors.Is(err, ErrNone) && time.Since(began) > lookTime:
			return inUse
		case time.Since(began) < recoverTime:
			time.Sleep(pause)
		default:
			return fmt.Errorf("%w: %w", err, inUse)
		}
	}
}

// ask asks the deputy of the previous broker's members for the store, and takes it over.
func (b *Broker) ask() error {
	w, err := dial(b.cfg.Addrs[0], b.cfg.Secret)
	if err != nil {
		return err
	}
	defer w.Close()
	m, fds, err := w.exchange(&message{Op: opSucceed, Version: version, Addrs: b.cfg.Addrs}, recoverTime)
	if err != nil {
		return err
	}
	if m.Op != opStore || len(fds) != 2 {
		closeAll(fds)
		return m.refused()
	}
	b.store, b.lock = fds[0], fds[1]
	label, found, err := openStore(b.store, b.cfg.Addrs)
	if err == nil {
		err = b.inherit(label, found)
	}
	if err != nil {
		return &refusal{err}
	}
	return nil
}

// inherit takes over the contents of a store, which it closes if there is an error.
func (b *Broker) inherit(label *message, found stored) error {
	b.groups, b.connTable, b.names = found.groups, found.connTable, label.Names
	b.cfg.Addrs, b.cfg.Slots, b.cfg.GUID, b.cfg.hosted, b.recovered = label.Addrs, label.Slots, label.GUID, label.Hosted, true
	for i, fd := range found.listeners {
		l, err := newListener(fd)
		if err != nil {
			closeAll(found.listeners[i+1:])
			return err
		}
		b.listeners = append(b.listeners, l)
	}
	return nil
}

// Recovered reports whether the broker took over from one that has ended.
func (b *Broker) Recovered() bool { return b.recovered }

// Slots returns the maximum number of members.
func (b *Broker) Slots() int { return b.cfg.Slots }

// Serve serves until the context ends or Close.
func (b *Broker) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = b.Close() })
	defer stop()
	b.admitAll()
	if b.recovered {
		b.settle()
		b.conns.Go(b.retireAbsent)
	}
	close(b.settled)
	b.engine.run()
	var err error
	select {
	case err = <-b.engine.failed:
		_ = b.Close() // unless it is already closed
	case <-b.ending:
	}
	b.conns.Wait()
	return err
}

// admitAll starts to accept connections.
func (b *Broker) admitAll() {
	for _, l := range b.listeners {
		b.conns.Go(func() { b.accept(l) })
	}
}

// Close ends the broker. Members keep their addresses until they close, too.
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return net.ErrClosed
	}
	b.closed = true
	b.release() // before members learn of it: one of them takes brokerLock
	for w := range b.open {
		_ = w.Close() // the goroutine that reads from it ends
	}
	return nil
}

// release closes the descriptors of the broker.
func (b *Broker) release() {
	b.engine.close()
	for _, l := range b.listeners {
		_ = l.Close()
	}
	b.closeGroups(0)
	b.membersMu.Lock()
	if b.host != nil && b.members[b.host.Slot] != nil { // those of others are closed with their connections
		_ = unix.Close(b.members[b.host.Slot].forward)
		b.members[b.host.Slot] = nil
	}
	b.membersMu.Unlock()
	close(b.ending)
}

// closeGroups closes the sockets of the groups except the first but of each, and the
// store, connection table and lock that belong to them.
func (b *Broker) closeGroups(but int) {
	for i, g := range b.groups {
		closeAll(g[but:])
		b.groups[i] = g[:but]
	}
	if b.connTable != nil {
		_ = unix.Close(b.connTable.fd)
		b.connTable = nil
	}
	closeAll([]int{b.store, b.lock})
	b.store, b.lock = -1, -1
}

// Members returns the members by slot.
func (b *Broker) Members() []Member {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.engine == nil {
		return []Member{b.host.member()}
	}
	var all []Member
	_ = b.engine.do(func(clock.Instant) { // a broker that is closed has no members
		b.membersMu.Lock()
		defer b.membersMu.Unlock()
		for _, r := range b.members {
			if r != nil {
				m := r.Member
				m.Services = listening(b.engine.router.members[m.Slot].services)
				all = append(all, m)
			}
		}
	})
	return all
}

// forward sends a packet to a member. The engine calls it.
func (b *Broker) forward(slot uint8, p []byte) {
	b.membersMu.Lock()
	defer b.membersMu.Unlock()
	r := b.members[slot]
	if r == nil {
		return
	}
	if unix.Sendto(r.forward, p, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) != nil {
		b.unmailed++ // the peer repeats it
	}
}

// accept takes the connections of a listener until it is closed.
func (b *Broker) accept(l *listener) {
	for {
		fd, err := l.accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // for example, no descriptors are left
			time.Sleep(acceptPause)
		case fd >= 0:
			b.admit(fd)
		}
	}
}

// acceptPause is how long the broker waits after a failed accept.
const acceptPause = 50 * time.Millisecond

// admit serves a connection of this user, unless too many have not joined yet.
func (b *Broker) admit(fd int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.strangers >= maxStrangers {
		_ = unix.Close(fd)
		return
	}
	w, err := acceptedWire(fd)
	if err != nil {
		return // no descriptors are left
	}
	b.strangers++
	b.open[w] = true
	b.conns.Go(func() {
		r, err := b.join(w)
		b.mu.Lock()
		b.strangers--
		b.mu.Unlock()
		if err != nil {
			_ = w.send(&message{Op: opRefused, Version: version, Error: err.Error(), Errno: errnoOf(err)}) // the process may have ended
		}
		if r != nil {
			stop := watch(r)
			b.serve(r)
			stop()
			b.shutDown(r)
		}
		b.mu.Lock()
		delete(b.open, w)
		b.mu.Unlock()
		_ = w.Close()
	})
}

// errnoOf returns the error number of a refusal.
func errnoOf(err error) syscall.Errno {
	var n syscall.Errno
	if errors.As(err, &n) {
		return n
	}
	return syscall.EINVAL
}

// join reads the first message of a connection. If it is a join, it admits the process
// and returns the member.
func (b *Broker) join(w *wire) (*memberConn, error) {
	who, err := w.peer()
	if err != nil {
		return nil, err
	}
	if err := w.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return nil, err
	}
	m, fds, err := w.receive()
	if err != nil {
		return nil, err
	}
	if b.handed != nil || m.Op == opSucceed {
		closeAll(fds)
		return nil, b.handOver(w, m)
	}
	if m.Op == opWho {
		closeAll(fds)
		return nil, w.send(&message{Op: opMembers, Version: version, Addrs: b.cfg.Addrs, Slots: b.cfg.Slots, Members: b.Members()})
	}
	forward, err := b.inspect(m, fds)
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	if !m.Back {
		<-b.settled // it must not get the slot of a member that is yet to rejoin
	}
	r := &memberConn{Member: Member{PID: int(who.Pid), Program: m.Program}, wire: w, forward: forward}
	err = b.assignSlot(r, m)
	for end := time.Now().Add(vacateTime); errors.Is(err, errHeld) && time.Now().Before(end); err = b.assignSlot(r, m) {
		time.Sleep(vacatePause)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(forward))
	}
	return r, nil
}

// vacateTime is how long a joining process waits until processes without a connection
// have ended; vacatePause is the interval of the checks.
const (
	vacateTime  = 500 * time.Millisecond
	vacatePause = 10 * time.Millisecond
)

// errHeld is returned if all free slots are still held by processes.
var errHeld = fmt.Errorf("broker: all slots are in use, some by stopped processes or by children of processes that have ended: end these, or start with a larger --slots: %w", unix.EAGAIN)

// inspect checks a join and its descriptors, and returns the descriptor of the process's
// queue.
func (b *Broker) inspect(m *message, fds []int) (forward int, err error) {
	switch {
	case m.Op != opJoin:
		return -1, fmt.Errorf("broker: %q from a process that has not joined: %w", m.Op, unix.EPROTO)
	case m.Version != version:
		return -1, otherVersion(m)
	case len(m.Program) > maxProgram:
		return -1, fmt.Errorf("broker: a program with a name of %d bytes: %w", len(m.Program), unix.EPROTO)
	case len(fds) != 1:
		return -1, fmt.Errorf("broker: %d descriptors instead of one: %w", len(fds), unix.EPROTO)
	case int(m.Slot) > b.cfg.Slots:
		return -1, fmt.Errorf("broker: want a slot from 1 to %d, not %d: %w", b.cfg.Slots, m.Slot, unix.EINVAL)
	}
	for _, a := range m.Addrs {
		if !slices.Contains(b.cfg.Addrs, a) {
			return -1, fmt.Errorf("broker: the broker serves %v, not %v: use only addresses that it serves: %w", b.cfg.Addrs, a, unix.EADDRNOTAVAIL)
		}
	}
	return fds[0], isForwardSocket(fds[0])
}

// otherVersion returns the error of a message of another version.
func otherVersion(m *message) error {
	return fmt.Errorf("broker: the process speaks version %d of the protocol, the broker %d: run both from the same release: %w", m.Version, version, unix.EPROTO)
}

// maxProgram bounds the name of a program.
const maxProgram = 64

// lease assigns a slot to a joining process: its previous one if it was a member before.
func (b *Broker) assignSlot(r *memberConn, m *message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return net.ErrClosed
	}
	if m.Back && (b.engine == nil || !b.connTable.held(int(m.Slot))) {
		return fmt.Errorf("broker: no process has slot %d: %w", m.Slot, unix.EPROTO)
	}
	if err := b.awake(); err != nil {
		return err
	}
	var err error
	if r.Slot, err = b.vacancy(m); err != nil {
		return err
	}
	var fds []int
	if !m.Back {
		slotLock, err := b.connTable.hold(int(r.Slot))
		if err != nil {
			return err
		}
		defer unix.Close(slotLock)
		for _, a := range m.Addrs {
			fd := socketOf(b.groups[slices.Index(b.cfg.Addrs, a)], r.Slot)
			drain(fd)
			fds = append(fds, fd)
		}
		fds = append(fds, b.store, slotLock)
	}
	if err := r.wire.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	b.enter(r) // before the process can send: answers may arrive at once
	if err := r.wire.send(&message{Op: opWelcome, Version: version, Slot: r.Slot, GUID: b.cfg.GUID, Hosted: b.cfg.hosted}, fds...); err != nil {
		b.vacate(r)
		if !m.Back {
			b.retire(r.Slot)
		}
		return err
	}
	return nil
}

// arrived ends the wait for the member of a slot. The caller holds mu.
func (b *Broker) arrived(slot uint8) {
	b.absent = slices.DeleteFunc(b.absent, func(s uint8) bool { return s == slot })
}

// enter makes a process with a slot a member. The caller holds mu.
func (b *Broker) enter(r *memberConn) {
	b.free = slices.DeleteFunc(b.free, func(s uint8) bool { return s == r.Slot })
	_ = b.engine.do(func(clock.Instant) { b.engine.router.join(r.Slot) }) // an engine that has failed routes nothing
	b.membersMu.Lock()
	b.members[r.Slot] = r
	b.membersMu.Unlock()
}

// vacancy returns the slot of a returning member. For a new one it returns a free slot that
// no process holds any more and whose last member was disconnected from its peers. New
// members never get slot 0.
func (b *Broker) vacancy(m *message) (uint8, error) {
	switch {
	case m.Back && b.members[m.Slot] != nil:
		return 0, fmt.Errorf("broker: another process has slot %d: %w", m.Slot, unix.EBUSY)
	case m.Back:
		return m.Slot, nil
	case len(b.free) == 0:
		return 0, fmt.Errorf("broker: all %d slots are in use: end a process, or start with a larger --slots: %w", b.cfg.Slots, unix.EAGAIN)
	}
	i := slices.IndexFunc(b.free, func(s uint8) bool { return !slices.Contains(b.absent, s) && !b.connTable.held(int(s)) })
	if i < 0 {
		return 0, errHeld
	}
	return b.free[i], nil
}

// serve processes the messages of a member until its connection ends.
func (b *Broker) serve(r *memberConn) {
	for {
		m, answer, ok := b.next(r)
		if answer != nil && answer.Op == opClaimed && answer.Errno == syscall.EADDRINUSE && b.catchUp(m.Service) {
			answer.Errno = b.engine.claim(r.Slot, m.Service)
		}
		if answer != nil && r.wire.send(answer) != nil || !ok {
			return
		}
	}
}

// handle processes a message of a member, and returns the answer, or nil if there is none. It
// returns false for a message that a member must not send.
func (b *Broker) handle(r *memberConn, m *message) (answer *message, ok bool) {
	if m.Op == opReady {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.arrived(r.Slot)
		return nil, true
	}
	if m.Op == opClaim && m.Seq != 0 {
		b.awaitOthers()
	}
	switch m.Op {
	case opClaim:
		errno := b.engine.claim(r.Slot, m.Service)
		if m.Seq == 0 {
			return nil, true
		}
		return &message{Op: opClaimed, Seq: m.Seq, Errno: errno}, true
	case opRelease:
		b.engine.release(r.Slot, m.Service)
	case opLeave:
		b.engine.settle(r.Slot)
	default:
		return &message{Op: opRefused, Error: fmt.Sprintf("broker: a member said %.20q", m.Op)}, false
	}
	return nil, true
}
