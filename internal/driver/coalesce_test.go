package driver

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
)

// TestCoalescer walks through what programs do: posts wait for those that
// follow them if polls come soon after several, and only then.
func TestCoalescer(t *testing.T) {
	const us = time.Microsecond
	one := qp.Posted{Requests: 1, Bytes: 64, Behind: true}
	var c coalescer
	now := clock.Instant(0)
	post := func(why string, work qp.Posted, by attendance, want bool) {
		t.Helper()
		if got := c.posted(now, work, by); got != want {
			t.Errorf("%s: it waits: %v, want %v", why, got, want)
		} else if !got {
			c.left(now, nil)
		}
	}
	round := func(times, posts int, each, poll time.Duration) {
		for range times {
			for range posts {
				now = now.Add(each)
				c.posted(now, one, byGoroutine)
				c.left(now, nil)
			}
			now = now.Add(poll)
			c.polled(now)
		}
	}
	post("a program of which nothing is known", one, byPollers, false)
	round(100, 1, us, us)
	post("a program that polls after each post", one, byPollers, false)
	round(-leastCoalesce+1, 3, 5*us, coalesceTime)
	post("one that polls after three", one, byPollers, true)
	post("the next one", one, byPollers, true)
	if c.left(now, nil); c.waiting.Load() {
		t.Error("posts that were sent still wait")
	}
	post("nobody polls any more", one, byGoroutine, false)
	post("nothing is in flight", qp.Posted{Requests: 1}, byPollers, false)
	post("a list that fills a system call", qp.Posted{Requests: coalesceRequests, Behind: true}, byPollers, false)
	post("a message beside which a call is little", qp.Posted{Requests: 1, Bytes: coalesceBytes, Behind: true}, byPollers, false)
	for range coalesceRequests - 1 {
		post("one of few", one, byPollers, true)
	}
	post("the one that fills the call", one, byPollers, false)
	post("the first to wait", one, byPollers, true)
	if now = now.Add(coalesceTime - 1); c.waited(now, coalesceTime) {
		t.Error("it is overdue too early")
	}
	post("one in the last moment", one, byPollers, true)
	if now = now.Add(1); !c.waited(now, coalesceTime) {
		t.Error("it is not overdue in time")
	}
	post("one too late", one, byPollers, false)
	if now = now.Add(coalesceTime); c.waited(now, 0) {
		t.Error("what was sent is overdue")
	}
	round(mostCoalesce, 3, us, us)
	round(mostCoalesce/lateCoalesce, 3, us, coalesceTime+1)
	post("polls that are late", one, byPollers, false)
	round(1, 2, us, us)
	post("a poll in time", one, byPollers, true)
}

// absent keeps s's goroutine away from the port until it is woken, as threads
// that poll do, so that posts are delayed. It may by chance return once more,
// and then posts are not delayed: no test may depend on that.
func (s *side) absent(t *testing.T) {
	t.Helper()
	s.drv.pollers.state.Store(asideFlag | lentToSleeperFlag | sleeperFlag)
	await(t, "the goroutine's stepping aside", func() bool {
		if s.still {
			return true
		}
		if s.drv.pollers.state.Load()&mustWakeFlag != 0 {
			return true
		}
		s.port.Wake()
		s.drv.unpark()
		return false
	})
	s.drv.pollers.state.Store(asideFlag | mustWakeFlag)
	s.locked(func() { s.drv.coalesce.polling = benefit{score: mostCoalesce} })
}

// eachProducer runs a test with producers that ring the doorbell of each post, and
// with those that are spared it.
func eachProducer(t *testing.T, test func(t *testing.T, suppressible bool)) {
	t.Run("ringing", func(t *testing.T) { test(t, false) })
	t.Run("spared", func(t *testing.T) { test(t, true) })
}

// postSend posts a WRITE of n bytes to peer as the verbs do: it may wait.
func (s *side) postSend(t testing.TB, peer *side, n uint32) {
	t.Helper()
	sends := s.qp.Sends()
	err := sends.Post(&ib.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{{Addr: s.mr.Addr(), Length: n, LKey: s.mr.LKey()}},
		RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey(),
	})
	sends.Done()
	must.Do(t, err)
	work := sends.Posted()
	if work.HonorsSuppression = s.suppressible; s.suppressible && s.spared() {
		return
	}
	s.drv.Post(s.qp, work)
}

// suppressed reports whether the engine spares the producer of s's queue pair the doorbell.
func (s *side) spared() bool { return s.sendRing().Flags.Load()&ring.FlagSuppressed != 0 }

func (s *side) sendRing() *ring.Header {
	send, _ := s.qp.Queues()
	return send
}

// locked calls f as the shard's thread, which answers doorbells when it lets go.
func (s *side) locked(f func()) {
	s.drv.mu.Lock()
	defer func() { _ = s.drv.release(recover()) }()
	f()
}

// sent returns the number of packets that s has sent, once no thread sends or
// is about to answer a doorbell.
func (s *side) sent() uint64 {
	for {
		var n uint64
		var more bool
		s.locked(func() { n, more = s.port.Stats().SentPackets, s.hca.Shard().DoorbellRung() })
		if !more {
			return n
		}
		runtime.Gosched()
	}
}

// drain polls until n completions have come, all of the same status.
func (s *side) drain(t testing.TB, n int, want ib.WCStatus) {
	t.Helper()
	wc := make([]ib.WC, 1)
	for range n {
		await(t, "a completion", func() bool {
			if s.cq.Poll(wc) == 1 {
				return true
			}
			s.drv.Progress()
			return false
		})
		if wc[0].Status != want {
			t.Fatalf("completion %+v, want %v", wc[0], want)
		}
	}
}

// TestPostsLeaveWithThePoll posts several at a time and polls: the first leaves
// at once, as nothing is in flight, the others with the poll, in one call of
// the port. The goroutine sends them if the machine keeps this thread from
// polling, so it may take a few tries to see.
func TestPostsLeaveWithThePoll(t *testing.T) { eachProducer(t, postsLeaveWithThePoll) }

func postsLeaveWithThePoll(t *testing.T, suppressible bool) {
	a, b := newSides(t)
	a.suppressible = suppressible
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	const posts = 3 // more of them take the race detector longer than posts may wait
	calls := 0
	count := func() { calls++ } // the thread that sends has the lock
	seen := false
	await(t, "posts that leave together", func() bool {
		a.absent(t)
		before := a.sent()
		calls = 0
		a.port.onSend.Store(&count)
		a.postSend(t, b, 8)
		if a.drv.coalesce.waiting.Load() {
			t.Fatal("a post waits though nothing is in flight")
		}
		for range posts - 1 {
			a.postSend(t, b, 8)
		}
		waited := a.sent() == before+1
		a.drv.Progress()
		a.port.onSend.Store(nil)
		a.locked(func() { seen = waited && calls == 2 })
		await(t, "what was posted", func() bool { return a.sent() == before+posts })
		a.drain(t, posts, ib.WCSuccess)
		return seen
	})
}

// TestCoalescerOfSleepers walks through what programs do that sleep between their posts: posts wait,
// also those to an empty queue, if a sleep comes soon after several, and only then.
func TestCoalescerOfSleepers(t *testing.T) {
	one := qp.Posted{Requests: 1, Bytes: 64}
	var c coalescer
	now := clock.Instant(0)
	is := func(why string, by attendance, want bool) {
		t.Helper()
		had := c.sleeping
		if got := c.posted(now, one, by); got != want {
			t.Errorf("%s: a post waits: %v, want %v", why, got, want)
		}
		c.left(now, nil)
		c.sleeping = had
	}
	round := func(posts int, then time.Duration) {
		for range posts {
			c.posted(now, one, bySleeper)
		}
		c.left(now, nil)
		now = now.Add(then)
		c.slept(now)
	}
	is("nothing is known of the program", bySleeper, false)
	round(2, 1)
	is("it sleeps after several posts", bySleeper, true)
	is("a thread is at the port, or the goroutine", byGoroutine, false)
	is("programs poll, and the queue is empty", byPollers, false)
	round(0, 1)
	round(0, 1)
	is("sleeps without a post count for nothing", bySleeper, true)
	round(1, 1)
	is("it sleeps after each post", bySleeper, false)
	round(2, 1)
	is("it sleeps after two", bySleeper, true)
	round(2, coalesceTime+1)
	is("it sleeps late", bySleeper, false)
}

// TestPostsLeaveWithTheSleep lets a thread that has left the port post. What it has posted is sent
// when it sleeps again, there or elsewhere, or by the goroutine if it does not.
func TestPostsLeaveWithTheSleep(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newSide(t, n, 2) // the test is a's goroutine
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	const posts = 2 // more of them may take the race detector longer than posts may wait
	awake := func() bool { return true }
	for name, then := range map[string]func(before uint64){
		"at the port": func(uint64) {
			a.drv.SleepOn(&Sleeper{Awake: awake, FDs: none, Limit: -1, Elsewhere: func(time.Duration) bool { t.Error("it sleeps elsewhere"); return true }})
		},
		"elsewhere": func(before uint64) {
			a.drv.pollers.state.Store(asideFlag | lentToSleeperFlag | sleeperFlag)
			called := false
			a.drv.SleepOn(&Sleeper{Awake: awake, FDs: none, Limit: -1, Elsewhere: func(time.Duration) bool {
				if called = true; a.sent() != before+posts {
					t.Errorf("%d posts are sent before the thread sleeps", a.sent()-before)
				}
				return true
			}})
			if !called {
				t.Error("two threads sleep at the port")
			}
		},
		"not": func(uint64) {
			from := a.drv.Now()
			await(t, "the time until they are overdue", func() bool { return a.drv.Now().Sub(from) > coalesceTime })
			if next, alive := a.drv.turn(); next.aside != leastAside || !alive {
				t.Errorf("the goroutine does not stay aside: %+v", next)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			waited := 0
			for i := 0; i < 20 || waited == 0 && i < 1000; i++ {
				a.drv.pollers.state.Store(asideFlag | lentToSleeperFlag | cameFlag)
				a.locked(func() { a.drv.coalesce.sleeping = benefit{score: mostCoalesce} })
				before := a.sent()
				for range posts {
					a.postSend(t, b, 8)
				}
				if a.sent() == before { // none came so late that it sent the others
					waited++
				}
				then(before)
				if a.sent() != before+posts {
					t.Fatalf("%d of %d posts are sent", a.sent()-before, posts)
				}
				a.drain(t, posts, ib.WCSuccess)
			}
			if waited == 0 {
				t.Error("posts never wait")
			}
		})
	}
}

// TestPostsOfWhoDoesNotPoll polls until posts wait, and then posts and never
// polls: the goroutine sends what waits.
func TestPostsOfWhoDoesNotPoll(t *testing.T) { eachProducer(t, postsOfWhoDoesNotPoll) }

func postsOfWhoDoesNotPoll(t *testing.T, suppressible bool) {
	a, b := newSides(t)
	a.suppressible = suppressible
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	for range 20 {
		a.stepAside(t)
		a.locked(func() { a.drv.coalesce.polling.score = mostCoalesce })
		before := a.sent()
		for range 3 {
			a.postSend(t, b, 8)
		}
		await(t, "what was posted", func() bool { return a.sent() == before+3 })
		a.drain(t, 3, ib.WCSuccess)
	}
}

// TestOverduePosts lets posts wait for as long as they may: what the program
// calls next sends them, and so does the goroutine when it looks whether there
// is polling still.
func TestOverduePosts(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newSide(t, n, 2) // the test is a's goroutine
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	for name, look := range map[string]func(){
		"a poll that brings something": a.drv.SendOverdue,
		"the goroutine": func() {
			p := &a.drv.pollers
			p.polling, p.polls, p.since, p.last = true, sustainedPolls, 0, a.drv.Now()
			p.state.Store(asideFlag | mustWakeFlag | 1)
			p.latest.Store(int64(a.drv.Now().Add(time.Second)))         // however late this thread is, the poller polls
			if next, alive := a.drv.turn(); next.aside <= 0 || !alive { // as the goroutine's, which is away
				t.Fatalf("the goroutine does not stay aside: %+v", next)
			}
		},
		"a post": func() {
			a.postSend(t, b, 8)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for rounds := 0; rounds < 20; {
				a.absent(t)
				before := a.sent()
				for range 3 {
					a.postSend(t, b, 8)
				}
				from := a.drv.Now()
				if !a.drv.PostsWait() { // the third came so late that it sent the second
					a.drain(t, 3, ib.WCSuccess)
					continue
				}
				rounds++
				await(t, "the time until they are overdue", func() bool { return a.drv.Now().Sub(from) > max(coalesceTime, sustained) })
				look()
				posted := 3
				if name == "a post" {
					posted++
				}
				if n := int(a.sent() - before); n != posted {
					t.Fatalf("%d of %d posts are sent", n, posted)
				}
				a.drain(t, posted, ib.WCSuccess)
			}
		})
	}
}

// TestPostsDoNotOutlast lets posts wait while their program does something
// else than poll, which sends them. The goroutine may be at it just then, and
// sends them a moment later: not each time.
func TestPostsDoNotOutlast(t *testing.T) { eachProducer(t, postsDoNotOutlast) }

func postsDoNotOutlast(t *testing.T, suppressible bool) {
	defer goleak.VerifyNone(t)
	for name, c := range map[string]struct {
		then func(t *testing.T, a *side)
		want ib.WCStatus
	}{
		"arms": {func(_ *testing.T, a *side) {
			a.cq.Arm(false)
			a.drv.Armed()
		}, ib.WCSuccess},
		"sleeps": {func(_ *testing.T, a *side) {
			a.drv.Sleep(t.Context(), func() bool { return true }, func() {})
		}, ib.WCSuccess},
		"calls a verb": {func(t *testing.T, a *side) { a.do(t, func(clock.Instant) {}) }, ib.WCSuccess},
		"moves the queue pair to ERR": {func(t *testing.T, a *side) {
			a.do(t, func(now clock.Instant) {
				must.Do(t, a.qp.Modify(now, &ib.QPAttr{State: ib.ERR}, ib.AttrState))
			})
		}, ib.WCWRFlushErr},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newSides(t)
			a.suppressible = suppressible
			a.connect(t, b, 0, 7)
			b.connect(t, a, 0, 7)
			const rounds = 20
			late := 0
			for range rounds {
				a.absent(t)
				before := a.sent()
				for range 5 {
					a.postSend(t, b, 8)
				}
				c.then(t, a)
				if a.sent() != before+5 {
					late++
				}
				await(t, "what was posted", func() bool { return a.sent() == before+5 })
				a.drain(t, 5, c.want)
				if c.want != ib.WCSuccess {
					break
				}
				for len(a.event) > 0 {
					<-a.event
				}
			}
			if late > rounds/2 || c.want != ib.WCSuccess && late > 0 {
				t.Errorf("in %d of %d rounds posts were sent late", late, rounds)
			}
		})
	}
}

// TestPostsLeaveBeforeTheClose closes an adapter while posts wait.
func TestPostsLeaveBeforeTheClose(t *testing.T) { eachProducer(t, postsLeaveBeforeTheClose) }

func postsLeaveBeforeTheClose(t *testing.T, suppressible bool) {
	defer goleak.VerifyNone(t)
	a, b := newSides(t)
	a.suppressible = suppressible
	a.connect(t, b, 0, 7)
	a.absent(t)
	for range 5 {
		a.postSend(t, b, 8)
	}
	must.Do(t, a.drv.Close())
	if n := a.port.Stats().SentPackets; n != 5 {
		t.Errorf("%d of 5 posts are sent before the adapter closes", n)
	}
	must.Do(t, b.drv.Close())
}

// TestPostsWaitAsTheAdapterFails has the port fail when posts that wait are sent.
func TestPostsWaitAsTheAdapterFails(t *testing.T) { eachProducer(t, postsWaitAsTheAdapterFails) }

func postsWaitAsTheAdapterFails(t *testing.T, suppressible bool) {
	a, b := newSides(t)
	a.suppressible = suppressible
	a.connect(t, b, 0, 7)
	a.absent(t)
	for range 5 {
		a.postSend(t, b, 8)
	}
	a.port.failSend.Store(true)
	a.postSend(t, b, 8)
	a.drv.Armed()
	if cause := a.died(t); !errors.Is(cause, syscall.EIO) {
		t.Errorf("the cause is %v", cause)
	}
}

// TestPostsInErrorDoNotWait posts to a queue pair that is in ERR, behind
// others: they are flushed at once.
func TestPostsInErrorDoNotWait(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newSide(t, n, 2) // the test is a's goroutine
	a.connect(t, b, 0, 7)
	a.do(t, func(now clock.Instant) { must.Do(t, a.qp.Modify(now, &ib.QPAttr{State: ib.ERR}, ib.AttrState)) })
	a.absent(t)
	for range 3 {
		_, err := a.qp.PostSend(ib.SendWR{Opcode: ib.WRSend})
		must.Do(t, err)
		a.drv.Post(a.qp, qp.Posted{Requests: 1, Behind: true})
		if n := a.cq.Pending(); n != 1 {
			t.Fatalf("%d completions wait after a post in ERR, want 1", n)
		}
		if wc := a.completion(t); wc.Status != ib.WCWRFlushErr {
			t.Errorf("completion %+v", wc)
		}
	}
}

// TestUnansweredPostsDoNotWait posts to a queue pair whose requests complete
// when they are sent: nothing is ever in flight, so none waits.
func TestUnansweredPostsDoNotWait(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newSide(t, n, 2) // the test is a's goroutine
	q := a.silentQP(t, b)
	a.absent(t)
	for range 5 {
		sends := q.Sends()
		err := sends.Post(&ib.SendWR{Opcode: ib.WRSend})
		sends.Done()
		must.Do(t, err)
		a.drv.Post(q, sends.Posted())
		if n := a.cq.Pending(); n != 1 {
			t.Fatalf("%d completions wait after a post, want 1", n)
		}
		a.completion(t)
	}
}

// TestManyPosters has threads post to one queue pair, while one polls or none
// does: all that they post completes.
func TestManyPosters(t *testing.T) { eachProducer(t, manyPosters) }

func manyPosters(t *testing.T, suppressible bool) {
	a, b := newSides(t)
	a.suppressible = suppressible
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	const threads, each, rounds = 4, 4, 200 // the queue takes 16
	for i := range rounds {
		if i%20 == 0 {
			a.absent(t)
		}
		var all sync.WaitGroup
		for range threads {
			all.Go(func() {
				for range each {
					a.postSend(t, b, 8)
				}
			})
		}
		if i%2 == 0 {
			all.Wait()
		}
		a.drain(t, threads*each, ib.WCSuccess)
		all.Wait()
	}
}

// TestWaitingAllocatesNothing counts allocations of posts that wait.
func TestWaitingAllocatesNothing(t *testing.T) { eachProducer(t, waitingAllocatesNothing) }

func waitingAllocatesNothing(t *testing.T, suppressible bool) {
	a, b := newSides(t)
	a.suppressible = suppressible
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	wr := ib.SendWR{Opcode: ib.WRRDMAWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	wcs := make([]ib.WC, 16)
	a.absent(t)
	round := func() {
		for range 8 {
			sends := a.qp.Sends()
			must.Do(t, sends.Post(&wr))
			sends.Done()
			work := sends.Posted()
			if work.HonorsSuppression = suppressible; !suppressible || !a.spared() {
				a.drv.Post(a.qp, work)
			}
		}
		for n := 0; n < 8; n += a.cq.Poll(wcs) {
			b.drv.Progress()
			a.drv.Progress()
		}
	}
	for range 100 {
		round() // queues grow to their size
	}
	if n := testing.AllocsPerRun(500, round); n != 0 {
		t.Errorf("%v allocations for 8 WRITEs, want none", n)
	}
}
