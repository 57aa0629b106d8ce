package udaddy

import (
	"bytes"
	"context"
	"errors"
	"flag"
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
	return Options{Load: nodes.Load{Connections: 1, Count: 10, Size: 100, Idle: 20 * time.Second}, Space: rdmacm.UDP}
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
	out string
	err error
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
		done <- result{out.String(), err}
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
	var out strings.Builder
	s.Host, s.Out, s.Err = host, &out, io.Discard
	err := s.Run(ctx)
	return result{out.String(), err}
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

// TestC9_C11_Udaddy runs both sides with all options that change what they do.
func TestC9_C11_Udaddy(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
	}{
		{"default", func(*Options) {}},
		{"default", func(o *Options) { o.Connections, o.Count, o.Size = 5, 20, 4096 }},
		{"default", func(o *Options) { o.Count, o.Size = 1, 1 }},
		{"nothing", func(o *Options) { o.Connections, o.Count = 3, 0 }},
		{"nothing", func(o *Options) { o.Size = 0 }},
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

// TestC11_UdaddyTOS finds the client's type of service in all packets: the
// server's replies take it from the client's datagrams.
func TestC11_UdaddyTOS(t *testing.T) {
	at, from := hosts()
	var capture bytes.Buffer
	at.capture = &capture
	server, client := Side{Options: options(), Opener: at.opener()}, Side{Options: options(), Opener: from.opener()}
	tos := uint8(0x68)
	client.TOS = &tos
	if s, c := both(t, server, client, "10.0.0.1"); s.err != nil || c.err != nil {
		t.Fatalf("server: %v; client: %v", s.err, c.err)
	}
	r, err := pcapfile.NewReader(&capture)
	if err != nil {
		t.Fatal(err)
	}
	packets, data := 0, 0
	for p, err := r.Next(); err == nil; p, err = r.Next() {
		packets++
		if len(p.Payload) < 256 { // no management datagram
			data++
		}
		if p.IP[1] != tos {
			t.Errorf("packet %d, of %d bytes, has type of service %#x", packets, len(p.Payload), p.IP[1])
		}
	}
	if data != 20 || packets != 22 {
		t.Errorf("%d packets, %d of them data", packets, data)
	}
}

func TestC9_UdaddyNoListener(t *testing.T) {
	at, from := hosts()
	_, closer, err := at.opener().Open(at.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer closer()
	c := Side{Options: options(), Opener: from.opener()}.client(t.Context(), "10.0.0.1")
	if f := (*adapter.Failure)(nil); !errors.As(c.err, &f) || f.Type != rdmacm.EventUnreachable {
		t.Errorf("the client ends with %v", c.err)
	}
	golden(t, "nolistener", result{}, c)
}

// TestC9_UdaddyLostMessages loses a SIDR message, at the side that sends it or
// at the other: both sides finish, and with the same queue pairs.
func TestC9_UdaddyLostMessages(t *testing.T) {
	for _, m := range []string{"SIDR_REQ", "SIDR_REP"} {
		for _, where := range []string{"server", "client"} {
			at, from := hosts()
			victim := map[string]*host{"server": at, "client": from}[where]
			victim.faults = "drop nth=1 dir=both op=" + m
			server, client := Side{Options: options(), Opener: at.opener()}, Side{Options: options(), Opener: from.opener()}
			client.Opener.Response = adapter.Response{Timeout: 12, Retries: 15} // 17 ms
			s, c := both(t, server, client, "fd00::1")
			if s.err != nil || c.err != nil || victim.acted.Load() != 1 {
				t.Errorf("%s at the %s: server: %v; client: %v; %d messages lost", m, where, s.err, c.err, victim.acted.Load())
			}
			golden(t, "default", s, c)
		}
	}
}

// TestUdaddyLostDatagram loses a datagram, which nobody repeats: who waits for
// it gives up.
func TestUdaddyLostDatagram(t *testing.T) {
	at, from := hosts()
	from.faults = "drop nth=3 op=SEND_ONLY_WITH_IMM dir=out"
	server, client := Side{Options: options(), Opener: at.opener()}, Side{Options: options(), Opener: from.opener()}
	server.Idle, client.Idle = 50*time.Millisecond, 50*time.Millisecond
	s, c := both(t, server, client, "10.0.0.1")
	if !errors.Is(s.err, nodes.ErrIdle) || !errors.Is(c.err, nodes.ErrIdle) || !strings.Contains(s.err.Error(), "9 of 10 messages received") {
		t.Errorf("server: %v; client: %v", s.err, c.err)
	}
}

// TestUdaddyTooMany refuses who comes too late: the client learns it.
func TestUdaddyTooMany(t *testing.T) {
	at, from := hosts()
	server, client := Side{Options: options(), Opener: at.opener()}, Side{Options: options(), Opener: from.opener()}
	server.Idle, client.Connections = 50*time.Millisecond, 2
	s, c := both(t, server, client, "10.0.0.1")
	if f := (*adapter.Failure)(nil); !errors.As(c.err, &f) || f.Status != 2 || !errors.Is(s.err, nodes.ErrIdle) {
		t.Errorf("server: %v; client: %v", s.err, c.err)
	}
	if !strings.Contains(s.out, "udaddy: failing connection request\n") || !strings.Contains(c.out, "UNREACHABLE, error: 2\n") {
		t.Errorf("server:\n%sclient:\n%s", s.out, c.out)
	}
}

func TestUdaddySizes(t *testing.T) {
	at, from := hosts()
	large := options()
	large.Size = 4097
	const line = "udaddy: message_size 4097 is larger than active mtu 4096\n"
	s := <-start(t.Context(), Side{Options: large, Opener: at.opener()})
	c := Side{Options: large, Opener: from.opener()}.client(t.Context(), "10.0.0.1")
	for _, r := range []result{s, c} {
		if r.err == nil || !strings.Contains(r.out, line) || !strings.HasSuffix(r.out, "return status -22\n") {
			t.Errorf("%v and\n%s", r.err, r.out)
		}
	}
}

// TestUdaddyNoIPoIB asks for a port space that needs another link layer.
func TestUdaddyNoIPoIB(t *testing.T) {
	_, from := hosts()
	o := options()
	o.Space = rdmacm.IPoIB
	c := Side{Options: o, Opener: from.opener()}.client(t.Context(), "10.0.0.1")
	if !strings.Contains(c.out, "udaddy: event: RDMA_CM_EVENT_ADDR_ERROR, error: -22\n") || !strings.HasSuffix(c.out, "return status -22\n") {
		t.Errorf("%v and\n%s", c.err, c.out)
	}
}

// TestUdaddyNoResources fails each call that makes or uses an object: the side
// ends, and the server's client is rejected or gives up.
func TestUdaddyNoResources(t *testing.T) {
	for _, op := range []string{"CreateCQ", "RegMR", "CreateQP", "PostRecv", "CreateAH", "PostSend"} {
		at, from := hosts()
		at.faults = "fail errno=ENOMEM op=" + op
		client := Side{Options: options(), Opener: from.opener()}
		client.Idle = 50 * time.Millisecond
		s, c := both(t, Side{Options: options(), Opener: at.opener()}, client, "10.0.0.1")
		if !errors.Is(s.err, ib.ENOMEM) || c.err == nil {
			t.Errorf("%s at the server: server: %v; client: %v", op, s.err, c.err)
		}
		if op == "CreateAH" && !strings.Contains(s.out, "udaddy: failed to create reply AH\n") {
			t.Errorf("the server prints\n%s", s.out)
		}
	}
	for _, op := range []string{"CreateCQ", "RegMR", "CreateQP", "PostRecv"} {
		_, from := hosts()
		from.faults = "fail errno=ENOMEM op=" + op
		if c := (Side{Options: options(), Opener: from.opener()}).client(t.Context(), "10.0.0.1"); !errors.Is(c.err, ib.ENOMEM) {
			t.Errorf("%s at the client: %v", op, c.err)
		}
	}
}

// TestUdaddyInterrupted ends a server that waits for its first client.
func TestUdaddyInterrupted(t *testing.T) {
	at, _ := hosts()
	ctx, cancel := context.WithCancel(t.Context())
	done := start(ctx, Side{Options: options(), Opener: at.opener()})
	cancel()
	if s := <-done; !errors.Is(s.err, context.Canceled) || !strings.HasSuffix(s.out, "test complete\nreturn status -1\n") {
		t.Errorf("the server ends with %v and\n%s", s.err, s.out)
	}
}

// TestUdaddyForeign gets a datagram without immediate data: it is no udaddy.
func TestUdaddyForeign(t *testing.T) {
	at, from := hosts()
	o := options()
	o.Count = 1
	done := start(t.Context(), Side{Options: o, Opener: at.opener()})
	dev, closer, err := from.opener().Open(from.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer closer()
	if err := foreign(dev); err != nil {
		t.Fatal(err)
	}
	if s := <-done; s.err == nil || !strings.Contains(s.err.Error(), "without immediate data") {
		t.Errorf("the server ends with %v", s.err)
	}
}

// foreign sends one datagram without immediate data.
func foreign(dev *verbs.Context) error {
	m, err := rdmacm.New(dev)
	if err != nil {
		return err
	}
	id, err := m.CreateID(nil, rdmacm.UDP)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error {
			return id.ResolveAddr(netip.MustParseAddrPort("10.0.0.2:0"), netip.MustParseAddrPort("10.0.0.1:7174"), time.Second)
		},
		func() error { return id.ResolveRoute(time.Second) },
		func() error {
			return id.CreateQP(nil, &verbs.QPInitAttr{Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
		},
		func() error { return id.Connect(nil) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	pd, err := id.PD()
	if err != nil {
		return err
	}
	to := id.Event().UD
	ah, err := pd.CreateAH(to.AH)
	if err != nil {
		return err
	}
	return id.QP().PostSend(verbs.SendWR{
		Opcode: ib.WRSend, Flags: ib.SendInline, AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey,
	})
}
