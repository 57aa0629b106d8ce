//go:build ringmodel

package ring

import (
	"math/rand/v2"
	"testing"
	"time"
)

// hostile is a peer's memory that changes between any two loads.
type hostile struct {
	random *rand.Rand
	near   uint64 // a position that the peer might write
	header header // a header that the peer might write
	area   int    // of the peer
	loads  int    // since the last call
}

// load returns a word that a hostile peer may have written.
func (h *hostile) load() uint64 {
	h.loads++
	switch h.random.IntN(8) {
	case 0:
		return h.random.Uint64()
	case 1:
		return h.random.Uint64N(2 * modelSize)
	case 2:
		return uint64(newHeader(h.random.IntN(2*modelSize), h.random.IntN(2*modelSize), h.random.IntN(2*maxCount)))
	case 3, 4:
		return h.near + line*h.random.Uint64N(8) - line*h.random.Uint64N(8)
	case 5:
		return h.near + h.random.Uint64N(2*modelSize)
	case 6:
		return h.near + line*h.random.Uint64N(4) + headEnd
	}
	return uint64(h.header)
}

// victim is one end of a pair of rings, whose peer is hostile.
type victim struct {
	t *testing.T
	h hostile
	p *Producer
	c *Consumer
	b Record
}

func newVictim(t *testing.T, random *rand.Rand) *victim {
	m := new(machine)
	own := &Memory{owned{shared{m, 0}}, region{modelData, modelSize}, -1}
	peer := &View{shared{m, 1}, own.region}
	v := &victim{t: t, h: hostile{random: random, area: 1}, p: NewProducer(own, peer), c: NewConsumer(own, peer)}
	v.h.near = line * random.Uint64N(1<<10) * random.Uint64N(2)
	v.p.next, v.p.head, v.p.tail = v.h.near, v.h.near, v.h.near
	v.c.next, v.c.head, v.c.tail = v.h.near, v.h.near, v.h.near
	m.hostile = &v.h
	return v
}

// step makes one call.
func (v *victim) step() {
	v.h.loads = 0
	r := v.h.random
	n := 1 + r.IntN(modelSize)
	v.h.header = newHeader(n, n, 1)
	switch r.IntN(8) {
	case 0:
		if b := v.p.Reserve(1, n); b != nil {
			v.p.Commit(len(b), len(b), 1, 0)
		}
	case 1:
		v.p.Publish()
	case 2:
		v.p.Arm(n)
	case 3:
		if err := v.p.Err(); err != nil && (v.p.Reserve(1, 1) != nil || v.p.Arm(1)) {
			v.t.Error("after an error the producer goes on")
		}
	case 4, 5:
		v.next()
	case 6:
		v.c.Release()
	case 7:
		if v.c.Arm() && v.c.Err() != nil {
			v.t.Error("the consumer may sleep although it has an error")
		}
	}
	v.check()
}

// next reads a record and checks its lengths.
func (v *victim) next() {
	failed := v.c.Err() != nil
	if !v.c.Next(&v.b) {
		return
	}
	n, stride, count := len(v.b.Bytes), v.b.Stride, v.b.Count
	if failed || n < 1 || n > modelSize-headerLen || stride < 1 || stride > n || count < 1 || count > maxCount || (n+stride-1)/stride != count {
		v.t.Errorf("accepts a record of %d bytes, %d packets of %d bytes (failed before: %t)", n, count, stride, failed)
	}
}

// check checks the invariants, which hold whatever the peer writes.
func (v *victim) check() {
	if v.h.loads > 3 {
		v.t.Errorf("a call loads %d words of the peer's, want at most 3", v.h.loads)
	}
	if used := v.p.next - v.p.tail; used > modelSize {
		v.t.Errorf("%d bytes are used of a ring of %d", used, modelSize)
	}
	if v.p.head-v.p.tail > v.p.next-v.p.tail {
		v.t.Errorf("the producer believes a tail after the head")
	}
	if used := v.c.next - v.c.tail; used > modelSize {
		v.t.Errorf("the consumer has read %d bytes of a ring of %d", used, modelSize)
	}
	if v.c.head-v.c.tail > modelSize || v.c.next-v.c.tail > v.c.head-v.c.tail {
		v.t.Errorf("the consumer believes a head %d bytes after the tail", v.c.head-v.c.tail)
	}
}

// TestHostilePeer calls everything in random order while each load of the peer's memory returns
// something else: no call panics, accepts impossible positions or lengths, or loads many words.
func TestHostilePeer(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	records, garbage := 0, 0
	for range 100000 {
		v := newVictim(t, random)
		for range 30 {
			v.step()
		}
		if t.Failed() {
			return
		}
		records += int(v.c.counts.Records)
		for _, err := range []error{v.p.Err(), v.c.Err()} {
			if err == ErrGarbage {
				garbage++
			}
		}
	}
	if records < 1000 || garbage < 1000 {
		t.Errorf("%d records accepted, garbage found %d times: the test covers too little", records, garbage)
	}
}
