//go:build !portable

package broker

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/mad"
)

// Lease is a process's slot on addresses that it shares. Any goroutine may call its
// methods.
type Lease struct {
	Slot uint8  // of the QPNs and communication IDs
	GUID uint64 // of the node

	addrs   []netip.Addr
	secret  *identity.Secret
	program string
	shared  *atomic.Bool // the port's, if this process was the first on the addresses
	joined  bool         // has joined before, so that it can return
	hosted  bool         // a member runs the broker
	forward int          // the end that the broker writes to
	lock    int          // descriptor that holds brokerLock, which again uses; or -1
	closing chan struct{}
	ended   sync.WaitGroup
	serving sync.WaitGroup // the broker that this process became

	mu       lock.Mutex[lock.Lease] // guards what follows
	wire     *wire                  // nil while the broker is away
	host     *Broker                // that this process runs; nil: none
	store    int                    // -1 while the process is alone
	slotLock int                    // descriptor that holds the slot; -1 while the process is alone
	seq      uint64

	connections func() []Connection // nil before Introduce
	waiting     map[uint64]chan syscall.Errno
	claims      map[mad.ServiceID]int  // number of claims
	granted     map[mad.ServiceID]bool // services that the broker has granted
	changed     chan struct{}          // closed when wire changes
}

// joinTime is how long Join retries with a busy broker.
const joinTime = 5 * time.Second

// awayTime is how long Join retries while the broker is away: its successor may be about to take
// over from the deputy that has answered.
const awayTime = 100 * time.Millisecond

// Join joins the broker of this user on addresses; ErrNone if there is none. The caller
// opens its port with the udp.Lease, and closes it before the lease.
func Join(c Config) (*Lease, *udp.Lease, error) {
	began := time.Now()
	for pause := firstPause; ; pause = nextPause(pause, began) {
		s, sockets, err := try(&c)
		retry := !errors.Is(err, ErrNone) || errors.Is(err, errAway) && time.Since(began) < awayTime
		if err == nil || !retry || errors.As(err, new(*refusal)) || time.Since(began) > joinTime {
			return s, sockets, err
		}
		if errors.Is(err, errFull) {
			pause = fullPause
		}
		time.Sleep(pause) // the broker has closed the connection: it has its maximum number
	}
}

// try is Join without retries.
func try(c *Config) (*Lease, *udp.Lease, error) {
	if err := distinct(); err != nil {
		return nil, nil, fmt.Errorf("%w for this user: %w", ErrNone, err)
	}
	w, err := dial(c.Addrs[0], c.Secret)
	if err != nil {
		return nil, nil, err
	}
	s, forwarded, err := newLease(c)
	if err != nil {
		return nil, nil, errors.Join(&refusal{err}, w.Close())
	}
	s.wire = w
	sockets, err := s.join(w)
	if err != nil {
		closeAll([]int{s.forward, forwarded})
		return nil, nil, errors.Join(err, w.Close())
	}
	n := len(c.Addrs)
	s.store, s.slotLock = sockets[n], sockets[n+1]
	s.ended.Go(s.stay)
	return s, &udp.Lease{Sockets: sockets[:n], Forwarded: forwarded}, nil
}

// queueSize is the size of a member's queue in bytes: for as many MADs as in the socket of a
// process that is alone. The system may grant less.
const forwardBuffer = 4 << 20

// newLease returns a lease without a slot, and the socket from which its port reads its
// queue.
func newLease(c *Config) (s *Lease, forwarded int, err error) {
	ends, err := socketPair()
	if err != nil {
		return nil, -1, err
	}
	iface.SendBuffer(ends[1], forwardBuffer)
	return &Lease{
		addrs: c.Addrs, secret: c.Secret, program: programName(), store: -1, slotLock: -1, lock: -1, forward: ends[1], closing: make(chan struct{}),
		waiting: make(map[uint64]chan syscall.Errno), claims: make(map[mad.ServiceID]int), granted: make(map[mad.ServiceID]bool), changed: make(chan struct{}),
	}, ends[0], nil
}

// programName returns the name of this process for other members: the kernel's, because
// programs may overwrite their arguments; "" if there is none.
func programName() string {
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSuffix(string(name), "\n"), "?")
}

// errFull is returned while too many connections wait to be accepted.
var errFull = errors.New("too many connections wait")

// fullPause is the pause before the next attempt to connect to a broker whose queue of
// connections is full. The pause is short because strangers fill the queue again at once.
const fullPause = time.Millisecond

// dial connects to the broker of this user on an address.
func dial(a netip.Addr, secret *identity.Secret) (*wire, error) {
	none, full := error(unix.ECONNREFUSED), error(nil)
	for _, name := range namesOf(a, secret) {
		w, err := dialName(name)
		switch {
		case err == nil:
			return w, nil
		case errors.Is(err, unix.EPERM):
			none = fmt.Errorf("for this user: %w", err)
		case errors.Is(err, unix.EAGAIN):
			full = fmt.Errorf("broker: %w at %s: %w", errFull, name, err)
		case !errors.Is(err, unix.ECONNREFUSED):
			return nil, fmt.Errorf("broker: %w", err)
		}
	}
	if full != nil {
		return nil, full
	}
	return nil, fmt.Errorf("%w %v: %w", ErrNone, a, none)
}

// dialName connects to a name. It fails with EPERM if another user listens there.
func dialName(name string) (*wire, error) {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: name, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	w := newWire(c)
	if _, err := w.peer(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// join sends a join to a broker, and returns the descriptors that a new member gets.
func (s *Lease) join(w *wire) (fds []int, err error) {
	m := &message{Op: opJoin, Version: version, Addrs: s.addrs, Program: s.program, Slot: s.Slot, Back: s.joined}
	if err := w.send(m, s.forward); err != nil {
		return nil, err
	}
	if err := s.await(w); err != nil {
		return nil, err
	}
	answer, fds, err := w.receive()
	if err != nil {
		return nil, w.silent(err)
	}
	if answer.Op != opWelcome {
		err = answer.refused()
	} else {
		err = s.welcomed(answer, fds)
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	if !s.joined {
		s.Slot, s.GUID, s.joined, s.hosted = answer.Slot, answer.GUID, true, answer.Hosted
	}
	return fds, w.SetReadDeadline(time.Time{})
}

// await waits for the answer of a broker, for at most replyTime. A returning member waits until
// it holds brokerLock itself, or the lease closes: the next broker answers what the last one has
// not read.
func (s *Lease) await(w *wire) error {
	for {
		wait := replyTime
		if s.joined {
			wait = soonPause
		}
		if err := w.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		if w.await() {
			return nil
		}
		if !s.joined {
			return w.silent(os.ErrDeadlineExceeded)
		}
		if lock, err := s.elect(); err == nil {
			s.lock = lock
			return errAway
		}
		if s.closes() {
			return errAway
		}
	}
}

// welcomed checks a welcome and its descriptors.
func (s *Lease) welcomed(m *message, fds []int) error {
	n, want := len(s.addrs), len(s.addrs)+2
	if s.joined {
		want = 0
	}
	if m.Version != version || len(fds) != want || s.joined && m.Slot != s.Slot || !s.joined && (m.Slot == 0 || m.Slot > udp.MaxSlots) {
		return fmt.Errorf("broker: a welcome of version %d to slot %d with %d descriptors: %w", m.Version, m.Slot, len(fds), unix.EPROTO)
	}
	if s.joined {
		return nil
	}
	groups := make([][]int, n)
	for i := range groups {
		groups[i] = fds[i : i+1]
	}
	_, err := openConnTable(fds[n+1])
	return errors.Join(genuine(groups, s.addrs), isForwardSocket(fds[n]), err)
}

// stay reads the messages of the broker, and looks for the next broker when it has ended.
func (s *Lease) stay() {
	for w := s.wire; w != nil; w = s.again() { // only this goroutine sets it
		for {
			m, fds, err := w.receive()
			if err != nil {
				break
			}
			closeAll(fds)
			s.answer(m)
		}
		s.set(nil)
		_ = w.Close()
	}
}

// answer passes an answer to the call that waits for it.
func (s *Lease) answer(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.waiting[m.Seq]; c != nil && m.Op == opClaimed {
		c <- m.Errno
		delete(s.waiting, m.Seq)
	}
}

// set changes the connection to the broker, and wakes calls that wait for a change.
func (s *Lease) set(w *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = w
	s.hurry()
	for _, c := range s.waiting {
		close(c)
	}
	clear(s.waiting)
	close(s.changed)
	s.changed = make(chan struct{})
}

// The pauses between attempts to find the next broker. They are longer after soonTime, within
// which most members find it.
const (
	firstPause = 10 * time.Millisecond
	soonPause  = 40 * time.Millisecond
	lastPause  = 200 * time.Millisecond
	soonTime   = time.Second
)

// nextPause returns the pause after the given one, for attempts that began at since.
func nextPause(pause time.Duration, since time.Time) time.Duration {
	if time.Since(since) < soonTime {
		return min(2*pause, soonPause)
	}
	return min(2*pause, lastPause)
}

// again returns a connection to the next broker; nil once the lease is closed or this process
// is the broker.
func (s *Lease) again() *wire {
	began := time.Now()
	for pause := firstPause; ; pause = nextPause(pause, began) {
		timer := time.NewTimer(pause)
		select {
		case <-s.closing:
			timer.Stop()
			closeAll([]int{s.lock}) // -1, or what await has taken
			return nil
		case <-timer.C:
		}
		lock, err := s.lock, error(nil)
		if s.lock = -1; lock < 0 {
			lock, err = s.elect()
		}
		if err == nil && s.hosted {
			if s.succeed(lock) {
				return nil
			}
			continue
		}
		if err == nil {
			s.deputize(lock)
			began, pause = time.Now(), firstPause
		}
		w, err := dial(s.addrs[0], s.secret)
		if err != nil {
			continue
		}
		if _, err := s.join(w); err == nil && s.reclaim(w) == nil {
			s.set(w)
			return w
		}
		_ = w.Close()
	}
}

// elect returns a descriptor that holds brokerLock. It fails while a process is the broker, or
// this one closes.
func (s *Lease) elect() (lock int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (&connTable{s.slotLock}).hold(brokerLock)
}

// closes reports whether the lease is being closed.
func (s *Lease) closes() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// reclaim claims the services of this process with a new broker. No other process can have
// them, because members of the previous broker rejoin before others join. So it requests no
// answers, which this goroutine could not read meanwhile.
func (s *Lease) reclaim(w *wire) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.granted {
		if err := w.send(&message{Op: opClaim, Service: id}); err != nil {
			return err
		}
	}
	return w.send(&message{Op: opReady})
}

// claimTime is how long a claim waits for the broker.
const claimTime = 5 * time.Second

// Claim makes this process receive the requests for a service, until the same number of
// calls of Release. It waits while there is no broker. Errors: EADDRINUSE if another process
// listens to the service, EAGAIN if there is still no broker after claimTime.
func (s *Lease) Claim(id mad.ServiceID) error {
	timer := time.NewTimer(claimTime)
	defer timer.Stop()
	s.mu.Lock()
	s.claims[id]++
	has := s.granted[id]
	s.mu.Unlock()
	if has {
		return nil
	}
	for {
		if host := s.hosts(); host != nil {
			host.awaitOthers()
			return s.claimed(id, host.adjust(id))
		}
		reply, changed := s.ask(id)
		select {
		case errno, answered := <-reply:
			if answered && errno != errEnds {
				return s.claimed(id, errno)
			}
			if !answered {
				continue
			}
			// The next broker gets the claim.
			select {
			case <-changed:
			case <-timer.C:
				s.Release(id)
				return s.away()
			}
		case <-changed:
		case <-timer.C:
			s.Release(id)
			return s.away()
		}
	}
}

// away returns the reason why the broker does not answer.
func (s *Lease) away() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire == nil {
		return errAway
	}
	return fmt.Errorf("%w (%w)", s.wire.silent(os.ErrDeadlineExceeded), unix.EAGAIN)
}

// claimed returns the error of a claim, and undoes the claim unless it was granted.
func (s *Lease) claimed(id mad.ServiceID, errno syscall.Errno) error {
	if errno == 0 {
		s.grant(id)
		return nil
	}
	s.Release(id)
	if isDomain(id) {
		return fmt.Errorf("another process at %v has the XRC domain of the file: %w", s.addrs[0], errno)
	}
	return fmt.Errorf("another process at %v listens on service %v: %w", s.addrs[0], id, errno)
}

// grant records that this process has a service that it has claimed.
func (s *Lease) grant(id mad.ServiceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[id] > 0 { // not released meanwhile
		s.granted[id] = true
	}
}

// ask sends a claim. Without a broker there is no reply; changed closes when the caller
// should ask again.
func (s *Lease) ask(id mad.ServiceID) (reply chan syscall.Errno, changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire == nil {
		return nil, s.changed
	}
	s.seq++
	reply = make(chan syscall.Errno, 1)
	s.waiting[s.seq] = reply
	_ = s.wire.send(&message{Op: opClaim, Seq: s.seq, Service: id}) // stay notices that the broker has ended
	return reply, s.changed
}

// Release undoes a claim.
func (s *Lease) Release(id mad.ServiceID) {
	s.mu.Lock()
	if s.claims[id]--; s.claims[id] <= 0 {
		delete(s.claims, id)
		delete(s.granted, id)
		if s.wire != nil {
			_ = s.wire.send(&message{Op: opRelease, Service: id}) // a broker that has ended has released it
		}
	}
	host := s.host
	s.mu.Unlock()
	if host != nil {
		host.adjust(id)
	}
}

// Leave tells the broker that this process ends, and has answered all DREQs of its peers, so
// that the broker does not answer them again.
func (s *Lease) Leave() {
	if s == nil {
		return
	}
	if host := s.hosts(); host != nil {
		host.answered(s.Slot)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil {
		_ = s.wire.send(&message{Op: opLeave}) // without a broker, none answers the peers
	}
}

// Close releases the slot. Closing a nil lease does nothing.
func (s *Lease) Close() {
	if s == nil {
		return
	}
	close(s.closing)
	s.mu.Lock()
	_ = unix.Close(s.slotLock) // before the broker learns of it: the slot is free at once
	s.slotLock = -1
	s.hurry()
	s.mu.Unlock()
	s.ended.Wait()
	s.leave()
	closeAll([]int{s.forward, s.store, s.slotLock}) // give may have set store and slotLock a moment ago
}

// hurry makes the goroutine that reads from the broker stop, if the lease is being closed.
func (s *Lease) hurry() {
	if s.closes() && s.wire != nil {
		_ = s.wire.SetReadDeadline(time.Unix(1, 0)) // the reading goroutine closes it
	}
}

// lookTime is how long Look waits while an address is in use and no broker serves it: another
// process may be checking the port at this moment, or the broker may have just ended.
const lookTime = time.Second

// Look returns EADDRINUSE if the port of one of the addresses is taken. With share, an
// address that a broker of this user serves is not. It opens no address for longer than the check.
func Look(addrs []netip.Addr, share bool, secret *identity.Secret) error {
	for _, a := range addrs {
		if err := look(a, share, secret); err != nil {
			return err
		}
	}
	return nil
}

// look is Look for one address.
func look(a netip.Addr, share bool, secret *identity.Secret) error {
	began := time.Now()
	for pause := firstPause; ; pause = nextPause(pause, began) {
		err := udp.Vacant(a)
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil
		}
		served := serves(a, secret)
		if served && share {
			return nil
		}
		if served || time.Since(began) > lookTime {
			return err
		}
		time.Sleep(pause)
	}
}

// serves reports whether a broker of this user serves an address.
func serves(a netip.Addr, secret *identity.Secret) bool {
	w, err := dial(a, secret)
	if err != nil {
		return errors.Is(err, errFull) && slices.ContainsFunc(namesOf(a, secret), ours)
	}
	_ = w.Close()
	return true
}

// Who returns the addresses, the number of slots and the members of the broker of an
// address; ErrNone if there is none.
func Who(a netip.Addr, secret *identity.Secret) (served []netip.Addr, slots int, all []Member, err error) {
	w, err := dial(a, secret)
	if err != nil {
		return nil, 0, nil, err
	}
	defer w.Close()
	m, fds, err := w.exchange(&message{Op: opWho, Version: version}, replyTime)
	if err != nil {
		return nil, 0, nil, err
	}
	closeAll(fds)
	if m.Op != opMembers {
		return nil, 0, nil, m.refused()
	}
	slices.SortFunc(m.Members, func(x, y Member) int { return int(x.Slot) - int(y.Slot) })
	return m.Addrs, m.Slots, m.Members, nil
}
