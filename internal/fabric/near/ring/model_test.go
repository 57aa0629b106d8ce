//go:build ringmodel

package ring

import (
	"hash/maphash"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// model is a producer and a consumer that the machine runs.
type model struct {
	name    string
	sizes   []int  // of the records
	publish int    // records for each Publish
	release int    // records for each Release, at most
	from    uint64 // first position
	disarm  bool   // both disarm after a wake-up
	plain   order  // of plain stores
	m       machine
	memory  [2]Memory // the same in all runs, because states contain the addresses
	views   [2]View
}

// models use a ring of four lines.
var models = []model{
	{name: "one record at a time", sizes: []int{40, 40, 40}, publish: 1, release: 1, disarm: true},
	{name: "plain stores are late", sizes: []int{40, 40}, publish: 1, release: 1, plain: unordered},
	{name: "a full ring", sizes: []int{112, 112, 112}, publish: 1, release: 1, disarm: true},
	{name: "a full ring, no disarming", sizes: []int{112, 112, 112, 40}, publish: 1, release: 1},
	{name: "records as large as the ring", sizes: []int{modelSize - headerLen, modelSize - headerLen}, publish: 1, release: 1, disarm: true},
	{name: "bursts", sizes: []int{40, 40, 112, 112}, publish: 2, release: 2, disarm: true},
	{name: "a slow consumer", sizes: []int{40, 40, 112, 40}, publish: 3, release: 1},
	{name: "the last positions", sizes: []int{112, 40, 112}, publish: 1, release: 2, from: 1<<64 - 3*line, disarm: true},
}

// start prepares the machine for a run.
func (s *model) start() {
	for i := range s.memory {
		s.memory[i] = Memory{owned{shared{&s.m, i}}, region{modelData, modelSize}, -1}
		s.views[i] = View{s.memory[i].shared, s.memory[i].region}
	}
	p := NewProducer(&s.memory[0], &s.views[1])
	c := NewConsumer(&s.memory[1], &s.views[0])
	p.next, p.head, p.tail = s.from, s.from, s.from
	c.next, c.head, c.tail = s.from, s.from, s.from
	s.m.begin([2]string{"the producer", "the consumer"}, [2]func(){func() { s.produce(p) }, func() { s.consume(c) }}, s.from)
}

func (s *model) wake(needed bool) {
	if needed {
		s.m.ask(op{kind: opWake})
	}
}

// produce sends all records. It sleeps while the ring is full.
func (s *model) produce(p *Producer) {
	for i, n := range s.sizes {
		for {
			state := *p
			state.counts = Counts{}
			s.m.mark(maphash.Comparable(s.m.seed, struct {
				p Producer
				i int
			}{state, i}))
			if p.Reserve(n, n) != nil {
				break
			}
			if p.Err() != nil {
				s.m.fail("finds garbage")
			}
			s.wake(p.Publish())
			if p.Arm(n) {
				s.m.ask(op{kind: opSleep})
				if s.disarm {
					p.Disarm()
				}
			}
		}
		first, last := payload(p.own.place(p.next), n)
		p.own.put(first, uint64(100+i))
		p.own.put(last, uint64(200+i))
		p.Commit(n, n, 1, uint64(i))
		if (i+1)%s.publish == 0 {
			s.wake(p.Publish())
		}
	}
	s.wake(p.End())
}

// consume expects all records. It sleeps while the ring is empty.
func (s *model) consume(c *Consumer) {
	for i := 0; ; {
		state := *c
		state.counts = Counts{}
		s.m.mark(maphash.Comparable(s.m.seed, struct {
			c Consumer
			i int
		}{state, i}))
		var r Record
		n := 0
		for ; n < s.release; n++ {
			first, last := payload(c.peer.place(c.next), s.sizes[min(i, len(s.sizes)-1)])
			if !c.Next(&r) {
				break
			}
			if i == len(s.sizes) {
				s.m.fail("receives a record more than were sent")
			}
			x, y := c.peer.load(first), c.peer.load(last)
			if want := s.sizes[i]; len(r.Bytes) != want || r.Tag != uint64(i) || y != uint64(200+i) || want > 8 && x != uint64(100+i) {
				s.m.fail("receives %d bytes, %d to %d, as record %d (tag %d)", len(r.Bytes), x, y, i, r.Tag)
			}
			i++
		}
		s.wake(c.Release())
		switch {
		case c.Err() == io.EOF && i == len(s.sizes):
			return
		case c.Err() != nil:
			s.m.fail("after %d records: %v", i, c.Err())
		case n == 0 && c.Arm():
			s.m.ask(op{kind: opSleep})
			if s.disarm {
				c.Disarm()
			}
		}
	}
}

// payload returns the offsets of the first and the last word of the payload of a record.
func payload(at uint64, n int) (first, last uint64) {
	return at + headerLen, at + headerLen + uint64(n) - 8
}

// run explores the model with weakened stores. It returns the violation and what led to it.
func (s *model) run(t *testing.T, weak map[uint64]order) string {
	t.Helper()
	s.m.weak, s.m.plain = weak, s.plain
	began := time.Now()
	states, violation := s.m.explore(s.start)
	t.Logf("%s: %d states in %v %s", s.name, states, time.Since(began), violation)
	if violation != "" && weak == nil {
		t.Logf("what happens before:\n%s", strings.Join(s.m.trace, "\n"))
	}
	return violation
}

// TestModel explores all interleavings: no record is lost or torn, and neither end sleeps when
// there is something to do.
func TestModel(t *testing.T) {
	for i := range models {
		if violation := models[i].run(t, nil); violation != "" {
			t.Errorf("%s: %s", models[i].name, violation)
		}
	}
}

// TestModelAtRandom runs longer programs, of which there are too many interleavings, in random order.
func TestModelAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := &model{m: machine{seed: maphash.MakeSeed()}}
	for range 5000 {
		s.sizes = s.sizes[:0]
		for range 1 + random.IntN(30) {
			s.sizes = append(s.sizes, line*(1+random.IntN(modelSize/line))-headerLen-8*random.IntN(4))
		}
		s.publish, s.release = 1+random.IntN(4), 1+random.IntN(4)
		s.from, s.disarm, s.plain = -(line * random.Uint64N(60)), random.IntN(2) == 0, order(random.IntN(3))
		s.m.plain = s.plain
		if violation := s.m.wander(s.start, random); violation != "" {
			t.Fatalf("records of %v bytes, %d for each Publish, %d for each Release: %s; before:\n%s",
				s.sizes, s.publish, s.release, violation, strings.Join(s.m.trace, "\n"))
		}
	}
}

// TestModelNeedsEachFence weakens the stores of one word at a time to what an x86 or an ARM
// processor does without a fence: the model must find that an end sleeps forever.
func TestModelNeedsEachFence(t *testing.T) {
	words := map[string]uint64{"head": headAt, "waiting": waitingAt, "tail": tailAt, "sleeping": sleepingAt}
	for name, at := range words {
		for _, weak := range []order{buffered, unordered} {
			lost := false
			for i := range models {
				lost = lost || strings.Contains(models[i].run(t, map[uint64]order{at: weak}), "sleeps forever")
			}
			if !lost {
				t.Errorf("with plain stores (%d) of the word %s no wake-up is lost", weak, name)
			}
		}
	}
}
