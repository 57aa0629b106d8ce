//go:build !portable

package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/udp"
)

// Broker serves addresses that processes share.
type Broker struct {
	cfg       Config
	listeners []*net.UnixListener
	groups    [][]int // by address, then slot; 0 is QP1
	ledger    *ledger
	ark       int
	port      *udp.Port
	engine    *engine
	recovered bool
	settled   chan struct{} // closed once members from before had their time
	ending    chan struct{} // closed by Close

	conns sync.WaitGroup

	mu        sync.Mutex // guards what follows; engine.mu may be taken while it is held
	free      []uint8    // slots without a member, the one without for longest first
	absent    []uint8    // slots that had one when the broker took over, and nobody has come from there
	strangers int
	open      map[*wire]bool
	closed    bool

	mail     sync.Mutex // guards members; taken under engine.mu
	members  [256]*resident
	unmailed uint64 // MADs that members were too slow for
}

// resident is a member as the broker sees it.
type resident struct {
	Member
	wire *wire
	mail int
}

// Open begins to serve addresses; Serve goes on. It fails with EADDRINUSE where
// another broker does, or somebody else has the port.
func Open(c Config) (*Broker, error) {
	addrs, err := iface.Clean(c.Addrs)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	c.Addrs = addrs
	b := &Broker{cfg: c, ark: -1, settled: make(chan struct{}), ending: make(chan struct{}), open: make(map[*wire]bool)}
	if err := b.begin(); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// begin opens what a broker has.
func (b *Broker) begin() error {
	for _, a := range b.cfg.Addrs {
		l, err := net.ListenUnix("unixpacket", socketName(a))
		if errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("broker: another broker serves %v: end it first, or use it: %w", a, err)
		}
		if err != nil {
			return fmt.Errorf("broker: %w", err)
		}
		b.listeners = append(b.listeners, l)
	}
	if err := b.openGroups(); err != nil {
		return err
	}
	for i := range b.cfg.Slots {
		b.free = append(b.free, uint8(i+1))
	}
	seat := &udp.Seat{Mail: -1}
	for _, group := range b.groups {
		fd, err := unix.FcntlInt(uintptr(group[0]), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeAll(seat.Sockets)
			return fmt.Errorf("broker: %w", err)
		}
		seat.Sockets = append(seat.Sockets, fd)
	}
	var err error
	if b.port, err = udp.Open(udp.Config{Addrs: b.cfg.Addrs, Seat: seat, DisableGRO: true}); err != nil {
		return err
	}
	if b.engine, err = newEngine(b.port, b.cfg.GUID, b.ledger, b.forward); err != nil || !b.recovered {
		return err
	}
	return b.restore()
}

// openGroups opens the groups, or takes those over that members have.
func (b *Broker) openGroups() error {
	for _, a := range b.cfg.Addrs {
		group, err := udp.OpenGroup(a, b.cfg.Slots)
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
		b.groups = append(b.groups, group)
	}
	var err error
	if b.ledger, err = newLedger(); err != nil {
		return err
	}
	b.ark, err = newArk(&message{Version: version, Addrs: b.cfg.Addrs, Slots: b.cfg.Slots, GUID: b.cfg.GUID}, b.groups, b.ledger.fd)
	return err
}

// recover waits for a member of a broker before this one. inUse is returned if
// there is none.
func (b *Broker) recover(inUse error) error {
	end := time.Now().Add(recoverTime)
	l := b.listeners[0]
	for {
		if err := l.SetDeadline(end); err != nil {
			return err
		}
		c, err := l.AcceptUnix()
		if err != nil {
			return inUse
		}
		if b.bring(newWire(c)) {
			b.recovered = true
			return l.SetDeadline(time.Time{})
		}
	}
}

// bringTime is how long a member has to bring the ark.
const bringTime = 100 * time.Millisecond

// bring takes the ark that a member of an earlier broker brings. The member comes
// again to join.
func (b *Broker) bring(w *wire) bool {
	defer w.Close()
	if _, err := w.peer(); err != nil || w.SetReadDeadline(time.Now().Add(bringTime)) != nil {
		return false
	}
	m, fds, err := w.receive()
	if err != nil {
		return false
	}
	if m.Op != opJoin || m.Version != version || m.Slot == 0 || len(fds) != 2 {
		closeAll(fds)
		return false
	}
	_ = unix.Close(fds[0]) // its mail
	label, found, err := openArk(fds[1], b.cfg.Addrs)
	if err != nil {
		b.cfg.Log("%v", err)
		_ = unix.Close(fds[1])
		return false
	}
	b.ark, b.groups, b.ledger, b.cfg.Slots, b.cfg.GUID = fds[1], found.groups, found.ledger, label.Slots, label.GUID
	return true
}

// Recovered reports whether the broker took over from one that has died.
func (b *Broker) Recovered() bool { return b.recovered }

// Slots returns how many processes can join at a time.
func (b *Broker) Slots() int { return b.cfg.Slots }

// Serve serves until the context ends or Close.
func (b *Broker) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = b.Close() })
	defer stop()
	for _, l := range b.listeners {
		b.conns.Go(func() { b.accept(l) })
	}
	if b.recovered {
		settle := time.NewTimer(settleTime)
		defer settle.Stop()
		select {
		case <-settle.C:
		case <-ctx.Done():
		}
		b.conns.Go(b.mourn)
	}
	close(b.settled)
	err := b.engine.run()
	_ = b.Close() // if it was not the reason
	b.conns.Wait()
	return err
}

// Close ends the broker. Members keep their addresses until they close, too.
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return net.ErrClosed
	}
	b.closed = true
	for w := range b.open {
		_ = w.Close() // whoever reads from it sees that
	}
	b.release()
	return nil
}

// release closes what begin opened.
func (b *Broker) release() {
	for _, l := range b.listeners {
		_ = l.Close()
	}
	if b.port != nil {
		_ = b.port.Close()
	}
	for _, g := range b.groups {
		closeAll(g)
	}
	if b.ledger != nil {
		_ = unix.Close(b.ledger.fd)
	}
	if b.ark >= 0 {
		_ = unix.Close(b.ark)
	}
	close(b.ending)
}

// Members returns who has joined, by slot.
func (b *Broker) Members() []Member {
	var all []Member
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.mail.Lock()
	defer b.mail.Unlock()
	for _, r := range b.members {
		if r != nil {
			m := r.Member
			m.Services = len(b.engine.router.members[m.Slot].services)
			all = append(all, m)
		}
	}
	return all
}

// forward gives a member what came for it. It is called by the engine.
func (b *Broker) forward(slot uint8, p []byte) {
	b.mail.Lock()
	defer b.mail.Unlock()
	r := b.members[slot]
	if r == nil {
		return
	}
	if unix.Sendto(r.mail, p, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) != nil {
		b.unmailed++ // peers ask again
	}
}

// accept takes the connections of a listener until it is closed.
func (b *Broker) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptors are left, say
			time.Sleep(acceptPause)
		case !b.admit(c):
			_ = c.Close()
		}
	}
}

// acceptPause is how long the broker waits before it accepts again when the system
// cannot.
const acceptPause = 50 * time.Millisecond

// admit has a connection served, unless there are too many of strangers.
func (b *Broker) admit(c *net.UnixConn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.strangers >= maxStrangers {
		return false
	}
	b.strangers++
	w := newWire(c)
	b.open[w] = true
	b.conns.Go(func() {
		r, err := b.greet(w)
		b.mu.Lock()
		b.strangers--
		b.mu.Unlock()
		if err != nil {
			_ = w.send(&message{Op: opRefused, Version: version, Error: err.Error(), Errno: errnoOf(err)}) // it may be gone
		}
		if r != nil {
			stop := watch(r)
			b.attend(r)
			stop()
			b.part(r)
		}
		b.mu.Lock()
		delete(b.open, w)
		b.mu.Unlock()
		_ = w.Close()
	})
	return true
}

// errnoOf returns what a refusal is to those who read numbers.
func errnoOf(err error) syscall.Errno {
	var n syscall.Errno
	if errors.As(err, &n) {
		return n
	}
	return syscall.EINVAL
}

// greet finds out what a stranger wants, and returns it as a member if that is it.
func (b *Broker) greet(w *wire) (*resident, error) {
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
	if m.Op == opWho {
		closeAll(fds)
		return nil, w.send(&message{Op: opMembers, Version: version, Addrs: b.cfg.Addrs, Slots: b.cfg.Slots, Members: b.Members()})
	}
	mail, err := b.inspect(m, fds)
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	closeAll(fds[1:]) // the ark that this broker has already
	if m.Slot == 0 {
		<-b.settled // it may take no place of who is to come
	}
	r := &resident{Member: Member{PID: int(who.Pid), Program: m.Program}, wire: w, mail: mail}
	err = b.seat(r, m)
	for end := time.Now().Add(vacateTime); errors.Is(err, errHeld) && time.Now().Before(end); err = b.seat(r, m) {
		time.Sleep(vacatePause)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(mail))
	}
	return r, nil
}

// vacateTime is how long who joins waits for a process that has lost its
// connection to end; vacatePause is between looks.
const (
	vacateTime  = 500 * time.Millisecond
	vacatePause = 10 * time.Millisecond
)

// errHeld says that slots are left, but that processes still have their sockets.
var errHeld = fmt.Errorf("broker: all slots are taken, some by processes that have stopped, or by children of some that have ended: end these, or begin with a larger --slots: %w", unix.EAGAIN)

// inspect looks at what a stranger that wants to join brings, and returns its
// mail.
func (b *Broker) inspect(m *message, fds []int) (mail int, err error) {
	want := 1
	if m.Slot != 0 {
		want = 2
	}
	switch {
	case m.Op != opJoin:
		return -1, fmt.Errorf("broker: %q from a process that has not joined: %w", m.Op, unix.EPROTO)
	case m.Version != version:
		return -1, fmt.Errorf("broker: the process speaks version %d of the protocol, the broker %d: run both from the same release: %w", m.Version, version, unix.EPROTO)
	case len(m.Program) > maxProgram:
		return -1, fmt.Errorf("broker: a program with a name of %d bytes: %w", len(m.Program), unix.EPROTO)
	case len(fds) != want:
		return -1, fmt.Errorf("broker: %d descriptors instead of %d: %w", len(fds), want, unix.EPROTO)
	case int(m.Slot) > b.cfg.Slots:
		return -1, fmt.Errorf("broker: there are slots 1 to %d and no %d: %w", b.cfg.Slots, m.Slot, unix.EINVAL)
	}
	for _, a := range m.Addrs {
		if !slices.Contains(b.cfg.Addrs, a) {
			return -1, fmt.Errorf("broker: the broker serves %v and not %v: %w", b.cfg.Addrs, a, unix.EADDRNOTAVAIL)
		}
	}
	return fds[0], isMail(fds[0])
}

// maxProgram bounds the name of a program.
const maxProgram = 64

// seat gives a slot to who joins, or its own to who was a member before.
func (b *Broker) seat(r *resident, m *message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return net.ErrClosed
	}
	i, err := b.vacancy(m.Slot)
	if err != nil {
		return err
	}
	r.Slot = b.free[i]
	var fds []int
	if m.Slot == 0 {
		tenure, err := b.ledger.hold(r.Slot)
		if err != nil {
			return err
		}
		defer unix.Close(tenure)
		for _, a := range m.Addrs {
			fd := b.groups[slices.Index(b.cfg.Addrs, a)][r.Slot]
			drain(fd)
			fds = append(fds, fd)
		}
		fds = append(fds, b.ark, tenure)
	}
	if err := r.wire.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if err := r.wire.send(&message{Op: opWelcome, Version: version, Slot: r.Slot, GUID: b.cfg.GUID}, fds...); err != nil {
		return err
	}
	b.free = slices.Delete(b.free, i, i+1)
	b.absent = slices.DeleteFunc(b.absent, func(s uint8) bool { return s == r.Slot })
	b.engine.mu.Lock()
	b.engine.router.join(r.Slot)
	b.mail.Lock()
	b.members[r.Slot] = r
	b.mail.Unlock()
	b.engine.mu.Unlock()
	return nil
}

// vacancy returns where in free the slot is that was asked for, or, if that is 0,
// one whose sockets nobody has any more.
func (b *Broker) vacancy(slot uint8) (int, error) {
	if slot != 0 {
		i := slices.Index(b.free, slot)
		if i < 0 {
			return 0, fmt.Errorf("broker: another process has slot %d: %w", slot, unix.EBUSY)
		}
		return i, nil
	}
	if len(b.free) == 0 {
		return 0, fmt.Errorf("broker: all %d slots are taken: end a process, or begin with a larger --slots: %w", b.cfg.Slots, unix.EAGAIN)
	}
	i := slices.IndexFunc(b.free, func(s uint8) bool { return !b.ledger.held(s) })
	if i < 0 {
		return 0, errHeld
	}
	return i, nil
}

// attend does what a member asks for, until it is gone.
func (b *Broker) attend(r *resident) {
	for {
		m, fds, err := r.wire.receive()
		if err != nil {
			return
		}
		closeAll(fds) // members have nothing to bring
		b.engine.mu.Lock()
		answer := &message{Op: opClaimed, Seq: m.Seq}
		switch m.Op {
		case opClaim:
			answer.Errno = b.engine.router.claim(r.Slot, m.Service)
		case opRelease:
			b.engine.router.release(r.Slot, m.Service)
			answer = nil
		default:
			answer = &message{Op: opRefused, Error: fmt.Sprintf("broker: a member said %.20q", m.Op)}
		}
		b.engine.mu.Unlock()
		if answer != nil && r.wire.send(answer) != nil || answer != nil && answer.Op == opRefused {
			return
		}
	}
}
