package ucmatose

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is an address of a network in this process, and what its adapter does
// wrong.
type host struct {
	net     *verbs.Network
	addr    string
	faults  string
	capture io.Writer
	acted   atomic.Uint64 // how often the faults did
}

// opener opens an adapter on the host, for either role.
func (h *host) opener() adapter.Opener {
	return adapter.Opener{Addr: h.addr, Open: func(addr string) (*verbs.Context, func() error, error) {
		dev, err := verbs.Open(verbs.Config{Addr: addr, Network: h.net, Capture: h.capture}, verbs.WithFaults(h.faults, 1))
		if err != nil {
			return nil, nil, err
		}
		return dev, func() error {
			for _, s := range dev.FaultStats() {
				h.acted.Add(s.Applied)
			}
			return dev.Close()
		}, nil
	}}
}

// hosts returns two hosts of one network.
func hosts() (server, client *host) {
	n := verbs.NewNetwork()
	return &host{net: n, addr: "10.0.0.1,fd00::1"}, &host{net: n, addr: "10.0.0.2,fd00::2"}
}

// options are those of tests; a side that waits in vain fails soon.
func options() Options {
	return Options{Options: nodes.Options{
		Load: nodes.Load{Connections: 1, Count: 10, Size: 100, Idle: 20 * time.Second},
		Port: "7471", Space: rdmacm.TCP,
	}}
}

// impatient makes lost messages come again soon, but not while a test is only
// slow.
func impatient(s Side) Side {
	s.Opener.Response = adapter.Response{Timeout: 14, Retries: 15} // 67 ms
	code := uint8(14)
	s.AckTimeout = &code
	return s
}

// output is what a side prints. It closes listening when that is said.
type output struct {
	strings.Builder
	listening chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("listening on")) {
		close(o.listening)
	}
	return o.Builder.Write(b)
}

// result is what became of a side.
type result struct {
	out, errs string
	err       error
}

// start runs a server. When start returns it listens or has ended.
func start(ctx context.Context, s Side) <-chan result {
	var out strings.Builder
	errs := &output{listening: make(chan struct{})}
	s.Out, s.Err = &out, errs
	done := make(chan result, 1)
	ended := make(chan struct{})
	go func() {
		err := s.Run(ctx)
		done <- result{out.String(), errs.String(), err}
		close(ended)
	}()
	select {
	case <-errs.listening:
	case <-ended:
	}
	return done
}

// client runs a client to its end.
func (s Side) client(ctx context.Context, host string) result {
	var out, errs strings.Builder
	s.Host, s.Out, s.Err = host, &out, &errs
	err := s.Run(ctx)
	return result{out.String(), errs.String(), err}
}

// both runs a server and a client.
func both(t *testing.T, server, client Side, to string) (s, c result) {
	t.Helper()
	done := start(t.Context(), server)
	c = client.client(t.Context(), to)
	return <-done, c
}

// golden compares the program's lines of both sides with a file.
func golden(t *testing.T, name string, s, c result) {
	t.Helper()
	got := "--- server\n" + s.out + "--- client\n" + c.out
	name = "testdata/" + name + ".txt"
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -rewrite to accept):\n%s", name, got)
	}
}

// TestC11_Ucmatose runs both sides with all options that change what they do.
func TestC11_Ucmatose(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
	}{
		{"default", func(*Options) {}},
		{"default", func(o *Options) { o.Connections, o.Count, o.Size = 5, 20, 10000 }},
		{"default", func(o *Options) { o.Space, o.Port = rdmacm.IB, "echo" }},
		{"nothing", func(o *Options) { o.Connections, o.Count = 3, 0 }},
		{"nothing", func(o *Options) { o.Size = 0 }},
		{"migrate", func(o *Options) { o.Connections, o.Migrate = 2, true }},
	} {
		for _, to := range []string{"10.0.0.1", "fd00::1"} {
			at, from := hosts()
			o := options()
			c.change(&o)
			s, r := both(t, Side{Options: o, Opener: at.opener()}, Side{Options: o, Opener: from.opener()}, to)
			if s.err != nil || r.err != nil {
				t.Errorf("%+v, %s: server: %v; client: %v", o, to, s.err, r.err)
			}
			golden(t, c.name, s, r)
		}
	}
}

// TestC11_UcmatoseOptionsOnTheWire finds the type of service and the ACK
// timeout in the packets.
func TestC11_UcmatoseOptionsOnTheWire(t *testing.T) {
	at, from := hosts()
	var capture bytes.Buffer
	at.capture = &capture
	server, client := Side{Options: options(), Opener: at.opener()}, Side{Options: options(), Opener: from.opener()}
	tos, ack := uint8(0x68), uint8(12)
	client.TOS, client.AckTimeout = &tos, &ack
	if s, c := both(t, server, client, "10.0.0.1"); s.err != nil || c.err != nil {
		t.Fatalf("server: %v; client: %v", s.err, c.err)
	}
	r, err := pcapfile.NewReader(&capture)
	if err != nil {
		t.Fatal(err)
	}
	const before = 20 // BTH and DETH
	packets, reqs := 0, 0
	for p, err := r.Next(); err == nil; p, err = r.Next() {
		packets++
		if p.IP[1] != tos {
			t.Errorf("packet %d has type of service %#x", packets, p.IP[1])
		}
		if len(p.Payload) < before+mad.Size {
			continue
		}
		m := (*mad.MAD)(p.Payload[before:])
		if h := m.Header(); h.IsCM() && h.AttrID == mad.AttrREQ {
			reqs++
			var q mad.REQ
			if q.Decode(m); q.Primary.LocalAckTimeout != 15 || q.RetryCount != 5 || q.RNRRetryCount != 0 {
				t.Errorf("REQ %+v: want ACK timeout 15, as ucmatose -a 12 sends, 5 retries and no RNR retries", q)
			}
		}
	}
	if packets < 25 || reqs != 1 {
		t.Errorf("%d packets, %d REQs", packets, reqs)
	}
}

func TestC11_UcmatoseNoListener(t *testing.T) {
	at, from := hosts()
	dev, closer, err := at.opener().Open(at.addr)
	if err != nil || dev == nil {
		t.Fatal(err)
	}
	defer closer()
	c := Side{Options: options(), Opener: from.opener()}.client(t.Context(), "10.0.0.1")
	if f := (*adapter.Failure)(nil); !errors.As(c.err, &f) || f.Type != rdmacm.EventRejected {
		t.Errorf("the client ends with %v", c.err)
	}
	golden(t, "nolistener", result{}, c)
}

// TestUcmatoseNobody connects to an address that no adapter has.
func TestUcmatoseNobody(t *testing.T) {
	_, from := hosts()
	side := impatient(Side{Options: options(), Opener: from.opener()})
	side.Opener.Response.Retries = 1
	c := side.client(t.Context(), "10.0.0.9")
	if f := (*adapter.Failure)(nil); !errors.As(c.err, &f) || f.Type != rdmacm.EventUnreachable {
		t.Errorf("the client ends with %v", c.err)
	}
	golden(t, "nobody", result{}, c)
}

// TestC3_C4_C5_UcmatoseLostMessages loses a message of each kind, at the side
// that sends it and at the other: both sides finish.
func TestC3_C4_C5_UcmatoseLostMessages(t *testing.T) {
	for _, m := range []string{"REQ", "REP", "RTU", "DREQ", "DREP"} {
		for _, where := range []string{"server", "client"} {
			t.Run(m+" at the "+where, func(t *testing.T) {
				at, from := hosts()
				victim := map[string]*host{"server": at, "client": from}[where]
				victim.faults = "drop nth=1 dir=both op=" + m
				s, c := both(t, impatient(Side{Options: options(), Opener: at.opener()}),
					impatient(Side{Options: options(), Opener: from.opener()}), "10.0.0.1")
				if s.err != nil || c.err != nil || victim.acted.Load() != 1 {
					t.Errorf("server: %v; client: %v; %d messages lost", s.err, c.err, victim.acted.Load())
				}
				golden(t, "default", s, c)
			})
		}
	}
}

// TestUcmatoseDiffer runs sides that do not agree: both end, and say why.
func TestUcmatoseDiffer(t *testing.T) {
	for _, c := range []struct {
		what           string
		server, client func(*Options)
		serverErr      string
		serverStatus   int
		clientDone     bool // it has all that it wants
	}{
		{
			"connections", func(*Options) {}, func(o *Options) { o.Connections = 3 },
			"more than 1 connections", 0, false, // -12, or -1 if all is established before the second request
		},
		{
			"fewer connections", func(o *Options) { o.Connections, o.Idle = 2, 50*time.Millisecond }, func(*Options) {},
			"all of 2 connections (-c): 1 are there", -1, false,
		},
		{
			"size", func(o *Options) { o.Size = 200 }, func(*Options) {},
			"(-S)", -1, false,
		},
		{
			"count", func(o *Options) { o.Count = 11 }, func(*Options) {},
			"(-C)", -1, true,
		},
	} {
		at, from := hosts()
		server, client := Side{Options: options(), Opener: at.opener()}, Side{Options: options(), Opener: from.opener()}
		c.server(&server.Options)
		c.client(&client.Options)
		s, r := both(t, server, client, "10.0.0.1")
		if s.err == nil || (r.err == nil) != c.clientDone || !strings.Contains(s.err.Error(), c.serverErr) ||
			c.serverStatus != 0 && nodes.Status(s.err) != c.serverStatus {
			t.Errorf("%s: server: %v; client: %v", c.what, s.err, r.err)
		}
		for _, o := range []result{s, r} {
			if last := fmt.Sprintf("test complete\nreturn status %d\n", nodes.Status(o.err)); !strings.HasSuffix(o.out, last) {
				t.Errorf("%s: no %q at the end of\n%s", c.what, last, o.out)
			}
		}
	}
}

// newManager returns the connection manager of an adapter for a peer of the
// program's.
func newManager(t *testing.T, h *host) *rdmacm.Manager {
	t.Helper()
	m, err := rdmacm.Open(verbs.Config{Addr: h.addr, Network: h.net})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func queuePair(id *rdmacm.ID) error {
	return id.CreateQP(nil, &verbs.QPInitAttr{
		Type: ib.RC, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
}

// silence is a server that accepts a connection and sends nothing. It calls
// then when the connection is there, and returns when the client ended it.
func silence(ctx context.Context, m *rdmacm.Manager, then func()) error {
	ch := m.NewEventChannel()
	listener, err := m.CreateID(ch, rdmacm.TCP)
	if err != nil {
		return err
	}
	if err := errors.Join(listener.BindAddr(addrPort("10.0.0.1:7471")), listener.Listen(0)); err != nil {
		return err
	}
	for {
		e, err := ch.Get(ctx)
		if err != nil {
			return err
		}
		e.Ack()
		switch e.Type {
		case rdmacm.EventConnectRequest:
			err = errors.Join(queuePair(e.ID), e.ID.Accept(nil))
		case rdmacm.EventEstablished:
			then()
		case rdmacm.EventDisconnected:
			return e.ID.Disconnect()
		}
		if err != nil {
			return err
		}
	}
}

// TestUcmatoseSilentServer waits for messages that do not come, until the
// patience or the program ends. The server is told.
func TestUcmatoseSilentServer(t *testing.T) {
	for _, interrupt := range []bool{false, true} {
		at, from := hosts()
		m := newManager(t, at)
		side := Side{Options: options(), Opener: from.opener()}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		want, then := context.Canceled, cancel
		if !interrupt {
			side.Idle, want, then = 50*time.Millisecond, nodes.ErrIdle, func() {}
		}
		done := make(chan error, 1)
		go func() { done <- silence(t.Context(), m, then) }()
		c := side.client(ctx, "10.0.0.1")
		for errors.Is(c.err, ib.ECONNREFUSED) { // until the server listens
			c = side.client(ctx, "10.0.0.1")
		}
		if !errors.Is(c.err, want) || !strings.Contains(c.out, "test complete\nreturn status -1\n") {
			t.Errorf("interrupted %t: the client ends with %v", interrupt, c.err)
		}
		if err := <-done; err != nil {
			t.Errorf("interrupted %t: the server ends with %v", interrupt, err)
		}
	}
}

// stranger connects to the program's server.
func stranger(m *rdmacm.Manager) (*rdmacm.ID, error) {
	id, err := m.CreateID(nil, rdmacm.TCP)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return id.ResolveAddr(addrPort("10.0.0.2:0"), addrPort("10.0.0.1:7471"), time.Second) },
		func() error { return id.ResolveRoute(time.Second) },
		func() error { return queuePair(id) },
		func() error { return postRecv(id) },
		func() error { return id.Connect(nil) },
	} {
		if err := step(); err != nil {
			return id, err
		}
	}
	return id, nil
}

func postRecv(id *rdmacm.ID) error {
	pd, err := id.PD()
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(make([]byte, 100), ib.AccessLocalWrite)
	if err != nil {
		return err
	}
	return id.QP().PostRecv(verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 100)}})
}

// TestUcmatoseStranger refuses who comes too late, and ends when the client
// hangs up.
func TestUcmatoseStranger(t *testing.T) {
	at, from := hosts()
	done := start(t.Context(), Side{Options: options(), Opener: at.opener()})
	dev, closer, err := from.opener().Open(from.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer closer()
	m, err := rdmacm.New(dev)
	if err != nil {
		t.Fatal(err)
	}
	id, err := stranger(m)
	if err != nil {
		t.Fatal(err)
	}
	// The first message shows that the server collects no more connections.
	if _, err := id.GetRecvComp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := stranger(m); !errors.Is(err, ib.ECONNREFUSED) {
		t.Errorf("the second one gets %v", err)
	}
	if err := id.Disconnect(); err != nil {
		t.Fatal(err)
	}
	s := <-done
	if f := (*adapter.Failure)(nil); !errors.As(s.err, &f) || !strings.Contains(s.out, "failing connection request") {
		t.Errorf("the server ends with %v and\n%s", s.err, s.out)
	}
}

// TestUcmatoseInterrupted ends a server that waits for its first client.
func TestUcmatoseInterrupted(t *testing.T) {
	at, _ := hosts()
	ctx, cancel := context.WithCancel(t.Context())
	done := start(ctx, Side{Options: options(), Opener: at.opener()})
	cancel()
	s := <-done
	if !errors.Is(s.err, context.Canceled) || !strings.HasSuffix(s.out, "test complete\nreturn status -1\n") {
		t.Errorf("the server ends with %v and\n%s", s.err, s.out)
	}
	if !strings.Contains(s.errs, "listening on 10.0.0.1, fd00::1, port 7471") {
		t.Errorf("the server says %q", s.errs)
	}
}

// TestUcmatoseNoResources fails each call that makes or uses an object: both
// sides end, and the server's client is rejected.
func TestUcmatoseNoResources(t *testing.T) {
	for _, op := range []string{"CreateCQ", "RegMR", "CreateQP", "PostRecv"} {
		at, from := hosts()
		at.faults = "fail errno=ENOMEM op=" + op
		s, c := both(t, Side{Options: options(), Opener: at.opener()}, Side{Options: options(), Opener: from.opener()}, "10.0.0.1")
		if !errors.Is(s.err, ib.ENOMEM) || !errors.Is(c.err, ib.ECONNREFUSED) || !strings.Contains(s.out, "failing connection request") {
			t.Errorf("%s at the server: server: %v; client: %v", op, s.err, c.err)
		}
		from.faults = "fail errno=ENOMEM op=" + op
		if c := (Side{Options: options(), Opener: from.opener()}).client(t.Context(), "10.0.0.1"); !errors.Is(c.err, ib.ENOMEM) {
			t.Errorf("%s at the client: %v", op, c.err)
		}
	}
	for _, where := range []string{"server", "client"} {
		at, from := hosts()
		map[string]*host{"server": at, "client": from}[where].faults = "fail errno=ENOMEM op=PostSend"
		s, c := both(t, Side{Options: options(), Opener: at.opener()}, Side{Options: options(), Opener: from.opener()}, "10.0.0.1")
		broken, told := s.err, c.err
		if where == "client" {
			broken, told = told, broken
		}
		if f := (*adapter.Failure)(nil); !errors.Is(broken, ib.ENOMEM) || !errors.As(told, &f) || f.Type != rdmacm.EventDisconnected {
			t.Errorf("PostSend at the %s: server: %v; client: %v", where, s.err, c.err)
		}
	}
}

// TestUcmatoseLimits asks for what the adapter does not have.
func TestUcmatoseLimits(t *testing.T) {
	at, _ := hosts()
	side := Side{Options: options(), Opener: at.opener()}
	side.Count = 1 << 20
	if s := <-start(t.Context(), side); s.err == nil || !strings.Contains(s.err.Error(), "hold 32768") {
		t.Errorf("2^20 messages: %v", s.err)
	}
	at.faults = "fail op=AllocPD errno=ENOMEM"
	if s := <-start(t.Context(), Side{Options: options(), Opener: at.opener()}); !errors.Is(s.err, ib.ENOMEM) {
		t.Errorf("no protection domain: %v", s.err)
	}
	side = Side{Options: options(), Opener: at.opener()}
	side.Bind = "10.0.0.77"
	if s := <-start(t.Context(), side); !errors.Is(s.err, ib.EADDRNOTAVAIL) {
		t.Errorf("an address of another: %v", s.err)
	}
}
