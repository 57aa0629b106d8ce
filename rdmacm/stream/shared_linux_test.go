//go:build !portable

package stream

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/broker"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// share runs the broker of an address until the test ends or the program calls end.
func share(t testing.TB, addr string) (end func()) {
	t.Helper()
	b, err := broker.Open(broker.Config{Addrs: []netip.Addr{netip.MustParseAddr(addr)}, Slots: 8, GUID: 0x0200_0000_0000_0077, Log: t.Logf})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		must.Do(t, <-ended)
	})
	t.Cleanup(end)
	return end
}

// flow sends much data over a connection, in both directions, and returns when all of it
// has arrived.
func flow(t testing.TB, c1, c2 *Conn, meanwhile func()) {
	t.Helper()
	const size = 64 << 10
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, way := range [][2]*Conn{{c1, c2}, {c2, c1}} {
		sent, got := sha256.New(), sha256.New()
		done := make(chan error, 1)
		wg.Go(func() {
			b := make([]byte, size)
			for i := 0; ; i++ {
				for j := range b {
					b[j] = byte(i*j + i)
				}
				sent.Write(b)
				if _, err := way[0].Write(b); err != nil {
					done <- err
					return
				}
				select {
				case <-stop:
					done <- way[0].CloseWrite()
					return
				default:
				}
			}
		})
		wg.Go(func() {
			n, err := io.Copy(got, way[1])
			if err = errors.Join(err, <-done); err != nil || n == 0 || string(got.Sum(nil)) != string(sent.Sum(nil)) {
				t.Errorf("%d bytes arrived, which differ from those sent (%v)", n, err)
			}
		})
	}
	meanwhile()
	close(stop)
	wg.Wait()
}

// TestD3_OneAddress connects programs on one address with each other and with a program
// on another, and sends data while the broker ends and another takes over. No data is
// lost, connections stay, new ones wait for the broker and are established, and a port
// has one listener.
func TestD3_OneAddress(t *testing.T) {
	shared := loopback()
	end := share(t, shared)
	a, b, far := newHost(t, verbs.Config{Addr: shared}), newHost(t, verbs.Config{Addr: shared}), newHost(t, verbs.Config{Addr: loopback()})
	if x, y := guidOf(t, a), guidOf(t, b); x != y || x != 0x0200_0000_0000_0077 {
		t.Errorf("the node GUIDs of one address are %v and %v", x, y)
	}
	c1, c2, near := newConns(t, a, b)
	d1, d2, l := newConns(t, b, far)
	e1, e2, fromFar := newConns(t, far, a)
	id := a.id()
	port := netip.AddrPortFrom(a.addr, netip.MustParseAddrPort(near.Addr().String()).Port())
	must.Fail(t, id.BindAddr(port), ib.EADDRINUSE, "a second program on a port")
	must.Do(t, id.SetReuseAddr(true))
	must.Do(t, id.BindAddr(port))
	must.Fail(t, id.Listen(1), ib.EADDRINUSE, "a second listener on a port")
	must.Do(t, id.Destroy())

	flow(t, c1, c2, func() {
		flow(t, d1, d2, func() {
			flow(t, e1, e2, func() {
				end()
				dialing := make(chan error, 1)
				go func() {
					c, err := DialOn(soon(t), far.m, fromFar.Addr().String())
					if err == nil {
						err = c.Close()
					}
					dialing <- err
				}()
				accepting := make(chan error, 1)
				go func() {
					c, err := fromFar.Accept(soon(t))
					if err == nil {
						err = c.Close()
					}
					accepting <- err
				}()
				select {
				case err := <-dialing:
					t.Errorf("a connection comes without the broker: %v", err)
				case <-time.After(300 * time.Millisecond):
				}
				share(t, shared)
				must.Do(t, <-dialing)
				must.Do(t, <-accepting)
			})
		})
	})
	closeBoth(t, c1, c2)
	closeBoth(t, d1, d2)
	closeBoth(t, e1, e2)
	for _, x := range []*Listener{near, l, fromFar} {
		must.Do(t, x.Close())
	}
}

// TestD3_Ports binds IDs of two programs on one address to ports: they cannot have the
// same port, unless both allow it or it is an ephemeral port that was not requested.
func TestD3_Ports(t *testing.T) {
	const many = 1000
	shared := loopback()
	share(t, shared)
	a, b := newHost(t, verbs.Config{Addr: shared}), newHost(t, verbs.Config{Addr: shared})
	seen := map[uint16]bool{}
	for range many {
		for _, h := range []*host{a, b} {
			id := h.id()
			must.Do(t, id.BindAddr(h.at(0)))
			if p := id.LocalAddr().Port(); seen[p] {
				t.Fatalf("both programs have port %d", p)
			} else {
				seen[p] = true
			}
		}
	}
	x, y := a.id(), b.id()
	must.Do(t, x.BindAddr(a.at(7)))
	must.Fail(t, y.BindAddr(b.at(7)), ib.EADDRINUSE, "a port that another program's ID is bound to")
	must.Fail(t, y.ResolveAddr(b.at(7), a.at(port)), ib.EADDRINUSE, "to connect from it")
	if p := y.LocalAddr(); p.IsValid() {
		t.Errorf("the ID that is not bound has %v", p)
	}
	must.Do(t, y.BindAddr(b.at(8)))
	must.Fail(t, y.BindAddr(b.at(9)), ib.EINVAL, "a second port")
	destroy(t, x, y)
	y = b.id()
	must.Do(t, y.ResolveAddr(b.at(7), a.at(port))) // the port was released
	x = a.id()
	must.Fail(t, x.BindAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), 7)), ib.EADDRINUSE, "the port at all addresses")
	destroy(t, x, y)
}

// guidOf returns the node GUID of a host.
func guidOf(t testing.TB, h *host) ib.GUID {
	t.Helper()
	attr, err := h.m.Devices()[0].QueryDevice()
	must.Do(t, err)
	return attr.NodeGUID
}
