package stream

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// TestC11_DialErrors checks the errors of Dial, and that nothing is left.
func TestC11_DialErrors(t *testing.T) {
	a, b := newPair(t)
	l := b.listener()
	for _, tt := range []struct {
		addr string
		opt  Option
		err  error
	}{
		{"10.0.0.2:9", nil, ib.ECONNREFUSED},
		{"10.0.0.2", nil, ib.EINVAL},
		{"10.0.0.2:nothing", nil, nil},
		{"10.0.0.2:9", WithBuffers(3, 100), ib.EINVAL},
		{"10.0.0.2:9", WithBuffers(16, maxSize+1), ib.EINVAL},
	} {
		var opts []Option
		if tt.opt != nil {
			opts = []Option{tt.opt}
		}
		c, err := DialOn(soon(t), a.m, tt.addr, opts...)
		if c != nil || err == nil || tt.err != nil && !errors.Is(err, tt.err) {
			t.Errorf("dial %s: %v, want %v", tt.addr, err, tt.err)
		}
	}
	const closed = "nothing listens on that port there, in port space tcp"
	if _, err := DialOn(soon(t), a.m, "10.0.0.2:9"); err == nil || !strings.Contains(err.Error(), closed) {
		t.Errorf("dial a port without a listener: %v, want %q", err, closed)
	}
	got := make(chan error, 1)
	go func() {
		_, err := DialOn(soon(t), a.m, b.at(port).String())
		got <- err
	}()
	server, err := l.GetRequest(soon(t))
	must.Do(t, err)
	if _, err := parseGreeting(server.Event().Param.PrivateData); err != nil {
		t.Error(err)
	}
	if from := peerOf(server); from != a.addr {
		t.Errorf("the request is from %v, want %v", from, a.addr)
	}
	must.Do(t, withQP(t, server).Accept(nil)) // without a greeting
	must.Fail(t, <-got, ib.EINVAL, "Dial to a program that is no Listener")
	destroy(t, server, l)
	waitUntil(t, func() bool { return a.m.IDs() == 0 })
}

// TestC11_DialCanceled cancels a Dial: the listener's side gets a REJ.
func TestC11_DialCanceled(t *testing.T) {
	a, b := newPair(t)
	l := b.listener()
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	go func() {
		_, err := DialOn(ctx, a.m, b.at(port).String())
		got <- err
	}()
	server, err := l.GetRequest(soon(t))
	must.Do(t, err)
	withQP(t, server)
	cancel()
	err = <-got
	must.Fail(t, err, context.Canceled, "Dial that is taken back")
	if text := err.Error(); !strings.HasPrefix(text, "dial 10.0.0.2:") || !strings.Contains(text, "no answer to the request to connect") {
		t.Errorf("a canceled Dial does not say what it waited for: %s", text)
	}
	waitUntil(t, func() bool {
		n, _ := b.cm()
		return n.Received[2] == 1
	}) // its REJ
	must.Fail(t, server.Accept(nil), ib.EINVAL, "Accept of a request that is taken back")
	destroy(t, server, l)
	if _, n := a.cm(); n != 0 {
		t.Errorf("%d connections are left of the Dial", n)
	}
	if _, n := b.cm(); n != 0 {
		t.Errorf("%d connections are left of the request", n)
	}
}

// TestC11_AcceptContext ends Accept by its context, by Close, and lets several
// goroutines accept.
func TestC11_AcceptContext(t *testing.T) {
	a, b := newPair(t)
	l, err := ListenOn(soon(t), b.m, b.at(0).String())
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 3)
	go func() {
		_, err := l.Accept(ctx)
		got <- err
	}()
	cancel()
	must.Fail(t, <-got, context.Canceled, "Accept with a context that ends")

	conns := make(chan *Conn, 3)
	for range 3 {
		go func() {
			c, err := l.Accept(soon(t))
			conns <- c
			got <- err
		}()
	}
	var all []*Conn
	for range 3 {
		c, err := DialOn(soon(t), a.m, l.Addr().String())
		must.Do(t, err)
		must.Do(t, <-got)
		all = append(all, c)
	}
	for _, c := range all {
		closeBoth(t, c, <-conns)
	}
	for range 2 {
		go func() {
			_, err := l.Accept(soon(t))
			got <- err
		}()
	}
	must.Do(t, l.Close())
	must.Fail(t, <-got, net.ErrClosed, "Accept when the listener is closed")
	must.Fail(t, <-got, net.ErrClosed, "Accept when the listener is closed")
	must.Fail(t, l.Close(), net.ErrClosed, "a second Close")
	if _, err := ListenOn(soon(t), b.m, "10.0.0.9:1"); !errors.Is(err, ib.EADDRNOTAVAIL) {
		t.Errorf("listen on a foreign address: %v", err)
	}
}

// TestC11_Strangers connects peers that are not a Conn: they are rejected. Connections
// that are never established are bounded, and the listener closes while some are pending.
func TestC11_Strangers(t *testing.T) {
	a, b := newFaultyPair(t, "drop op=RTU")
	l, err := ListenOn(soon(t), b.m, b.at(port).String(), WithBacklog(1))
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := l.Accept(ctx)
		done <- err
	}()
	stranger := a.resolved(b.at(port))
	var no *rdmacm.RejectError
	if err := stranger.Connect(nil); !errors.As(err, &no) || !strings.HasPrefix(string(no.PrivateData), "the peer does not speak") {
		t.Errorf("a stranger hears %v", err)
	}
	ask := func() (*rdmacm.ID, *rdmacm.EventChannel) {
		id, ch := a.resolved(b.at(port)), a.m.NewEventChannel()
		must.Do(t, id.Connect(&rdmacm.ConnParam{PrivateData: greeting{16, 64}.encode()})) // its RTU is lost
		must.Do(t, id.Migrate(ch))
		return id, ch
	}
	slow, ofSlow := ask()
	late, ofLate := ask()
	_, err = await(soon(t), ofSlow, rdmacm.EventRejected)
	must.Fail(t, err, ib.ECONNREFUSED, "the slower of one connection too many")
	cancel()
	must.Fail(t, <-done, context.Canceled, "Accept with a context that ends")
	must.Do(t, l.Close())
	_, err = await(soon(t), ofLate, rdmacm.EventRejected)
	must.Fail(t, err, ib.ECONNREFUSED, "a connection that is not established when the listener closes")
	destroy(t, stranger, slow, late)
}

// TestC11_OwnAdapters opens adapters by the package's Listen and Dial. They close with
// their last user.
func TestC11_OwnAdapters(t *testing.T) {
	addr := loopback()
	l, err := Listen(soon(t), addr+":0")
	must.Do(t, err)
	got := make(chan *Conn, 1)
	go func() {
		c, _ := l.Accept(soon(t))
		got <- c
	}()
	c1, err := Dial(soon(t), l.Addr().String())
	must.Do(t, err)
	c2 := <-got
	if c1.QP() == nil || c1.ID().QP() != c1.QP() || c1.RemoteAddr().String() != l.Addr().String() || c1.LocalAddr().Network() != "rdma" {
		t.Errorf("%v to %v", c1.LocalAddr(), c1.RemoteAddr())
	}
	must.Do(t, l.Close())
	if _, err := verbs.Open(verbs.Config{Addr: addr, Exclusive: true}); !errors.Is(err, ib.EADDRINUSE) {
		t.Errorf("the listener's adapter did not stay for its connection: %v", err)
	}
	closeBoth(t, c1, c2)
	again, err := verbs.Open(verbs.Config{Addr: addr})
	must.Do(t, err)
	must.Do(t, again.Close())

	_, err = Dial(soon(t), addr+":1", WithConfig(verbs.Config{Addr: "nowhere"}))
	must.Fail(t, err, ib.EINVAL, "Dial with a bad configuration")
	_, err = Listen(soon(t), "nonsense")
	must.Fail(t, err, ib.EINVAL, "Listen on nonsense")
	n := verbs.NewNetwork()
	_, err = Dial(soon(t), "10.0.0.1:1", WithConfig(verbs.Config{Network: n, Addr: "10.0.0.1"}))
	must.Fail(t, err, ib.ECONNREFUSED, "Dial to itself, where nobody listens")
}

// TestC11_HTTP serves HTTP over Conns.
func TestC11_HTTP(t *testing.T) {
	a, b := newPair(t)
	l, err := ListenOn(soon(t), b.m, ":80")
	must.Do(t, err)
	srv := &http.Server{ReadHeaderTimeout: waitLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s over %s", r.URL.Path, r.Context().Value(http.LocalAddrContextKey).(net.Addr).Network())
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l.NetListener()) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return DialOn(ctx, a.m, addr)
	}}
	client := http.Client{Transport: transport, Timeout: waitLimit}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r, err := client.Get(fmt.Sprintf("http://10.0.0.2/%d", i))
			if err != nil {
				t.Error(err)
				return
			}
			body, err := io.ReadAll(r.Body)
			if want := fmt.Sprintf("/%d over rdma", i); err != nil || string(body) != want {
				t.Errorf("%q, %v; want %q", body, err, want)
			}
			must.Do(t, r.Body.Close())
		})
	}
	wg.Wait()
	transport.CloseIdleConnections()
	must.Do(t, srv.Shutdown(soon(t)))
	must.Fail(t, <-served, http.ErrServerClosed, "Serve")
}

// TestC11_Lookup parses addresses.
func TestC11_Lookup(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1:7471": "10.0.0.1:7471", "[::ffff:10.0.0.1]:1": "10.0.0.1:1", "[fd00::1%lo]:http": "[fd00::1]:80", ":5": "0.0.0.0:5",
	} {
		all, err := lookup(soon(t), text)
		if err != nil || all[0] != netip.MustParseAddrPort(want) {
			t.Errorf("%s is %v, %v; want %s", text, all, err, want)
		}
	}
	if all, err := lookup(soon(t), "localhost:1"); err != nil || !all[0].Addr().IsLoopback() {
		t.Errorf("localhost is %v, %v", all, err)
	}
}

// TestC11_Greeting checks that invalid greetings are refused.
func TestC11_Greeting(t *testing.T) {
	g := greeting{16, 4096}
	if got, err := parseGreeting(append(g.encode(), make([]byte, 40)...)); err != nil || got != g {
		t.Errorf("%+v, %v", got, err)
	}
	for _, b := range [][]byte{nil, make([]byte, 56), g.encode()[:15], {0: 's'}, greeting{3, 1}.encode(), greeting{4, 0}.encode(), greeting{1 << 31, 1}.encode(), greeting{4, 1 << 31}.encode()} {
		if _, err := parseGreeting(b); !errors.Is(err, ib.EINVAL) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

// TestDeadline changes a deadline in every order.
func TestDeadline(t *testing.T) {
	var d deadline
	d.init()
	if isClosed(d.wait()) {
		t.Error("no deadline has passed")
	}
	d.set(time.Unix(1, 0))
	if !isClosed(d.wait()) {
		t.Error("a deadline in the past has not passed")
	}
	d.set(time.Unix(1, 0))
	d.set(time.Now().Add(time.Hour))
	w := d.wait()
	if isClosed(w) {
		t.Error("a deadline in an hour has passed")
	}
	d.set(time.Now().Add(time.Nanosecond))
	<-w
	d.set(time.Time{})
	if isClosed(d.wait()) {
		t.Error("no deadline has passed")
	}
}

// TestC11_AcceptAfterRemoval closes the adapter: waiting and later calls of Accept return
// an error, also on a listener on all addresses.
func TestC11_AcceptAfterRemoval(t *testing.T) {
	for _, host := range []string{"10.0.0.1", ""} {
		h := newHost(t, verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1"})
		l, err := ListenOn(soon(t), h.m, net.JoinHostPort(host, "0"))
		must.Do(t, err)
		const waiting = 3
		got := make(chan error, waiting)
		for range waiting {
			go func() {
				_, err := l.Accept(soon(t))
				got <- err
			}()
		}
		must.Do(t, h.m.Devices()[0].Close())
		for range waiting {
			must.Fail(t, <-got, ib.ENODEV, "Accept when the adapter goes")
		}
		_, err = l.Accept(soon(t))
		must.Fail(t, err, ib.ENODEV, "Accept without an adapter")
		must.Do(t, l.Close())
	}
}

// TestC11_OldestOfTheLargest: a Listener that is full drops the connection that waits longest
// of the address that has the most, of equals the first.
func TestC11_OldestOfTheLargest(t *testing.T) {
	for from, want := range map[string]int{"a": 0, "abb": 1, "abcbc": 1, "bacca": 1, "abccab": 0, "cabcab": 0, "abccc": 2} {
		var l Listener
		var all []*list.Element
		for i := range len(from) {
			all = append(all, l.order.PushBack(waiting{from: netip.AddrFrom4([4]byte{10, 0, 0, from[i]})}))
		}
		if got := slices.Index(all, l.oldest()); got != want {
			t.Errorf("of %q the connection %d is dropped, want %d", from, got, want)
		}
	}
}
