//go:build !ringmodel

package ring

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLend writes records where Lend has returned room, several ahead of the last one that is
// committed, through the smallest ring, many times its size. Reserve returns the same room again.
func TestLend(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	a, b := NewPlain(minSize), NewPlain(minSize)
	p, c := NewProducer(a.Memory, b.View), NewConsumer(b.Memory, a.View)
	var want [][]byte
	for sent, steps := 0, 0; sent < 1000*minSize; steps++ {
		if steps == 100_000 {
			t.Fatalf("only %d bytes had room", sent)
		}
		var ahead [][]byte
		for at := p.Next(); len(ahead) < 6; {
			n := 1 + draw.IntN(minSize/2)
			room := p.Lend(at, n, 2*n)
			if room == nil {
				break
			}
			if len(room) < n || len(room) > 2*n {
				t.Fatalf("room for %d bytes, want %d to %d", len(room), n, 2*n)
			}
			n += draw.IntN(len(room) - n + 1)
			for i := range n {
				room[i] = byte(draw.Uint32())
			}
			ahead = append(ahead, room[:n])
			at = After(at, n)
		}
		ahead = ahead[:draw.IntN(len(ahead)+1)] // the last ones are given up
		for _, r := range ahead {
			n := len(r)
			if room := p.Reserve(n, n); room == nil || &room[0] != &r[0] {
				t.Fatal("Reserve does not return the room that Lend has returned")
			}
			want = append(want, bytes.Clone(r))
			p.Commit(n, n, 1, uint64(n))
			sent += n
		}
		if p.Counts().Full != 0 {
			t.Fatalf("Lend counts %d records without room", p.Counts().Full)
		}
		p.Publish()
		if draw.IntN(2) == 0 {
			read(t, c, &want)
		}
	}
	read(t, c, &want)
	if len(want) != 0 {
		t.Errorf("%d records do not arrive", len(want))
	}
}

// TestLendBeyondTheRing asks for room where there is none.
func TestLendBeyondTheRing(t *testing.T) {
	a, b := NewPlain(minSize), NewPlain(minSize)
	p := NewProducer(a.Memory, b.View)
	for _, n := range []int{minSize - headerLen, minSize, 2 * minSize, 5 * minSize} {
		if room := p.Lend(After(p.Next(), n), 1, 100); room != nil {
			t.Errorf("room for %d bytes after a record of %d in a ring of %d", len(room), n, minSize)
		}
	}
	if n := len(p.Lend(After(p.Next(), minSize-2*line), 1, 100)); n != line-headerLen {
		t.Errorf("room for %d bytes in the last line of the ring, want %d", n, line-headerLen)
	}
	b.Words[tailAt/8] = line + 1
	if p.Lend(p.Next(), minSize-headerLen+1, minSize) != nil || p.Err() != ErrGarbage {
		t.Errorf("the tail is garbage, and the error %v", p.Err())
	}
	if p.Lend(p.Next(), 1, 1) != nil {
		t.Error("room after garbage")
	}
	p = NewProducer(NewPlain(minSize).Memory, NewPlain(minSize).View)
	p.End()
	if p.Lend(p.Next(), 1, 1) != nil {
		t.Error("room after the end")
	}
}
