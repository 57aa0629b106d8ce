package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// loopback returns address i of those that no other test process uses.
func loopback(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 192+pid>>8&31, pid&255, i)
}

// opener opens an adapter over the kernel's UDP, whatever the TCP connection's
// address.
func opener(addr string) Open {
	return func(netip.Addr) (*verbs.Context, func() error, error) {
		hca, err := verbs.Open(verbs.Config{Addr: addr})
		if err != nil {
			return nil, nil, err
		}
		return hca, hca.Close, nil
	}
}

// options are small enough for a test; a side that waits fails soon.
func options(k Kind) Options {
	return Options{Kind: k, GIDIndex: -1, Iters: 60, MTU: 1024, RxDepth: 20, QPs: 4, Idle: 20 * time.Second}
}

// both runs a server and a client with their options and returns what both
// return.
func both(t *testing.T, server, client Side) (s, c Result, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, serverErr = server.Server(t.Context(), l)
	}()
	c, clientErr = client.Client(t.Context(), l.Addr().String())
	<-done
	return s, c, serverErr, clientErr
}

func TestKinds(t *testing.T) {
	for _, k := range []Kind{RC, UC, UD, SRQ, RD} {
		for _, events := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s events %v", kindNames[k], events), func(t *testing.T) {
				o := options(k)
				o.Events = events
				var serverOut, clientOut strings.Builder
				s, c, serverErr, clientErr := both(t,
					Side{Options: o, Open: opener(loopback(1)), Out: &serverOut},
					Side{Options: o, Open: opener(loopback(2)), Out: &clientOut})
				if serverErr != nil || clientErr != nil {
					t.Fatalf("server: %v; client: %v", serverErr, clientErr)
				}
				if s.Iters != o.Iters || c.Elapsed <= 0 || c.Size != s.Size {
					t.Errorf("server %+v, client %+v", s, c)
				}
				compareEnds(t, serverOut.String(), clientOut.String())
				if told := strings.Contains(serverOut.String(), ", EECN 0x"); told != (k == RD) {
					t.Errorf("of %s the server prints an EE context: %v", kindNames[k], told)
				}
			})
		}
	}
}

// compareEnds looks whether each side knows the other's ends.
func compareEnds(t *testing.T, server, client string) {
	t.Helper()
	for _, pair := range [][2]string{{server, client}, {client, server}} {
		for line := range strings.Lines(pair[0]) {
			if end, ok := strings.CutPrefix(line, "  local address:  "); ok && !strings.Contains(pair[1], "  remote address: "+end) {
				t.Errorf("one side is at %s, the other says\n%s", end, pair[1])
			}
		}
	}
	if !strings.Contains(server, "GID ::ffff:127.") {
		t.Errorf("no GID in %q", server)
	}
}

// TestSizes crosses the path MTU, and runs out of receives.
func TestSizes(t *testing.T) {
	for _, size := range []int{1, 1024, 1025, 100000} {
		o := options(RC)
		o.Size, o.RxDepth = size, 2
		_, c, serverErr, clientErr := both(t,
			Side{Options: o, Open: opener(loopback(1)), Out: io.Discard},
			Side{Options: o, Open: opener(loopback(2)), Out: io.Discard})
		if serverErr != nil || clientErr != nil || c.Size != size {
			t.Errorf("size %d: server: %v; client: %v", size, serverErr, clientErr)
		}
	}
}

// TestV18_ChannelLosesPackets has messages of several packets go over a channel that
// loses some. Acknowledgements it does not: after that of the last message there is
// nobody any more who could be asked for another.
func TestV18_ChannelLosesPackets(t *testing.T) {
	o := options(RD)
	o.Size = 5000
	_, _, serverErr, clientErr := both(t,
		Side{Options: o, Open: opener(loopback(1)), Out: io.Discard},
		Side{Options: o, Out: io.Discard, Open: func(netip.Addr) (*verbs.Context, func() error, error) {
			hca, err := verbs.Open(verbs.Config{Addr: loopback(2)}, verbs.WithFaults("drop every=10 op=RD_SEND dir=both", 5))
			return hca, hca.Close, err
		}})
	if serverErr != nil || clientErr != nil {
		t.Errorf("server: %v; client: %v", serverErr, clientErr)
	}
}

// TestOptionsDiffer runs a server that expects shorter messages: both sides
// end with an error that says what happened.
func TestOptionsDiffer(t *testing.T) {
	small, large := options(RC), options(RC)
	small.Size, large.Size = 100, 200
	_, _, serverErr, clientErr := both(t,
		Side{Options: small, Open: opener(loopback(1)), Out: io.Discard},
		Side{Options: large, Open: opener(loopback(2)), Out: io.Discard})
	if serverErr == nil || clientErr == nil || !strings.Contains(clientErr.Error(), "REM_INV_REQ_ERR") {
		t.Errorf("server: %v; client: %v", serverErr, clientErr)
	}
}

// TestKindsDiffer has a client of another type: both sides end at once, and say why.
func TestKindsDiffer(t *testing.T) {
	_, _, serverErr, clientErr := both(t,
		Side{Options: options(RC), Open: opener(loopback(1)), Out: io.Discard},
		Side{Options: options(RD), Open: opener(loopback(2)), Out: io.Discard})
	for who, err := range map[string]error{"server": serverErr, "client": clientErr} {
		if err == nil || !strings.Contains(err.Error(), "do both sides have the same --type?") {
			t.Errorf("the %s says %v", who, err)
		}
	}
}

// TestSilence ends a side whose peer has connected and says nothing.
func TestSilence(t *testing.T) {
	for _, events := range []bool{false, true} {
		o := options(RC)
		o.Idle, o.Events = 20*time.Millisecond, events
		n := verbs.NewNetwork()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := Side{Options: o, Out: io.Discard, Open: func(netip.Addr) (*verbs.Context, func() error, error) {
			hca, err := verbs.Open(verbs.Config{Addr: "10.0.0.1", Network: n})
			return hca, hca.Close, err
		}}
		mute := make(chan error, 1)
		go func() {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				mine := []dest{{qpn: 5, gid: ib.GIDFromAddr(netip.MustParseAddr("10.0.0.2"))}}
				_, err = clientExchange(conn, mine)
				err = errors.Join(err, conn.Close())
			}
			mute <- err
		}()
		if _, err := server.Server(t.Context(), l); !errors.Is(err, errIdle) {
			t.Errorf("events %v: %v, want %v", events, err, errIdle)
		}
		if err := <-mute; err != nil {
			t.Error(err)
		}
	}
}

// TestPeerEnds has a peer end before its time, in several ways: a side that would
// wait for ever ends with it, and says why.
func TestPeerEnds(t *testing.T) {
	mine := []dest{{qpn: 5, gid: ib.GIDFromAddr(netip.MustParseAddr("10.0.0.2"))}}
	for why, c := range map[string]struct {
		play func(net.Conn) error
		want string
	}{
		"it fails in the exchange": {func(conn net.Conn) error {
			_, err := io.WriteString(conn, "error: no such\x1b adapter\n")
			return err
		}, `the peer has failed: "no such\x1b adapter"`},
		"it is gone in the exchange": {func(conn net.Conn) error {
			_, err := io.WriteString(conn, "0000")
			return err
		}, "the peer closed the connection"},
		"it fails": {func(conn net.Conn) error {
			_, err := clientExchange(conn, mine)
			_, werr := io.WriteString(conn, "softhca\nerror: out of memory\n")
			return errors.Join(err, werr)
		}, `the peer has failed: "out of memory"`},
		"it is killed": {func(conn net.Conn) error {
			_, err := clientExchange(conn, mine)
			_, werr := io.WriteString(conn, "softhca\n")
			return errors.Join(err, werr)
		}, "the peer is gone"},
	} {
		for _, events := range []bool{false, true} {
			o := options(RC)
			o.Idle, o.Events = 0, events
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			played := make(chan error, 1)
			go func() {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err == nil {
					err = errors.Join(c.play(conn), conn.Close())
				}
				played <- err
			}()
			server := Side{Options: o, Out: io.Discard, Open: func(netip.Addr) (*verbs.Context, func() error, error) {
				hca, err := verbs.Open(verbs.Config{Addr: "10.0.0.1", Network: verbs.NewNetwork()})
				return hca, hca.Close, err
			}}
			if _, err := server.Server(t.Context(), l); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, events %v: the server says %v, want %s", why, events, err, c.want)
			}
			if err := <-played; err != nil {
				t.Error(err)
			}
		}
	}
}

// TestLinuxServer has a server that ends the connection when it has the client's
// last word, as the Linux programs do: nothing may come in one piece with that.
func TestLinuxServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	go func() {
		defer close(heard)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		own := dest{qpn: 5, gid: ib.GIDFromAddr(netip.MustParseAddr("10.0.0.1"))}
		if _, err := readDests(conn, 1); err != nil || sendDests(conn, []dest{own}) != nil || conn.(*net.TCPConn).CloseWrite() != nil {
			return
		}
		b, _ := io.ReadAll(conn) // what came before an error counts
		heard <- string(b)
	}()
	o := options(RC)
	o.Idle = 20 * time.Millisecond
	client := Side{Options: o, Out: io.Discard, Open: func(netip.Addr) (*verbs.Context, func() error, error) {
		hca, err := verbs.Open(verbs.Config{Addr: "10.0.0.2", Network: verbs.NewNetwork()})
		return hca, hca.Close, err
	}}
	if _, err := client.Client(t.Context(), l.Addr().String()); !errors.Is(err, errIdle) {
		t.Errorf("the client says %v, want %v", err, errIdle)
	}
	if got := <-heard; !strings.HasPrefix(got, done+failed) {
		t.Errorf("the server hears %q, want nothing behind %q before the end", got, done)
	}
}

// TestTellsPeer has a client fail: a server that would wait for ever is told.
func TestTellsPeer(t *testing.T) {
	for _, rules := range []string{"fail op=CreateCQ", "qp to=ERR nth=9"} {
		o := options(RC)
		o.Idle, o.Events = 0, true
		_, _, serverErr, clientErr := both(t,
			Side{Options: o, Open: opener(loopback(1)), Out: io.Discard},
			Side{Options: o, Out: io.Discard, Open: func(netip.Addr) (*verbs.Context, func() error, error) {
				hca, err := verbs.Open(verbs.Config{Addr: loopback(2)}, verbs.WithFaults(rules, 5))
				return hca, hca.Close, err
			}})
		if clientErr == nil || serverErr == nil || !strings.Contains(serverErr.Error(), "the peer has failed") {
			t.Errorf("%s: the client says %v, the server %v", rules, clientErr, serverErr)
		}
	}
}

// TestOpenFirst wants an adapter that cannot be opened to be told before there is
// another side.
func TestOpenFirst(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failing := errors.New("no such address")
	side := Side{Options: options(RC), Out: io.Discard, OpenFirst: true, Open: func(netip.Addr) (*verbs.Context, func() error, error) {
		return nil, nil, failing
	}}
	if _, err := side.Server(t.Context(), l); !errors.Is(err, failing) {
		t.Errorf("the server says %v", err)
	}
}

func TestCancel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	side := Side{Options: options(RC), Open: opener(loopback(1)), Out: io.Discard}
	if _, err := side.Server(ctx, l); !errors.Is(err, context.Canceled) {
		t.Errorf("server that was cancelled: %v", err)
	}
	if _, err := side.Client(ctx, l.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Errorf("client that was cancelled: %v", err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string // of the error; "" for none
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Size = -1 }, "size -1"},
		{func(o *Options) { o.Size = maxSize + 1 }, "size"},
		{func(o *Options) { o.Iters = 0 }, "--iters 0"},
		{func(o *Options) { o.MTU = 1500 }, "--mtu 1500"},
		{func(o *Options) { o.MTU = 0 }, "--mtu 0"},
		{func(o *Options) { o.Kind, o.QPs = SRQ, 257 }, "--qps 257: want 1 to 256"},
		{func(o *Options) { o.Kind, o.QPs, o.RxDepth = SRQ, 16, 16 }, "--rx-depth 16: want 17"},
		{func(o *Options) { o.QPs = 257 }, ""}, // only SRQ has them
	} {
		o := options(RC)
		c.change(&o)
		err := o.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", o, err, c.want)
		}
	}
}

func TestGIDIndex(t *testing.T) {
	n := verbs.NewNetwork()
	hca, err := verbs.Open(verbs.Config{Addr: "fd00::1,10.0.0.1,10.0.0.9", Network: n})
	if err != nil {
		t.Fatal(err)
	}
	defer hca.Close()
	for _, c := range []struct {
		index int
		tcp   string
		want  int
	}{{-1, "10.0.0.9", 2}, {-1, "192.0.2.1", 1}, {-1, "fd00::7", 0}, {1, "10.0.0.9", 1}} {
		o := options(RC)
		o.GIDIndex, o.Size = c.index, 8
		s, err := newSession(hca, o, netip.MustParseAddr(c.tcp))
		if err != nil || s.gid != c.want {
			t.Errorf("index %d, connection from %s: entry %d, %v, want %d", c.index, c.tcp, s.gid, err, c.want)
		}
	}
	o := options(RC)
	o.GIDIndex = 3
	if _, err := newSession(hca, o, netip.MustParseAddr("10.0.0.1")); err == nil {
		t.Error("an index past the end of the table")
	}
	o = options(UD)
	o.Size = 4097
	if _, err := newSession(hca, o, netip.MustParseAddr("10.0.0.1")); err == nil {
		t.Error("a UD message that does not fit into a packet")
	}
}

func TestParseKind(t *testing.T) {
	for _, k := range []Kind{RC, UC, UD, SRQ, RD} {
		if got, err := ParseKind(strings.ToUpper(kindNames[k])); err != nil || got != k {
			t.Errorf("%s: %v, %v", kindNames[k], got, err)
		}
	}
	if _, err := ParseKind("xrc"); err == nil {
		t.Error("xrc is a kind")
	}
}

// TestSilentClient has clients that say nothing, and a port scanner, in front of the one that
// plays: that one is served.
func TestSilentClient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		silent, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	scanner, err := net.Dial("tcp", l.Addr().String())
	if err = errors.Join(err, scanner.Close()); err != nil {
		t.Fatal(err)
	}
	n := verbs.NewNetwork()
	side := func(addr string) Side {
		return Side{Options: options(RC), Out: io.Discard, Open: func(netip.Addr) (*verbs.Context, func() error, error) {
			hca, err := verbs.Open(verbs.Config{Addr: addr, Network: n})
			return hca, hca.Close, err
		}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTimeout/2)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		_, err := side("10.0.0.1").Server(ctx, l)
		served <- err
	}()
	if _, err := side("10.0.0.2").Client(ctx, l.Addr().String()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("a server with silent clients before the one that plays: %v", err)
	}
}
