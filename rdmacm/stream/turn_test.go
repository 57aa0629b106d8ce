package stream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// busy starts a write that the peer keeps up with forever, and returns once it runs. Its error
// arrives in the channel.
func (c *Conn) busy() <-chan error {
	runs, failed := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		failed <- c.call("write", false, func(*stream) (outcome, error) {
			once.Do(func() { close(runs) })
			return stepMoves, nil
		})
	}()
	<-runs
	return failed
}

// receives returns the error of a channel, and fails the test if none arrives.
func receives(t testing.TB, what string, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-soon(t).Done():
		t.Fatalf("%s does not return", what)
		return nil
	}
}

// TestC11_BusyWrite interrupts a Write that never has to wait for the peer, and reads meanwhile.
func TestC11_BusyWrite(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b)
	written := c1.busy()
	read := make(chan error, 1)
	go func() { read <- second(c1.Read(make([]byte, 1))) }()
	if _, err := c2.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if err := receives(t, "Read during a Write", read); err != nil {
		t.Errorf("read during a write: %v", err)
	}
	must.Do(t, c1.SetWriteDeadline(time.Unix(1, 0)))
	must.Fail(t, receives(t, "Write at its deadline", written), os.ErrDeadlineExceeded, "a write at its deadline")

	must.Do(t, c1.SetWriteDeadline(time.Time{}))
	written = c1.busy()
	closed := make(chan error, 1)
	go func() { closed <- c1.Close() }()
	must.Fail(t, receives(t, "Write on a closed Conn", written), net.ErrClosed, "a write when its own side closes")
	must.Do(t, c2.Close())
	must.Do(t, receives(t, "Close during a Write", closed))
	must.Do(t, l.Close())
}

// TestC11_WritesTakeTurns writes records from several goroutines, each longer than a message.
// They arrive whole.
func TestC11_WritesTakeTurns(t *testing.T) {
	const writers, records, longest = 4, 50, 300
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b, WithBuffers(minBuffers, 16))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for w := range writers {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		all.Go(func() {
			for range records {
				text := bytes.Repeat([]byte{byte('a' + w)}, 1+r.IntN(longest))
				if n, err := c1.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)); err != nil {
					t.Errorf("write: %d, %v", n, err)
				}
			}
		})
	}
	go func() {
		all.Wait()
		_ = c1.CloseWrite() // the reader says whether the end came
	}()
	count := make(map[byte]int)
	in := bufio.NewReader(c2)
	for {
		var size [2]byte
		if _, err := io.ReadFull(in, size[:]); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(in, text); err != nil || len(text) == 0 || bytes.Count(text, text[:1]) != len(text) {
			t.Fatalf("a record of %d bytes is mixed: %q, %v", len(text), text, err)
		}
		count[text[0]]++
	}
	for w := range writers {
		if n := count[byte('a'+w)]; n != records {
			t.Errorf("%d records of writer %d, want %d", n, w, records)
		}
	}
	closeBoth(t, c1, c2)
	must.Do(t, l.Close())
}

// TestC11_CallsWaitForTheirTurn closes a Conn while several calls of each direction wait: for the
// peer, or for each other.
func TestC11_CallsWaitForTheirTurn(t *testing.T) {
	const each = 3
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b, WithLinger(waitLimit), WithBuffers(minBuffers, 64))
	calls := make(chan error, 2*each)
	for range each {
		go func() { calls <- second(c1.Read(make([]byte, 1))) }()
		go func() { calls <- second(c1.Write(make([]byte, 4096))) }()
	}
	waitUntil(t, func() bool { return c1.waiters() == 2 })
	closed := make(chan error, 1)
	go func() { closed <- c1.Close() }()
	for range 2 * each {
		must.Fail(t, receives(t, "a call on a closed Conn", calls), net.ErrClosed, "a call on a closed Conn")
	}
	must.Do(t, c2.Close())
	if err := receives(t, "Close", closed); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	must.Do(t, l.Close())
}
