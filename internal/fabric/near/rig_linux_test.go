//go:build !portable

package near

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/internal/must"
)

// waitLimit bounds each wait for something that should happen at once.
const waitLimit = 10 * time.Second

// nextAddr numbers the addresses of this process's tests.
var nextAddr atomic.Uint32

// testSecret is the user's secret in all tests.
var testSecret = &identity.Secret{1: 2, 3: 4}

// open opens a port on an unused address.
func open(t testing.TB, c Config) *Port {
	t.Helper()
	for {
		n := nextAddr.Add(1) + uint32(syscall.Getpid())<<8
		a := netip.AddrFrom4([4]byte{127, byte(n>>16) | 1, byte(n >> 8), byte(n) | 1})
		p, err := openAt(a, c)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		must.Do(t, err)
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
}

func openAt(a netip.Addr, c Config) (*Port, error) {
	c.Counts = new(fabric.Counts)
	if c.Secret == nil {
		c.Secret = testSecret
	}
	if c.Permit == nil {
		c.Permit = func(netip.Addr) error { return nil }
	}
	u, err := udp.Open(udp.Config{Addrs: []netip.Addr{a}, Counts: c.Counts})
	if err != nil {
		return nil, err
	}
	return Wrap(u, c)
}

// end is one end of a pair of ports that exchange numbered packets.
type end struct {
	*Port
	batch *fabric.Batch
	path  fabric.Path
}

func newEnd(from, to *Port) *end {
	return &end{from, fabric.NewBatch(1<<20, from.Caps()), fabric.Path{Src: from.Caps().Addrs[0], Dst: to.Caps().Addrs[0], HopLimit: 64, TClass: 8}}
}

// add appends packets of size bytes to a slot, numbered from first on.
func (e *end) add(t testing.TB, slot uint8, size, first, count int) {
	t.Helper()
	e.batch.Aim(slotQPN(slot))
	for i := range count {
		seg, _ := e.batch.Append(&e.path, size)
		if seg == nil {
			t.Fatal("the batch is too small for the test")
		}
		clear(seg)
		binary.BigEndian.PutUint32(seg[4:], uint32(slotQPN(slot))) // the destination, by which the kernel steers
		binary.BigEndian.PutUint32(seg[12:], uint32(first+i))
	}
}

// began is the origin of the times of batches.
var began = time.Now()

// instant returns the current time in the form of Batch.Now.
func instant() clock.Instant { return clock.Instant(time.Since(began)) }

// flush sends the batch.
func (e *end) flush(t testing.TB) {
	t.Helper()
	e.batch.Now = instant()
	for end := time.Now().Add(waitLimit); ; {
		err := e.Send(e.batch)
		if err == nil {
			return
		}
		if !errors.Is(err, fabric.ErrBlocked) || time.Now().After(end) {
			t.Fatalf("send: %v", err)
		}
		must.Do(t, e.Wait(time.Millisecond, false, true))
	}
}

// next waits for datagrams.
func (e *end) next(t testing.TB, ds []fabric.Datagram) []fabric.Datagram {
	t.Helper()
	for end := time.Now().Add(waitLimit); ; {
		n, err := e.Receive(ds)
		must.Do(t, err)
		if n > 0 {
			return ds[:n]
		}
		if time.Now().After(end) {
			t.Fatal("nothing arrives")
		}
		must.Do(t, e.Wait(time.Until(end), true, false))
	}
}

// expect receives packets that are numbered from first on, in order.
func (e *end) expect(t testing.TB, first, count int) {
	t.Helper()
	ds := make([]fabric.Datagram, inboxLen)
	for got := 0; got < count; {
		for _, d := range e.next(t, ds) {
			for off := 0; off < len(d.Bytes); got++ {
				var seg []byte
				seg, off = d.Segment(off)
				if n := int(binary.BigEndian.Uint32(seg[12:])); n != first+got {
					t.Fatalf("packet %d arrives, want %d", n, first+got)
				}
			}
		}
	}
}

// met makes two ports meet.
func met(t testing.TB, a, b *Port) (*end, *end) {
	t.Helper()
	x, y := newEnd(a, b), newEnd(b, a)
	for end := time.Now().Add(waitLimit); len(a.Peers()) == 0 || len(b.Peers()) == 0 || x.routed() == nil || y.routed() == nil; {
		if time.Now().After(end) {
			t.Fatal("the ports do not meet")
		}
		x.poke(t, y)
	}
	y.settle(t)
	x.settle(t)
	return x, y
}

// poke sends one packet, and discards what arrives at both ends.
func (e *end) poke(t testing.TB, at *end) {
	t.Helper()
	e.add(t, 0, 64, 0, 1)
	e.flush(t)
	pause(t, at.Port)
	e.settle(t)
	at.settle(t)
}

// settle receives and discards what has arrived.
func (e *end) settle(t testing.TB) {
	t.Helper()
	ds := make([]fabric.Datagram, inboxLen)
	for range 3 * networkTurn {
		_, err := e.Receive(ds)
		must.Do(t, err)
	}
}

// routed returns the peer to which the end sends; nil before the ports have met.
func (e *end) routed() *peer {
	return e.routeOf(key{e.path.Src, e.path.Dst, 0}).peer
}

func must4(b ...byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }

// awaitPeers receives until the port has met n processes.
func (e *end) awaitPeers(t testing.TB, n int) {
	t.Helper()
	for end := time.Now().Add(waitLimit); len(e.Peers()) != n; pause(t, e.Port) {
		e.settle(t)
		if time.Now().After(end) {
			t.Fatalf("the port has met %d processes, want %d", len(e.Peers()), n)
		}
	}
}

// pause waits for a moment, or until something arrives at a port.
func pause(t testing.TB, p *Port) {
	t.Helper()
	must.Do(t, p.Wait(time.Millisecond, true, false))
}
