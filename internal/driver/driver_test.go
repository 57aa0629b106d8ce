package driver

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
)

func newSides(t testing.TB) (a, b *side) {
	t.Helper()
	n := pipe.NewNetwork(pipe.Options{})
	return newSide(t, n, 1), newSide(t, n, 2)
}

// died checks that a device has failed: its user got the cause, once, and every
// call returns EIO.
func (s *side) died(t *testing.T) (cause error) {
	t.Helper()
	select {
	case cause = <-s.fatal:
	case <-time.After(waitLimit):
		t.Fatal("nobody was told that the device is dead")
	}
	if !errors.Is(cause, ErrDead) || !errors.Is(cause, syscall.EIO) {
		t.Errorf("the cause is %v, want one that is ErrDead and EIO", cause)
	}
	if !s.drv.Failed() {
		t.Error("a dead device does not say so")
	}
	for range 3 {
		err := s.drv.Do(func(clock.Instant) { t.Error("a dead device ran its shard") })
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("a call on a dead device returns %v, want EIO", err)
		}
		s.drv.Post(s.qp, qp.Posted{})
		s.drv.Progress()
	}
	must.Do(t, s.drv.Close())
	if len(s.fatal) != 0 {
		t.Error("its user was told twice")
	}
	return cause
}

// TestPanicIsDeviceFatal breaks an invariant on every thread that the shard
// can run on.
func TestPanicIsDeviceFatal(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("the goroutine", func(t *testing.T) {
		a, _ := newSides(t)
		a.port.lying.Store(true)
		a.port.Wake()
		if cause := a.died(t); !bytes.Contains([]byte(cause.Error()), []byte("index out of range")) {
			t.Errorf("the cause does not say what broke: %v", cause)
		}
	})
	t.Run("a poller", func(t *testing.T) {
		a, _ := newSides(t)
		a.idle(t)
		a.port.lying.Store(true)
		a.drv.Progress()
		a.died(t)
	})
	t.Run("a call", func(t *testing.T) {
		a, _ := newSides(t)
		err := a.drv.Do(func(clock.Instant) { panic("broken") })
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("the call that broke the device returns %v, want EIO", err)
		}
		a.died(t)
	})
	t.Run("a doorbell", func(t *testing.T) {
		a, b := newSides(t)
		a.connect(t, b, 14, 7)
		sends := 0
		bell := func() {
			if sends++; sends == 1 {
				a.post(t, b, 8) // this thread has the shard: it answers before it lets go
				return
			}
			panic("broken")
		}
		a.port.onSend.Store(&bell)
		a.post(t, b, 8)
		a.died(t)
	})
}

// TestPortFailureIsDeviceFatal lets each call of the port fail for good.
func TestPortFailureIsDeviceFatal(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, fail := range map[string]func(a, b *side){
		"receive": func(a, _ *side) { a.port.failRecv.Store(true) },
		"wait":    func(a, _ *side) { a.port.failWait.Store(true) },
		"send": func(a, b *side) {
			a.port.failSend.Store(true)
			a.post(t, b, 8)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newSides(t)
			a.connect(t, b, 14, 7)
			fail(a, b)
			a.port.Wake()
			if cause := a.died(t); !errors.Is(cause, errBroken) {
				t.Errorf("the cause is %v, want the port's error", cause)
			}
		})
	}
}

// TestBlockedSendResumes has a port that accepts no packets for a while: posted
// requests are sent as soon as it does, without a further call.
func TestBlockedSendResumes(t *testing.T) {
	for _, times := range []int32{1, 2, 50} {
		a, b := newSides(t)
		a.connect(t, b, 0, 7) // no retry timer: nothing else sends again
		b.connect(t, a, 0, 7)
		a.idle(t)
		for i := range a.buf {
			a.buf[i] = byte(i * 5)
		}
		a.port.blocks.Store(times)
		a.post(t, b, uint32(len(a.buf)))
		if wc := a.completion(t); wc.Status != ib.WCSuccess {
			t.Fatalf("blocked %d times: %v", times, wc.Status)
		}
		b.do(t, func(clock.Instant) {}) // after the thread that stored the bytes
		if !bytes.Equal(a.buf, b.buf) {
			t.Errorf("blocked %d times, other bytes arrived", times)
		}
		if times > 1 && a.port.waited().writing == 0 {
			t.Errorf("blocked %d times, the driver never waited for room to send", times)
		}
	}
}

// TestPostFromIdleArmsTimer posts to a peer that does not answer, while the
// driver's goroutine waits forever: the retries still are made in
// time.
func TestPostFromIdleArmsTimer(t *testing.T) {
	a, b := newSides(t)
	const timeout, retries = 10, 2 // 4.2 ms, three times
	a.connect(t, b, timeout, retries)
	must.Do(t, b.drv.Close()) // its address has no owner now
	a.idle(t)
	a.cq.Arm(false)
	start := time.Now()
	a.post(t, b, 8)
	select {
	case <-a.event:
	case <-time.After(waitLimit):
		t.Fatal("the retry timer was never armed")
	}
	took := time.Since(start)
	wc := make([]ib.WC, 1)
	if a.cq.Poll(wc) != 1 || wc[0].Status != ib.WCRetryExcErr {
		t.Errorf("completion %+v, want RETRY_EXC_ERR", wc[0])
	}
	if least := (retries + 1) * ib.AckTimeout(timeout); took < least {
		t.Errorf("gave up after %v, before %v", took, least)
	}
	a.idle(t) // nothing is left to wait for
}

// TestDoorbellWhileAnotherHasTheShard posts while a call holds the shard: the
// post returns at once, and the holder sends for it.
func TestDoorbellWhileAnotherHasTheShard(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	a.idle(t)
	held, posted := make(chan struct{}), make(chan struct{})
	called := make(chan error, 1)
	go func() {
		called <- a.drv.Do(func(clock.Instant) {
			close(held)
			<-posted
		})
	}()
	<-held
	a.post(t, b, 100)
	close(posted)
	must.Do(t, <-called)
	if wc := a.completion(t); wc.Status != ib.WCSuccess {
		t.Errorf("completion %+v", wc)
	}
}

// holdGoroutine keeps s's goroutine from doing anything until it is let go.
func (s *side) holdGoroutine(t *testing.T) (letGo func()) {
	t.Helper()
	s.idle(t)
	held, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	wait := func() {
		once.Do(func() {
			close(held)
			<-free
		})
	}
	s.port.onWait.Store(&wait)
	s.port.Wake()
	select {
	case <-held:
	case <-time.After(waitLimit):
		t.Fatal("the goroutine does not wait in its port")
	}
	return sync.OnceFunc(func() { close(free) })
}

// TestDoorbellDuringSend posts while another post is at the port, too late for
// its round: the holder of the shard sends it nevertheless, alone.
func TestDoorbellDuringSend(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7)
	defer a.holdGoroutine(t)()
	sends := 0
	another := func() {
		if sends++; sends == 1 {
			a.post(t, b, 8)
		}
	}
	a.port.onSend.Store(&another)
	a.post(t, b, 8)
	if sends != 2 {
		t.Errorf("%d sends for two posts, the second during the first send", sends)
	}
}

// TestPosterIsNotKept goes on posting while a post is with the port: the first
// poster sends for a bounded number of others, and the goroutine for the rest.
func TestPosterIsNotKept(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7) // b does not answer: nothing else wakes a
	letGo := a.holdGoroutine(t)
	defer letGo()
	const posts = 15 // all that the send queue takes
	var sends atomic.Int32
	another := func() {
		if sends.Add(1) < posts {
			a.post(t, b, 8)
		}
	}
	a.port.onSend.Store(&another)
	a.post(t, b, 8)
	if n := sends.Load(); n != 1+releaseRounds {
		t.Errorf("a poster sent %d times for posts of others, want %d", n-1, releaseRounds)
	}
	letGo()
	await(t, "the rest", func() bool { return sends.Load() == posts })
}

// TestArrivalsAreDatedWhenTaken keeps a thread off its processor between the
// round's beginning and the reading of the port, as a busy host does: a packet
// is dated no earlier than it was there, or the wait that an RNR NAK asks for
// would be too short.
func TestArrivalsAreDatedWhenTaken(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 20, 7)
	b.connect(t, a, 20, 7)
	var sent, dated atomic.Int64
	arrived := make(chan struct{})
	seen := func(r *trace.Record) {
		if r.Kind == trace.PacketIn {
			dated.Store(int64(r.At))
			close(arrived)
		}
	}
	b.trace.Store(&seen)
	b.idle(t)
	var once sync.Once
	late := func() { // b's round has begun when its packet is sent
		once.Do(func() {
			a.post(t, b, 8)
			sent.Store(int64(b.drv.Now()))
		})
	}
	b.port.onRecv.Store(&late)
	b.port.Wake()
	select {
	case <-arrived:
	case <-time.After(waitLimit):
		t.Fatal("the packet did not arrive")
	}
	if dated.Load() < sent.Load() {
		t.Errorf("a packet that was sent %v after the adapter was opened is dated %v",
			time.Duration(sent.Load()), time.Duration(dated.Load()))
	}
}

// stepAside polls s until its goroutine has stepped aside.
func (s *side) stepAside(t *testing.T) {
	t.Helper()
	await(t, "the goroutine's stepping aside", func() bool {
		s.drv.Progress()
		s.port.Wake() // it may sleep; it checks for pollers when it wakes
		return s.drv.pollers.aside()
	})
}

// TestPollerStops polls a target, and stops with an answer owed: the
// goroutine, which had stepped aside, comes back and sends it.
func TestPollerStops(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7) // no retry: only b's answer completes the WRITE
	b.connect(t, a, 0, 7)
	for range 20 {
		b.stepAside(t)
		received := b.port.Stats().ReceivedPackets
		a.post(t, b, 8)
		await(t, "the request", func() bool {
			b.drv.Progress()
			return b.port.Stats().ReceivedPackets > received
		})
		if wc := a.completion(t); wc.Status != ib.WCSuccess { // no thread polls b any more
			t.Fatalf("completion %+v", wc)
		}
	}
	b.idle(t) // and it is back at its port
}

// TestArmingEndsStepBack polls until the goroutine has left the port, and then
// sleeps: a thread that arms a completion queue makes the goroutine read the
// port again at once, and gets its event.
func TestArmingEndsStepBack(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	for range 20 {
		a.stepAside(t)
		a.cq.Arm(false)
		a.drv.Armed()
		if a.drv.pollers.aside() {
			t.Fatal("a completion queue is armed, and the goroutine stays aside")
		}
		a.post(t, b, 8)
		a.sleep(t)
	}
}

// TestOnePollIsNoPolling arms, polls once more and sleeps, as programs do: the
// goroutine never leaves the port, so no packet waits for its return.
func TestOnePollIsNoPolling(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	for range 500 {
		a.post(t, b, 8)
		a.drv.Progress() // once before arming
		a.cq.Arm(false)
		a.drv.Armed()
		a.drv.Progress() // and once after
		if a.drv.pollers.aside() {
			t.Fatal("the goroutine stepped aside for a program that sleeps")
		}
		if a.cq.Pending() == 0 {
			a.sleep(t)
		}
		for len(a.event) > 0 {
			<-a.event
		}
		for wc := make([]ib.WC, 1); a.cq.Poll(wc) > 0; {
		}
	}
}

// TestNoQueueForTheLock polls while a call holds the shard: the goroutine goes
// on without waiting for the lock. If it queued for the lock, it would get it,
// and the pollers' work would wait until the goroutine is scheduled. It does
// queue for the lock if no thread polls for a while, which can happen to this
// thread too; then it is tried again.
func TestNoQueueForTheLock(t *testing.T) {
	a, _ := newSides(t)
	const turns, tries, enough = 3, 200, 20 * mostAside
	for range tries {
		seen := 0 // turns: each looks at how many rounds there were, and forgets them
		a.do(t, func(clock.Instant) {
			for start := time.Now(); seen < turns && time.Since(start) < enough; {
				before := a.drv.pollers.state.Load() &^ allFlags
				a.drv.Progress()
				a.port.Wake()     // it may wait forever, because it has seen no poller
				runtime.Gosched() // to it, if there is one processor
				if a.drv.pollers.state.Load()&^allFlags <= before {
					seen++
				}
			}
		})
		if seen == turns {
			return
		}
	}
	t.Errorf("in %d calls of %v the goroutine did not make %d turns without the lock", tries, enough, turns)
}

// TestPollersAloneMakeProgress blocks both goroutines out of their ports by
// polling, and moves data by that alone.
func TestPollersAloneMakeProgress(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	wc := make([]ib.WC, 1)
	for range 200 {
		a.post(t, b, 3000)
		await(t, "a completion", func() bool {
			b.drv.Progress()
			a.drv.Progress()
			return a.cq.Poll(wc) == 1
		})
		if wc[0].Status != ib.WCSuccess {
			t.Fatalf("completion %+v", wc[0])
		}
	}
}

// TestPostAllocatesNothing counts allocations of the way of a WRITE and its
// acknowledgement through both drivers.
func TestPostAllocatesNothing(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 14, 7)
	b.connect(t, a, 14, 7)
	wrs := []ib.SendWR{{
		Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{{Addr: a.mr.Addr(), Length: 3000, LKey: a.mr.LKey()}},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}}
	wc := make([]ib.WC, 1)
	round := func() {
		if _, err := a.qp.PostSend(wrs...); err != nil {
			t.Fatal(err)
		}
		a.drv.Post(a.qp, qp.Posted{})
		for a.cq.Poll(wc) == 0 {
			b.drv.Progress()
			a.drv.Progress()
		}
	}
	for range 100 {
		round() // queues grow to their size
	}
	if n := testing.AllocsPerRun(500, round); n != 0 {
		t.Errorf("%v allocations for a WRITE, want none", n)
	}
}

func TestClose(t *testing.T) {
	defer goleak.VerifyNone(t)
	a, b := newSides(t)
	a.connect(t, b, 14, 7)
	must.Do(t, a.drv.Close())
	err := a.drv.Do(func(clock.Instant) { t.Error("a closed device ran its shard") })
	if !errors.Is(err, syscall.ENODEV) {
		t.Errorf("a call on a closed device returns %v, want ENODEV", err)
	}
	if a.drv.Failed() || len(a.fatal) != 0 {
		t.Error("closing a device is told as a failure")
	}
	a.drv.Post(a.qp, qp.Posted{})
	a.drv.Progress()
	must.Do(t, b.drv.Close())
}

// TestRun shows what a driver does before Run: its calls send, and arrivals wait at the port.
// Close then does not wait for a goroutine, and Run after it starts none.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newStillSide(t, n, 2)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	a.post(t, b, 8)
	received := func() (n uint64) {
		b.do(t, func(clock.Instant) { n = b.hca.Counters().RcvdPkts })
		return n
	}
	if received() != 0 {
		t.Error("a packet was read before Run")
	}
	b.drv.Run()
	for end := time.Now().Add(waitLimit); received() == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the packet is not read after Run")
		}
	}
	for _, s := range []*side{a, b} {
		must.Do(t, s.drv.Close())
		s.drv.Run()
	}
}
