package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
)

// fullQueue is a queue with an entry, which is taken.
type fullQueue struct {
	t        *testing.T
	c        *Checker
	reported *[]*Finding
	of       *requests
	cq       *qp.CQ
	post     func() // posts a request, which is refused
}

// newFullQueue returns a full queue of a kind: sends, receives or shared receives.
func newFullQueue(t *testing.T, kind string) *fullQueue {
	c, reported := newChecker()
	completions, err := qp.NewCQ(ring.Allocator{}, qp.CQConfig{Entries: 4})
	must.Do(t, err)
	uses := QPUses{SendCQ: c.MadeCQ(completions)}
	uses.RecvCQ = uses.SendCQ
	if kind == "shared receives" {
		uses.SRQ = c.MadeSRQ(new(qp.SRQ), 1, nil)
	}
	q := c.MadeQP(new(qp.QP), true, uses)
	q.sends.limit = 1
	f := &fullQueue{t: t, c: c, reported: reported, cq: completions}
	var next func() *Posting
	switch kind {
	case "sends":
		f.of, next = q.sends, func() *Posting { return q.Send(&ib.SendWR{Opcode: ib.WRSend}, 0, nil) }
	case "receives":
		q.receives.limit = 1
		f.of, next = q.receives, func() *Posting { return q.Receive(&ib.RecvWR{}) }
	default:
		f.of, next = uses.SRQ.receives, func() *Posting { return uses.SRQ.Receive(&ib.RecvWR{}) }
	}
	first := next()
	if first.Full() {
		t.Fatalf("%s: the first request is refused", kind)
	}
	first.Done(nil)
	f.post = func() {
		p := next()
		if !p.Full() {
			t.Fatalf("%s: a request is not refused although the queue is full", kind)
		}
		p.Done(fmt.Errorf("full: %w", ib.ENOMEM))
	}
	return f
}

// later makes the first refused post earlier.
func (f *fullQueue) later(d time.Duration) { f.of.refusal.since = f.of.refusal.since.Add(-d) }

// completes adds a completion.
func (f *fullQueue) completes() {
	if !f.cq.Push(0, &ib.WC{}) {
		f.t.Fatal("the completion queue is full")
	}
}

// polls takes a completion.
func (f *fullQueue) polls() {
	if f.cq.Poll(make([]ib.WC, 1)) != 1 {
		f.t.Fatal("there is no completion")
	}
}

// found returns how often the queue was found to be overfilled.
func (f *fullQueue) found() int {
	f.c.Tell()
	return len(*f.reported)
}

// TestPostsInVain posts to full queues. That is reported, once, if completions wait for too long, and the program polls none.
func TestPostsInVain(t *testing.T) {
	for _, kind := range []string{"sends", "receives", "shared receives"} {
		for _, test := range []struct {
			name string
			wait func(f *fullQueue)
			want int
		}{
			{"nothing completes", func(f *fullQueue) { f.post(); f.later(2 * postsInVain) }, 0},
			{"a completion waits", (*fullQueue).completes, 1},
			{"the program polls one of two", func(f *fullQueue) { f.completes(); f.completes(); f.post(); f.later(2 * postsInVain); f.polls() }, 0},
			{"the program has polled all", func(f *fullQueue) { f.completes(); f.post(); f.later(2 * postsInVain); f.polls() }, 0},
			{"all were polled in between", func(f *fullQueue) {
				f.completes()
				f.post()
				f.later(2 * postsInVain)
				f.polls()
				f.post()
				f.completes()
			}, 0},
		} {
			f := newFullQueue(t, kind)
			test.wait(f)
			for range 3 {
				f.post()
			}
			if n := f.found(); n != 0 {
				t.Errorf("%s: %s: there are %d findings at once", kind, test.name, n)
			}
			if test.want > 0 {
				f.later(postsInVain / 2)
				f.post()
				if n := f.found(); n != 0 {
					t.Errorf("%s: %s: there are %d findings after half of the time", kind, test.name, n)
				}
				f.later(postsInVain)
			}
			for range 3 {
				f.post()
			}
			if n := f.found(); n != test.want {
				t.Errorf("%s: %s: there are %d findings: want %d", kind, test.name, n, test.want)
			}
		}
	}
}

// TestOverrunQueuesAreNotFull posts to a queue whose completions are lost.
func TestOverrunQueuesAreNotFull(t *testing.T) {
	f := newFullQueue(t, "sends")
	f.post()
	f.cq.Fail()
	if f.c.mu.Lock(); f.of.full() {
		t.Error("a queue is full although its completions are lost")
	}
	f.c.mu.Unlock()
}
