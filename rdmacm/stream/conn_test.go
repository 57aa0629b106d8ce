package stream

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// newConns returns two connected Conns of a and b, and the listener.
func newConns(t testing.TB, a, b *host, opts ...Option) (c1, c2 *Conn, l *Listener) {
	t.Helper()
	l, err := ListenOn(soon(t), b.m, b.at(0).String(), opts...)
	must.Do(t, err)
	c1, c2 = dialed(t, a, l, opts...)
	return c1, c2, l
}

// dialed connects to a listener.
func dialed(t testing.TB, a *host, l *Listener, opts ...Option) (c1, c2 *Conn) {
	t.Helper()
	got := make(chan error, 1)
	go func() {
		var err error
		c2, err = l.Accept(soon(t))
		got <- err
	}()
	c1, err := DialOn(soon(t), a.m, l.Addr().String(), opts...)
	must.Do(t, err)
	must.Do(t, <-got)
	return c1, c2
}

// closeBoth closes both ends at once.
func closeBoth(t testing.TB, c1, c2 *Conn) {
	t.Helper()
	var wg sync.WaitGroup
	for _, c := range []*Conn{c1, c2} {
		wg.Go(func() {
			if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
}

// TestC11_NetConn runs the standard test of net.Conn.
func TestC11_NetConn(t *testing.T) {
	for name, network := range networks {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				a, b := network(t)
				x, y, l := newConns(t, a, b)
				return x, y, func() {
					closeBoth(t, x, y)
					must.Do(t, l.Close())
				}, nil
			})
		})
	}
}

// TestC11_Stream sends bytes both ways at once, in pieces of random sizes.
func TestC11_Stream(t *testing.T) {
	for name, network := range networks {
		for _, opts := range [][]Option{nil, {WithBuffers(minBuffers, 100)}, {WithBuffers(5, 1)}} {
			t.Run(name, func(t *testing.T) {
				a, b := network(t)
				c1, c2, l := newConns(t, a, b, opts...)
				size := 4 << 20
				if opts != nil {
					size = 3 << 10
				}
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				var wg sync.WaitGroup
				for i, c := range [][2]*Conn{{c1, c2}, {c2, c1}} {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					data := make([]byte, size)
					for j := range data {
						data[j] = byte(r.Uint32())
					}
					sum := sha256.Sum256(data)
					wg.Go(func() { writeAll(t, c[0], data, r) })
					wg.Go(func() {
						got, err := io.ReadAll(c[1])
						if err != nil || sha256.Sum256(got) != sum {
							t.Errorf("%d bytes arrived, of %d, or others: %v", len(got), size, err)
						}
					})
				}
				wg.Wait()
				closeBoth(t, c1, c2)
				must.Do(t, l.Close())
			})
		}
	}
}

// writeAll writes data in random pieces, and then the end.
func writeAll(t testing.TB, c *Conn, data []byte, r *rand.Rand) {
	for len(data) > 0 {
		n := min(1+r.IntN(40000), len(data))
		if m, err := c.Write(data[:n]); err != nil || m != n {
			t.Errorf("write of %d: %d, %v", n, m, err)
			return
		}
		data = data[n:]
	}
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
}

// TestC11_StreamEnd checks that data written before Close arrives, and then the end.
func TestC11_StreamEnd(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b)
	text := bytes.Repeat([]byte("softhca "), 1000)
	if n, err := c1.Write(text); err != nil || n != len(text) {
		t.Fatal(n, err)
	}
	must.Do(t, c1.Close())
	got, err := io.ReadAll(c2)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v; want %d and the end", len(got), err, len(text))
	}
	if n, err := c2.Write(text); n != 0 || !errors.Is(err, ib.ECONNRESET) {
		t.Errorf("write to a closed peer: %d, %v; want ECONNRESET", n, err)
	}
	must.Do(t, c2.Close())
	for _, err := range []error{c2.Close(), c2.CloseWrite(), second(c2.Read(got)), second(c2.Write(got))} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("a call on a closed Conn: %v, want net.ErrClosed", err)
		}
	}
	must.Do(t, l.Close())
}

func second(_ int, err error) error { return err }

// TestC11_HalfClose writes in one direction after the other has ended.
func TestC11_HalfClose(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b)
	must.Do(t, c1.CloseWrite())
	if n, err := c2.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read after CloseWrite: %d, %v; want the end", n, err)
	}
	go func() {
		_, _ = c2.Write([]byte("still here")) // the reader says whether it came
		_ = c2.CloseWrite()
	}()
	if got, err := io.ReadAll(c1); string(got) != "still here" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c1.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after CloseWrite: %v", err)
	}
	closeBoth(t, c1, c2)
	must.Do(t, l.Close())
}

// TestC11_Deadlines checks that calls end at their deadlines, also calls that already
// wait, and that the Conn still works afterwards.
func TestC11_Deadlines(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b)
	past := time.Unix(1, 0)
	buf := make([]byte, 1)
	timeout := func(what string, err error) {
		t.Helper()
		var ne net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("%s: %v, want a timeout", what, err)
		}
	}
	must.Do(t, c1.SetDeadline(past))
	timeout("read in the past", second(c1.Read(buf)))
	timeout("write in the past", second(c1.Write(buf)))
	timeout("close in the past", c1.CloseWrite())
	must.Do(t, c1.SetDeadline(time.Time{}))
	if _, err := c1.Write(buf); err != nil {
		t.Errorf("write after the deadline was taken back: %v", err)
	}

	got := make(chan error, 1)
	go func() { got <- second(c1.Read(buf)) }()
	waitUntil(t, func() bool { return c1.waiters() == 1 })
	must.Do(t, c1.SetReadDeadline(time.Now().Add(time.Hour)))
	must.Do(t, c1.SetReadDeadline(past))
	timeout("read that waits", <-got)

	must.Do(t, c1.SetReadDeadline(time.Now().Add(time.Millisecond)))
	timeout("read in the future", second(c1.Read(buf)))

	big := make([]byte, 4<<20)
	must.Do(t, c2.SetWriteDeadline(time.Now().Add(time.Millisecond)))
	n, err := c2.Write(big)
	timeout("write that nobody reads", err)
	must.Do(t, c1.SetReadDeadline(time.Time{}))
	must.Do(t, c2.SetWriteDeadline(time.Time{}))
	if _, err := io.ReadFull(c1, big[:n]); err != nil {
		t.Errorf("reading the data written before the deadline: %v", err)
	}
	closeBoth(t, c1, c2)
	must.Do(t, l.Close())
}

// waiters returns the number of sleeping calls.
func (c *Conn) waiters() int {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.waiters
}

// stuck reports whether a call sleeps because the peer accepts no more data.
func (c *Conn) stuck() bool {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.waiters == 1 && c.stream.credits == 1
}

// TestC11_CloseWakes closes a Conn, or its peer, while calls wait.
func TestC11_CloseWakes(t *testing.T) {
	for who, linger := range map[string]time.Duration{"own end": 50 * time.Millisecond, "peer": waitLimit} {
		t.Run(who, func(t *testing.T) {
			a, b := newPair(t)
			c1, c2, l := newConns(t, a, b, WithLinger(linger))
			read, written := make(chan error, 1), make(chan error, 1)
			go func() { read <- second(c1.Read(make([]byte, 1))) }()
			go func() { written <- second(c1.Write(make([]byte, 4<<20))) }()
			waitUntil(t, func() bool { return c1.waiters() == 2 })
			first, next := c1, c2
			if who == "peer" {
				first, next = c2, c1
			}
			if err := first.Close(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			r, w := <-read, <-written
			if who == "peer" {
				if r != io.EOF || !errors.Is(w, ib.ECONNRESET) {
					t.Errorf("read: %v, write: %v; want the end and ECONNRESET", r, w)
				}
			} else if !errors.Is(r, net.ErrClosed) || !errors.Is(w, net.ErrClosed) {
				t.Errorf("read: %v, write: %v; want net.ErrClosed", r, w)
			}
			must.Do(t, next.Close())
			must.Do(t, l.Close())
		})
	}
}

// TestC11_Linger checks that Close returns an error in bounded time if the peer does not
// take the written data.
func TestC11_Linger(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b, WithLinger(20*time.Millisecond), WithBuffers(4, 64))
	wrote := make(chan error, 1)
	go func() { wrote <- second(c1.Write(make([]byte, 4096))) }()
	waitUntil(t, c1.stuck)
	must.Do(t, c1.SetWriteDeadline(time.Unix(1, 0)))
	must.Fail(t, <-wrote, os.ErrDeadlineExceeded, "a write that nobody reads")
	must.Fail(t, c1.Close(), os.ErrDeadlineExceeded, "a close that loses the end")
	if _, err := io.ReadAll(c2); !errors.Is(err, ib.ECONNRESET) {
		t.Errorf("read of a stream without its end: %v, want ECONNRESET", err)
	}
	must.Do(t, c2.Close())
	must.Do(t, l.Close())
}

// TestC11_PeerVanishes makes the peer's adapter vanish.
func TestC11_PeerVanishes(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b)
	must.Do(t, b.m.Devices()[0].Close())
	if _, err := c1.Read(make([]byte, 1)); !errors.Is(err, ib.ECONNRESET) {
		t.Errorf("read: %v, want ECONNRESET", err)
	}
	if _, err := c2.Read(make([]byte, 1)); !errors.Is(err, ib.ENODEV) {
		t.Errorf("read without an adapter: %v, want ENODEV", err)
	}
	must.Do(t, c1.Close())
	must.Do(t, c2.Close())
	_, err := l.Accept(soon(t))
	must.Fail(t, err, ib.ENODEV, "Accept without an adapter")
	must.Do(t, l.Close())
}

// TestC11_ManagerGone closes the Manager of a waiting Conn.
func TestC11_ManagerGone(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b)
	got := make(chan error, 1)
	go func() { got <- second(c1.Read(make([]byte, 1))) }()
	waitUntil(t, func() bool { return c1.waiters() == 1 })
	must.Do(t, a.m.Close())
	if err := <-got; err == nil || err == io.EOF {
		t.Errorf("read when the Manager is closed: %v", err)
	}
	must.Do(t, c1.Close()) // there is nothing to disconnect
	if _, err := c2.Read(make([]byte, 1)); !errors.Is(err, ib.ECONNRESET) {
		t.Errorf("read: %v, want ECONNRESET", err)
	}
	must.Do(t, c2.Close())
	must.Do(t, l.Close())
}

// TestC11_EndedUnderTheConn closes a Manager of the program's adapter, or destroys the ID or
// its queue pair, before the Conn is closed. Its calls say so, and its Close destroys what it has.
func TestC11_EndedUnderTheConn(t *testing.T) {
	for name, end := range map[string]func(*rdmacm.Manager, *Conn) error{
		"Manager": func(m *rdmacm.Manager, _ *Conn) error { return m.Close() },
		"ID":      func(_ *rdmacm.Manager, c *Conn) error { return c.ID().Destroy() },
		"QP":      func(_ *rdmacm.Manager, c *Conn) error { return c.ID().DestroyQP() },
		"verb":    func(_ *rdmacm.Manager, c *Conn) error { return c.QP().Destroy() },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newPair(t)
			m, err := rdmacm.New(a.m.Devices()...)
			must.Do(t, err)
			defer func() { _ = m.Close() }() // fails if that was the end
			c1, c2, l := newConns(t, &host{t, m, a.addr}, b)
			must.Do(t, c1.SetReadDeadline(time.Now().Add(waitLimit)))
			got := make(chan error, 1)
			go func() { got <- second(c1.Read(make([]byte, 1))) }()
			waitUntil(t, func() bool { return c1.waiters() == 1 })
			must.Do(t, end(m, c1))
			must.Fail(t, <-got, rdmacm.ErrClosed, "a read that waits")
			must.Fail(t, second(c1.Write([]byte("x"))), rdmacm.ErrClosed, "a write")
			must.Do(t, c1.Close())
			left, err := a.m.Devices()[0].Resources()
			must.Do(t, err)
			if left.CMIDs = 0; left != (verbs.Resources{}) { // they may be in TIMEWAIT
				t.Errorf("%+v are left", left)
			}
			must.Do(t, c2.Close())
			must.Do(t, l.Close())
		})
	}
}

// TestC11_StreamFaults streams over a network that loses and delays packets.
func TestC11_StreamFaults(t *testing.T) {
	a, b := newFaultyPair(t, "drop p=0.02 op=RC_SEND,ACK")
	c1, c2, l := newConns(t, a, b)
	data := bytes.Repeat([]byte("0123456789"), 20000)
	go func() {
		_, _ = c1.Write(data) // the reader says whether it came
		_ = c1.CloseWrite()
	}()
	if got, err := io.ReadAll(c2); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
	}
	closeBoth(t, c1, c2)
	must.Do(t, l.Close())
}

// TestC11_Racing uses a Conn from many goroutines; the race detector watches.
func TestC11_Racing(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if _, err := c1.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				_ = c1.SetReadDeadline(time.Now().Add(time.Hour)) // never fails
			}
		})
		wg.Go(func() {
			if _, err := io.ReadFull(c2, make([]byte, 200)); err != nil {
				t.Error(err)
			}
			if _, err := c2.Write([]byte("y")); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := c1.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			_, _ = c1.LocalAddr(), c1.RemoteAddr()
		})
	}
	wg.Wait()
	closeBoth(t, c1, c2)
	must.Do(t, l.Close())
}

// TestC11_HostileStream makes a peer violate the protocol of streams.
func TestC11_HostileStream(t *testing.T) {
	for _, tt := range []struct {
		what string
		wr   verbs.SendWR
	}{
		{"too many credits", verbs.SendWR{Opcode: ib.WRSendWithImm, ImmData: 0xffff}},
		{"no immediate", verbs.SendWR{Opcode: ib.WRSend}},
		{"too many bytes", verbs.SendWR{Opcode: ib.WRSendWithImm, Flags: ib.SendInline, InlineData: make([]byte, 128)}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			a, b := newPair(t)
			l, err := ListenOn(soon(t), b.m, b.at(port).String(), WithBuffers(4, 64), WithLinger(20*time.Millisecond))
			must.Do(t, err)
			accepted := make(chan *Conn, 1)
			go func() {
				c, _ := l.Accept(soon(t))
				accepted <- c
			}()
			client := a.resolved(b.at(port))
			must.Do(t, client.Connect(&rdmacm.ConnParam{PrivateData: greeting{8, 64}.encode(), RetryCount: 7, RNRRetryCount: 7}))
			c := <-accepted
			must.Do(t, client.QP().PostSend(tt.wr))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ib.ECONNRESET) {
				t.Errorf("read: %v, want ECONNRESET", err)
			}
			must.Do(t, c.Close())
			destroy(t, client)
			must.Do(t, l.Close())
		})
	}
}

// TestC11_CloseWakesAtOnce: a call that waits returns when Close begins, not when Close has
// waited for the peer to read the written data.
func TestC11_CloseWakesAtOnce(t *testing.T) {
	a, b := newPair(t)
	c1, c2, l := newConns(t, a, b, WithLinger(5*time.Second), WithBuffers(4, 64))
	read, closed := make(chan error, 1), make(chan error, 1)
	wrote := make(chan error, 1)
	go func() { wrote <- second(c1.Write(make([]byte, 4096))) }()
	waitUntil(t, c1.stuck)
	go func() { read <- second(c1.Read(make([]byte, 1))) }()
	waitUntil(t, func() bool { return c1.waiters() == 2 })
	go func() { closed <- c1.Close() }()
	must.Fail(t, <-read, net.ErrClosed, "a read when its own side closes")
	must.Fail(t, <-wrote, net.ErrClosed, "a write when its own side closes")
	select {
	case err := <-closed:
		t.Fatalf("Close returned %v before the calls that wait did", err)
	default:
	}
	must.Do(t, c2.Close()) // and Close need not wait longer
	<-closed
	must.Do(t, l.Close())
}

// TestC11_Faults makes verbs fail in Dial and Accept: both return the error, and no
// objects are left. The hosts' protection domains are deallocated at the end.
func TestC11_Faults(t *testing.T) {
	for _, verb := range []string{"AllocPD", "CreateCQ", "CreateQP", "RegMR", "PostRecv"} {
		t.Run("dial, "+verb, func(t *testing.T) {
			a, b := newFaultyPair(t, "fail errno=ENOMEM nth=1 op="+verb)
			l, err := ListenOn(soon(t), b.m, ":0")
			must.Do(t, err)
			to := b.at(l.ID().LocalAddr().Port()).String()
			_, err = DialOn(soon(t), a.m, to)
			must.Fail(t, err, ib.ENOMEM, "Dial")
			got := make(chan *Conn, 1)
			go func() {
				c, _ := l.Accept(soon(t))
				got <- c
			}()
			c, err := DialOn(soon(t), a.m, to) // the second attempt
			must.Do(t, err)
			closeBoth(t, c, <-got)
			must.Do(t, l.Close())
		})
		t.Run("accept, "+verb, func(t *testing.T) {
			a, b := newFaultyPair(t, "fail errno=ENOMEM nth=1 op="+verb)
			l, err := ListenOn(soon(t), a.m, ":0")
			must.Do(t, err)
			to := a.at(l.ID().LocalAddr().Port()).String()
			got := make(chan *Conn, 1)
			go func() {
				c, _ := l.Accept(soon(t))
				got <- c
			}()
			_, err = DialOn(soon(t), b.m, to)
			must.Fail(t, err, ib.ECONNREFUSED, "Dial to a listener that cannot")
			c, err := DialOn(soon(t), b.m, to)
			must.Do(t, err)
			closeBoth(t, c, <-got)
			must.Do(t, l.Close())
		})
	}
}
