//go:build !ringmodel

package ring

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// TestPlain exchanges records of random sizes through the smallest ring in plain memory, many times
// its size. They arrive in order and whole, also those that cross the end of the ring.
func TestPlain(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	a, b := NewPlain(minSize), NewPlain(minSize)
	p, c := NewProducer(a.Memory, b.View), NewConsumer(b.Memory, a.View)
	var want [][]byte
	sent := 0
	for sent < 1000*minSize {
		n := 1 + draw.IntN(p.MaxRecord())
		if room := p.Reserve(n, n); room != nil {
			if !a.Contains(room) || b.Contains(room) {
				t.Fatal("the record is not where it should be")
			}
			for i := range room {
				room[i] = byte(draw.Uint32())
			}
			want = append(want, bytes.Clone(room))
			p.Commit(n, n, 1, uint64(n))
			p.Publish()
			sent += n
			continue
		}
		read(t, c, &want)
	}
	p.End()
	read(t, c, &want)
	if len(want) != 0 || c.Err() != io.EOF || p.Err() != nil {
		t.Errorf("%d records do not arrive: %v, %v", len(want), c.Err(), p.Err())
	}
}

// read reads all records and compares them with those that are wanted.
func read(t *testing.T, c *Consumer, want *[][]byte) {
	t.Helper()
	var r Record
	for c.Next(&r) {
		if len(*want) == 0 || !bytes.Equal(r.Bytes, (*want)[0]) || r.Tag != uint64(len(r.Bytes)) {
			t.Fatalf("a record of %d bytes is not the next of %d", len(r.Bytes), len(*want))
		}
		*want = (*want)[1:]
	}
	c.Release()
}

// TestPlainSizes refuses sizes that no ring has.
func TestPlainSizes(t *testing.T) {
	for _, size := range []int{0, minSize / 2, minSize + line, 2 * maxSize} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a ring of %d bytes", size)
				}
			}()
			NewPlain(size)
		}()
	}
}
