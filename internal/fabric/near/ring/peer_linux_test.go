//go:build !portable && !ringmodel

package ring

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// TestGarbage checks that each kind of garbage in a header, a head or a tail is found.
func TestGarbage(t *testing.T) {
	for _, c := range []struct {
		why    string
		head   uint64
		header header
	}{
		{"no length", 256, newHeader(0, 0, 0)},
		{"no length, one packet", 256, newHeader(0, 0, 1)},
		{"no packet", 256, newHeader(100, 100, 0)},
		{"no size of packets", 256, newHeader(100, 0, 1)},
		{"packet longer than the record", 256, newHeader(100, 101, 1)},
		{"packet after the end of the record", 256, newHeader(100, 50, 3)},
		{"bytes after the last packet", 256, newHeader(100, 33, 3)},
		{"too many packets", minSize, newHeader(maxCount+1, 1, maxCount+1)},
		{"record longer than published", 256, newHeader(256-headerLen+1, 256-headerLen+1, 1)},
		{"record longer than the ring", minSize, newHeader(minSize, minSize, 1)},
		{"longest record", 256, ^header(0)},
		{"head inside of a line", 257 + headEnd, newHeader(100, 100, 1)},
		{"head beyond the ring", minSize + line, newHeader(100, 100, 1)},
		{"head that goes back", 1<<64 - line, newHeader(100, 100, 1)},
	} {
		a, b := pair(t, minSize)
		b.own.put(b.own.data, uint64(c.header))
		b.own.store(headAt, c.head)
		if a.c.Next(new(Record)) || a.c.Err() != ErrGarbage {
			t.Errorf("%s: the error is %v, want %v", c.why, a.c.Err(), ErrGarbage)
		}
		if a.c.Next(new(Record)) || a.c.Arm() {
			t.Errorf("%s: the consumer goes on", c.why)
		}
	}
	for _, tail := range []uint64{1, 63, 128, 1<<64 - line, minSize} {
		a, b := pair(t, minSize)
		a.write(t, 1, 1, 1)
		a.p.Publish()
		a.write(t, 1, 1, 1) // not published, so the tail must not pass it
		b.own.store(tailAt, tail)
		if a.p.Reserve(1, minSize) != nil || a.p.Err() != ErrGarbage || a.p.Arm(1) {
			t.Errorf("tail %#x: the error is %v, want %v", tail, a.p.Err(), ErrGarbage)
		}
	}
}

// poke stores a word into the memory of a peer at an offset that the input chooses, most often
// that of a word that the ring reads.
func (e *end) poke(where byte, at uint32, value uint64) {
	places := []uint64{headAt, waitingAt, tailAt, sleepingAt, e.own.place(e.p.next), e.own.place(e.p.head), e.own.data}
	if int(where) < 4*len(places) {
		e.own.store(places[int(where)%len(places)], value)
		return
	}
	e.own.store(uint64(at)%(e.own.data+e.own.size)&^7, value)
}

// call makes one call of an end whose peer may write anything, and reads all bytes that it returns.
func (e *end) call(t *testing.T, what byte, n int) {
	var r Record
	switch what % 8 {
	case 0:
		if b := e.p.Reserve(1, n); b != nil {
			clear(b)
			e.p.Commit(len(b), len(b), 1, 0)
		}
	case 1:
		e.p.Publish()
	case 2:
		e.p.Arm(n)
	case 3:
		e.c.Release()
	case 4:
		e.c.Arm()
	default:
		if e.c.Next(&r) {
			if len(r.Bytes) == 0 || len(r.Bytes) > minSize || r.Count < 1 || r.Count > maxCount || (r.Count-1)*r.Stride >= len(r.Bytes) || r.Count*r.Stride < len(r.Bytes) {
				t.Errorf("accepts a record of %d bytes, %d packets of %d bytes", len(r.Bytes), r.Count, r.Stride)
			}
			sum := byte(0)
			for _, x := range r.Bytes {
				sum += x
			}
			e.own.put(e.own.data, uint64(sum))
		}
	}
}

// FuzzPeer lets a peer write anything anywhere in its memory between the calls of the other end,
// which must neither panic nor access other memory.
func FuzzPeer(f *testing.F) {
	var seed []byte
	for _, s := range []struct {
		what byte
		x    uint64
	}{{0x80, 64}, {0x86, uint64(newHeader(48, 48, 1))}, {5, 1}, {3, 1}, {4, 1}, {0x80, 128 + headEnd}, {5, 1}, {6, 1}, {0, 4000}, {1, 0}, {0, 4000}, {2, 4000}, {0x82, 64}, {2, 1}} {
		seed = binary.LittleEndian.AppendUint64(append(seed, s.what), s.x)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, program []byte) {
		a, b := pair(t, minSize)
		const step = 9
		for ; len(program) >= step; program = program[step:] {
			x := binary.LittleEndian.Uint64(program[1:])
			if what := program[0]; what&0x80 != 0 {
				b.poke(what&0x7f, uint32(x>>40), x)
			} else {
				a.call(t, what, 1+int(x%minSize))
			}
		}
	})
}

// TestPeerWritesMeanwhile has a peer write into its memory while the other end reads it.
func TestPeerWritesMeanwhile(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	own, err := Create(minSize)
	must.Do(t, err)
	defer own.Close()
	peer, err := Create(minSize)
	must.Do(t, err)
	defer peer.Close()
	view, err := Attach(copyOf(t, peer.FD()))
	must.Do(t, err)
	defer view.Close()
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		random := rand.New(rand.NewPCG(seed, 1))
		for {
			select {
			case <-done:
				return
			default:
			}
			for range 100 {
				n := 1 + random.IntN(minSize/2)
				switch random.IntN(4) {
				case 0:
					peer.store(headAt, line*random.Uint64N(minSize/line))
				case 1:
					peer.store(tailAt, line*random.Uint64N(minSize/line))
				case 2:
					peer.store(peer.data+line*random.Uint64N(minSize/line), uint64(newHeader(n, n, 1)))
				case 3:
					peer.store(random.Uint64N(peer.data+minSize)&^7, random.Uint64())
				}
			}
		}
	})
	random := rand.New(rand.NewPCG(seed, 2))
	records, garbage := uint64(0), 0
	for late := time.Now().Add(time.Minute); records < 10000 || garbage < 10000; {
		if time.Now().After(late) {
			t.Fatalf("%d records accepted, garbage found %d times: the peer does not write", records, garbage)
		}
		e := &end{own: own, view: view, p: NewProducer(own, view), c: NewConsumer(own, view)}
		for range 20 {
			e.call(t, byte(random.IntN(8)), 1+random.IntN(minSize))
		}
		records += e.c.Counts().Records
		if errors.Is(errors.Join(e.p.Err(), e.c.Err()), ErrGarbage) {
			garbage++
		}
	}
	close(done)
	writer.Wait()
}
