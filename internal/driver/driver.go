package driver

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/shard"
)

// ErrDead is returned by every call after the device failed.
var ErrDead = fmt.Errorf("device has failed: %w", ib.EIO)

// Limits of one round.
const (
	batchBytes   = 256 << 10 // outgoing bytes built before they are sent
	inbox        = 16        // datagrams received at once
	roundBatches = 8         // batches sent before the lock is released
)

// Driver runs one adapter: its shard over its ports, and its control plane.
type Driver struct {
	company company
	ports   ports
	first   *port // where the goroutine and sleeping threads wait
	shard   *shard.Shard
	control control
	fatal   func(cause error)
	start   time.Time

	pollers pollers
	failed  atomic.Bool           // dead, by failure
	ended   atomic.Pointer[error] // dead, for threads that are not in the shard
	queued  atomic.Int32          // calls of Do and Control that wait for a lock
	done    sync.WaitGroup        // of the goroutines

	unparked  chan struct{}
	parkTimer *time.Timer // timer of park

	mu        lock.Mutex[lock.Shard] // guards the shard and what follows
	in        []fabric.Datagram
	awake     bool          // the goroutine takes another turn before it waits
	asleep    clock.Instant // time until which the goroutine waits, if not awake
	busyPoll  busyPoll
	sent      uint64 // batches handed to the ports
	coalesce  coalescer
	woke      bool  // this round has woken a program
	bySleeper bool  // this round is that of a thread that sleeps at the port
	entered   bool  // this round is a step of the control plane
	dead      error // why the device no longer runs
}

// Start runs an adapter with one port until Close. It is New, and then Run.
func Start(port fabric.Port, h *hca.HCA, fatal func(cause error)) *Driver {
	d := New([]fabric.Port{port}, h.Shard(), h, fatal)
	d.Run()
	return d
}

// New returns a driver of a shard and its control plane, nil for none, over the shard's ports, in
// their order. Until Run, calls send, but arriving packets wait at the ports, and no timer fires.
// If an invariant of the engine breaks or a port fails, the device is dead, and the thread that
// runs the control plane calls fatal once.
func New(ports []fabric.Port, s *shard.Shard, plane Plane, fatal func(cause error)) *Driver {
	d := &Driver{
		ports: newPorts(ports), shard: s, fatal: fatal, start: time.Now(),
		in: make([]fabric.Datagram, inbox),

		unparked: make(chan struct{}, 1), parkTimer: time.NewTimer(0),
	}
	d.first = &d.ports[0]
	if plane == nil {
		plane = noPlane{}
	}
	d.control.plane = plane
	d.control.due.Store(int64(plane.Expires()))
	plane.SetGuard(d)
	return d
}

// Run starts the goroutine, once, and one for each port after the first. It does nothing after
// Close.
func (d *Driver) Run() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead == nil {
		d.done.Go(d.loop)
		for i := range d.ports[1:] {
			d.done.Go(func() { d.watch(&d.ports[1+i]) })
		}
	}
}

// Now returns the time since the driver was made: the current time as an instant of the engine.
// Any goroutine may call it.
func (d *Driver) Now() clock.Instant { return clock.Instant(time.Since(d.start)) }

// Time returns an instant of the engine as a time of the system's clock.
func (d *Driver) Time(t clock.Instant) time.Time { return d.start.Add(t.Sub(0)) }

// deadline returns when the next timer of either plane is due.
func (d *Driver) deadline() clock.Instant { return min(d.shard.Deadline(), d.control.deadline()) }

// lock makes the caller the shard's thread.
func (d *Driver) lock() {
	if !d.mu.TryLock() {
		d.queued.Add(1)
		d.mu.Lock()
		d.queued.Add(-1)
	}
}

// Do runs f as the shard's thread and sends the resulting packets. It blocks until
// it has the lock. f must not use the control plane; see Control. If the device has failed,
// or fails in f, it returns ErrDead; after Close, an error that unwraps to ENODEV.
func (d *Driver) Do(f func(now clock.Instant)) (err error) {
	d.lock()
	defer func() {
		if dead := d.release(recover()); err == nil {
			err = dead
		}
	}()
	if d.dead != nil {
		return d.dead
	}
	now := d.Now()
	d.sendOwed(now)
	f(now)
	d.transmit(now)
	return nil
}

// sendOwed sends the packets that are owed before the caller can destroy the objects that owe
// them. MADs belong to no such object, so they leave together with those of the caller; if it
// creates QP1 as a queue pair, they wait until it is destroyed.
func (d *Driver) sendOwed(now clock.Instant) {
	if d.shard.Owes() || d.coalesce.waiting.Load() {
		d.transmit(now)
	}
}

// Failed reports whether the device has failed. Any goroutine may call it.
func (d *Driver) Failed() bool { return d.failed.Load() }

// Post tells the shard that work was posted to q. If no other thread holds the lock,
// Post sends the work, or lets it wait for later posts; see coalescer. It does not
// block. Zero work never waits.
func (d *Driver) Post(q *qp.QP, work qp.Posted) {
	alone := d.mu.TryLock()
	if !alone {
		d.shard.RingDoorbell(q)
		if !d.mu.TryLock() {
			return
		}
	}
	defer func() { _ = d.release(recover()) }()
	if d.dead != nil {
		return
	}
	now := d.Now()
	d.pollers.latest.Store(int64(now)) // a program with much to post polls only afterwards
	if alone {
		d.shard.Doorbell(now, q)
	}
	switch {
	case !d.coalesce.posted(now, work, d.pollers.attendance()):
		d.sendPosted(now)
	case alone && work.HonorsSuppression && work.Behind:
		d.coalesce.suppressed.add(q)
	}
}

// SendOverdue sends the waiting posts if they have waited for coalesceTime. Any
// thread may call it; it does nothing if another thread holds the lock.
func (d *Driver) SendOverdue() { d.sendWaiting(coalesceTime) }

// PostsWait reports whether posts wait to be sent with later ones: a polling thread
// must then call Progress or SendOverdue soon. Any thread may call it.
func (d *Driver) PostsWait() bool { return d.coalesce.waiting.Load() }

// sendWaiting sends the waiting posts if they have waited for at least long and no
// other thread holds the lock. It does not block.
func (d *Driver) sendWaiting(long time.Duration) {
	if !d.coalesce.waiting.Load() || !d.mu.TryLock() {
		return
	}
	defer func() { _ = d.release(recover()) }()
	if now := d.Now(); d.dead == nil && d.coalesce.waited(now, long) {
		d.transmit(now)
	}
}

// Progress runs one round without blocking: it receives, fires timers and sends. Any
// thread may call it; it does nothing if another thread holds the lock.
func (d *Driver) Progress() {
	aside := d.pollers.polled()
	if !d.mu.TryLock() {
		return
	}
	send := true
	defer func() { _ = d.releaseFor(recover(), send) }()
	if d.dead != nil {
		return
	}
	now := d.Now()
	d.pollers.latest.Store(int64(now))
	d.coalesce.polled(now)
	if aside {
		// The caller goes on polling: packets that this round makes us owe are sent
		// with its next post, in one datagram, or with its next poll.
		send = false
		d.transmit(now)
		d.receive(now)
		return
	}
	n, now := d.receive(now)
	now = receiveRest(d, n, now)
	d.answer(now)
}

// Armed reports that a program armed a completion queue and may sleep: from now on
// the goroutine receives, even if programs polled before. Any goroutine may call it.
func (d *Driver) Armed() {
	if d.pollers.armed() {
		d.unpark()
	}
	d.sendWaiting(0)
}

// Woke reports that the shard has woken a sleeping program. The shard's thread
// calls it.
func (d *Driver) Woke() { d.woke = true }

// releaseRounds is the maximum number of rounds that a thread sends for others
// before it releases the lock.
const releaseRounds = 4

// release unlocks, runs the control plane for the shard, and returns the error of a dead
// device. panicked is the value that the caller recovered.
func (d *Driver) release(panicked any) error { return d.releaseFor(panicked, true) }

// releaseFor is release for a thread that sends the packets of the control plane later unless
// send is true.
func (d *Driver) releaseFor(panicked any, send bool) error {
	if panicked != nil {
		d.die(fmt.Errorf("%w: %v\n%s", ErrDead, panicked, debug.Stack()))
	}
	dead := d.unlock()
	d.attend(send)
	return dead
}

// unlock unlocks, and returns the error of a dead device. Doorbells that rang while the lock
// was held are answered first, and packets of the control plane sent, by the thread that gets
// the lock again; if they keep ringing, by the goroutine.
func (d *Driver) unlock() error {
	for rounds := 0; ; rounds++ {
		if woke := d.wokeSleeper(); d.dead == nil && (woke || d.needsWake()) {
			d.first.Wake()
		}
		d.ports.wakeWatchers()
		d.entered = false
		dead := d.dead
		d.mu.Unlock()
		if dead != nil || !d.shard.DoorbellRung() && !d.control.owes.Load() {
			return dead
		}
		if rounds == releaseRounds {
			d.recall()
			return nil
		}
		if !d.mu.TryLock() {
			return nil
		}
		d.control.owes.Store(false)
		d.answerDoorbells()
	}
}

// recall makes the goroutine take its next turn at once.
func (d *Driver) recall() {
	if d.pollers.recall() {
		d.unpark()
	}
	d.first.Wake()
}

// needsWake reports whether the goroutine waits wrongly: for arrivals only although
// its port is full, beyond a deadline, or at all although this round could not send
// everything. While the goroutine is aside, pollers take care of all this; after a step of the
// control plane, that does.
func (d *Driver) needsWake() bool {
	if d.awake || d.entered || d.pollers.aside() {
		return false
	}
	sendBlocked := d.first.ignoresRoom()
	late := d.deadline() < d.asleep
	more := d.ports.canSend(d.shard) && !d.shard.DoorbellRung() // the thread that releases the lock answers doorbells
	return sendBlocked || late || more
}

// wokeSleeper reports whether another thread has woken the program that sleeps at the
// port.
func (d *Driver) wokeSleeper() bool {
	woke := d.woke && !d.bySleeper && d.pollers.hasSleeper()
	d.woke, d.bySleeper = false, false
	return woke
}

// answerDoorbells sends for doorbells. It keeps the lock in any case.
func (d *Driver) answerDoorbells() {
	defer func() {
		if r := recover(); r != nil {
			d.die(fmt.Errorf("%w: %v\n%s", ErrDead, r, debug.Stack()))
		}
	}()
	if d.dead == nil { // it may have died under another holder
		d.sendPosted(d.Now())
	}
}

// die stops the device after a broken invariant or a failure of the port. The control plane
// reports it.
func (d *Driver) die(cause error) {
	if d.dead == nil {
		d.dead = cause
		d.ended.Store(&cause)
		d.failed.Store(true)
		d.ports.wake()
		d.unpark()
	}
}

// backlog bounds the number of reads before due timers fire: the packets for which
// the timers wait may have arrived but not been read.
const backlog = 16

// receive reads arrived datagrams and fires due timers. It returns the number of
// datagrams of the first read, and the time of its last action.
func (d *Driver) receive(now clock.Instant) (int, clock.Instant) {
	n, now := d.take(now)
	for i, k := 0, n; k > 0 && i < backlog && d.deadline() <= now; i++ {
		k, now = d.take(now)
	}
	if d.dead != nil {
		return n, now
	}
	if d.shard.Deadline() <= now {
		d.shard.Advance(now)
	}
	if d.control.deadline() <= now {
		d.control.late.Store(true)
	}
	return n, now
}

// restReads bounds the reads of receiveRest.
const restReads = 4

// receiveRest continues after receive, which has read n datagrams, until nothing is left, if
// a program watches its memory. That program may find a completion among what
// receive has read, and then not poll again: what it waits for there often
// arrives together with the completion, and only the goroutine would read it.
func receiveRest(d *Driver, n int, now clock.Instant) clock.Instant {
	if !d.pollers.isWatched(now) {
		return now
	}
	for i := 0; n > 0 && i < restReads; i++ {
		n, now = d.take(now)
	}
	return now
}

// take passes the datagrams of one read of each port to the shard, and returns their number.
func (d *Driver) take(now clock.Instant) (n int, at clock.Instant) {
	d.company.read.Store(int64(now))
	for i := range d.ports {
		k, after := d.takeFrom(&d.ports[i], now)
		n, now = n+k, after
	}
	return n, now
}

// takeFrom passes the datagrams of one read of a port to the shard, and returns their
// number. It dates them after the read: the thread may have been off its processor since
// now, and the wait that an RNR NAK demands would be too short by that time.
func (d *Driver) takeFrom(p *port, now clock.Instant) (int, clock.Instant) {
	n, err := p.Receive(d.in)
	if err != nil && !errors.Is(err, fabric.ErrBlocked) {
		d.die(fmt.Errorf("%w: receive: %w", ErrDead, err))
		return 0, now
	}
	if n > 0 {
		now = d.Now()
		d.busyPoll.arrived(now)
	}
	for i := range n {
		d.shard.Receive(now, p.num, &d.in[i])
	}
	return n, now
}

// transmit sends until nothing is left or the ports are full, and reports whether
// there is more.
func (d *Driver) transmit(now clock.Instant) (more bool) {
	d.coalesce.left(now, d.shard)
	sent := d.sent
	for i := range d.ports {
		more = d.sendBatches(now, &d.ports[i]) || more
	}
	if d.sent != sent {
		d.busyPoll.wrote(d.Now().Sub(now))
	}
	return more
}

// answer is transmit after an arrival, by a thread that does not wait for further
// posts. A program that the arrival has woken may post meanwhile: packets owed to
// the peer must not wait for that.
func (d *Driver) answer(now clock.Instant) (more bool) {
	d.shard.AnswersFirst(true)
	defer d.shard.AnswersFirst(false)
	return d.transmit(now)
}

// sendPosted is transmit for posts. If programs sleep, the peer's program may sleep
// until this one answers, and expect its own request to be complete by then: so the
// acknowledgement is sent before the posts.
func (d *Driver) sendPosted(now clock.Instant) {
	if d.pollers.attended() {
		d.transmit(now)
	} else {
		d.answer(now)
	}
}

// sendBatches sends up to roundBatches batches to a port, and reports whether there is more.
func (d *Driver) sendBatches(now clock.Instant, p *port) (more bool) {
	for range roundBatches {
		if !p.flush(d) {
			return false
		}
		if !d.shard.Pending(p.num) {
			return false
		}
		more = d.shard.Transmit(now, p.num, p.batch)
		if !p.flush(d) || !more {
			return false
		}
	}
	return more
}

// flush hands the batch to the port and reports whether it is empty.
func (p *port) flush(d *Driver) bool {
	if len(p.batch.Pending()) == 0 {
		return true
	}
	err := p.Send(p.batch)
	d.sent++
	p.blocked = errors.Is(err, fabric.ErrBlocked)
	if err != nil && !p.blocked {
		d.die(fmt.Errorf("%w: send: %w", ErrDead, err))
	}
	return err == nil
}

// loop is the goroutine that serves programs that do not poll.
func (d *Driver) loop() {
	for !d.failed.Load() {
		next, alive := d.turn()
		if !alive {
			return
		}
		if next.yield {
			runtime.Gosched()
		}
		if next.aside > 0 {
			d.park(next.aside)
			continue
		}
		if err := d.await(next); err != nil {
			_ = d.fail(fmt.Errorf("%w: wait: %w", ErrDead, err)) // does nothing if the device was closed
			d.attend(true)
			return
		}
	}
}

// wait says what the goroutine does until its next turn.
type wait struct {
	yield       bool          // first let other goroutines run
	aside       time.Duration // then keep away from the port for this time
	look        bool          // or continue at once
	timeout     time.Duration // or wait; 0: only yield the processor; negative: forever
	read, write bool
}

// sleeps reports whether the goroutine waits at the port.
func (w wait) sleeps() bool { return !w.look && w.timeout != 0 }

// brief returns the wait of a goroutine that does not know yet whether a program goes on
// polling: a short one, after a yield. The thread of a longer one could be the last on which
// the runtime can run that program, when the goroutines of other adapters wait, too: the
// runtime takes 10 ms or more to notice.
func (w wait) brief() wait {
	w.yield = true
	if w.timeout < 0 || w.timeout > leastAside {
		w.timeout = leastAside
	}
	return w
}

// await waits as next says.
func (d *Driver) await(next wait) error {
	if next.look {
		return nil
	}
	from := d.Now()
	err := d.first.Wait(next.timeout, next.read, next.write)
	if next.timeout == 0 {
		d.busyPoll.yielded(from, d.Now())
	}
	return err
}

// turn steps aside for pollers, or runs a round. While others poll, it does not wait
// for the lock: they would have to wait until this thread is scheduled. If a call of Do
// waited for the lock during the round, turn asks for a yield before the goroutine waits at
// the port: the runtime does not know that this wait blocks, and might leave the call queued
// behind it.
func (d *Driver) turn() (next wait, alive bool) {
	if aside := d.pollers.look(d.Now()); aside > 0 {
		if d.stranded() { // before sending anything, whose answer could arrive just then
			return wait{look: true}, true
		}
		d.sendWaiting(coalesceTime)
		return wait{aside: aside}, true
	}
	if !d.mu.TryLock() {
		switch {
		case d.pollers.polling:
			return wait{yield: true}, true
		case d.pollers.miss(d.Now()):
			return wait{timeout: awayTime}, true
		}
		d.mu.Lock()
	}
	d.pollers.missed = 0
	next, alive = d.round()
	next.yield = next.yield || d.queued.Load() > 0
	return next, alive
}

// stranded reads the port if pollers have not polled for awayTime. It reports
// whether datagrams were waiting: then the goroutine takes the port back.
func (d *Driver) stranded() bool {
	if !d.pollers.away(d.Now()) || !d.mu.TryLock() {
		return false
	}
	defer func() { _ = d.release(recover()) }()
	if d.dead != nil {
		return false
	}
	n, now := d.receive(d.Now())
	if n == 0 {
		return false
	}
	d.answer(now)
	d.pollers.distrust(now)
	return true
}

// round receives and sends once and decides how to wait. It releases the lock.
//
// A program that it has woken runs next, if necessary on this thread: waking another
// thread is slow.
func (d *Driver) round() (next wait, alive bool) {
	defer func() { _ = d.release(recover()) }()
	if d.dead != nil {
		return wait{}, false
	}
	d.woke = false
	n, now := d.receive(d.Now())
	if n > 0 {
		d.pollers.found(now)
	}
	more := d.answer(now)
	if d.attends() {
		if now, more = d.leave(); d.dead != nil {
			return wait{}, false
		}
	}
	if d.woke && !more && !d.first.blocked && d.pollers.offer() {
		d.awake = false
		return wait{yield: true, aside: leastAside}, d.dead == nil
	}
	next = d.pause(now, more || now.Sub(d.pollers.last) < busyPollTime)
	next.yield = d.woke
	if d.pollers.polling && next.sleeps() {
		next = next.brief()
	}
	return next, d.dead == nil
}

// leave runs the control plane out of the shard, during a round of the goroutine.
func (d *Driver) leave() (now clock.Instant, more bool) {
	woke := d.woke
	d.awake = true // it looks again before it waits
	_ = d.unlock()
	d.attend(false)
	d.mu.Lock()
	d.woke = d.woke || woke
	now = d.Now()
	return now, d.dead == nil && d.answer(now)
}

// pause decides how to wait; awake means that there is a reason not to sleep. A timer
// that is due sooner than a thread can be woken is another reason, unless the machine
// is busy: there a thread runs again later after a yield than after a sleep. While a program
// watches its memory, the thread sleeps between arrivals, too.
func (d *Driver) pause(now clock.Instant, awake bool) wait {
	how := d.busyPoll.next(now)
	if d.pollers.isWatched(now) {
		how = pauseSleep
	}
	awake = awake || d.deadline().Sub(now) < busyPollTime && !d.busyPoll.isCrowded(now)
	if awake && how == pauseSleep {
		how = pauseYield
	}
	if d.awake = how != pauseSleep && !d.first.blocked; d.awake {
		return wait{look: how == pauseNone}
	}
	return d.untilWoken()
}

// untilWoken returns how to wait for arrivals, the next deadline, and room in
// the first port if it is full.
func (d *Driver) untilWoken() wait {
	next := wait{timeout: -1, read: true, write: d.first.blocked}
	d.asleep, d.first.writing = d.deadline(), d.first.blocked
	if d.asleep != clock.Never {
		next.timeout = max(d.asleep.Sub(d.Now()), time.Microsecond)
	}
	return next
}

// park keeps the goroutine away from the port for t, or until unpark. It sleeps in the
// Go runtime: in a system call it would keep the runtime's monitor thread awake, which
// slows down polling programs.
func (d *Driver) park(t time.Duration) {
	var ends <-chan time.Time
	if t != forever {
		d.parkTimer.Reset(t)
		ends = d.parkTimer.C
	}
	select {
	case <-d.unparked:
	case <-ends:
	}
}

// unpark ends park, or the next park.
func (d *Driver) unpark() {
	select {
	case d.unparked <- struct{}{}:
	default:
	}
}

const (
	drainTime  = 200 * time.Millisecond // how long a device that leaves waits for room in full ports
	drainPause = 200 * time.Microsecond // between two attempts to send
)

// Drain sends what is due before the device leaves: acknowledgements, the requests that may be sent
// now, and messages of the connection manager. If a port is full, Drain waits for room, for
// drainTime at most. Its error is that of Do.
func (d *Driver) Drain() error {
	err := d.Control(func(clock.Instant) {})
	from := d.Now()
	for err == nil {
		full := false
		err = d.Do(func(now clock.Instant) {
			d.transmit(now)
			full = d.ports.full()
		})
		if !full || d.Now().Sub(from) >= drainTime {
			break
		}
		time.Sleep(drainPause)
	}
	return err
}

// Close stops the goroutines and closes the ports. Calls that come later return
// an error.
func (d *Driver) Close() error {
	_ = d.Drain() // a failed device sends nothing
	d.end(fmt.Errorf("device is closed: %w", ib.ENODEV))
	var err error
	for i := range d.ports {
		if e := d.ports[i].Close(); err == nil {
			err = e
		}
	}
	d.unpark()
	d.done.Wait()
	return err
}

// end makes later calls return an error. No call of Control is under way when it returns.
func (d *Driver) end(why error) {
	c := &d.control
	c.mu.Lock()
	defer c.mu.Unlock()
	d.mu.Lock()
	if d.dead == nil {
		d.dead = why
		d.ended.Store(&why)
	}
	d.mu.Unlock()
	d.tell()
	c.told.Store(true)
}
