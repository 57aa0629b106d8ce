package simple

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is an address, of a network in this process or of the real one, and what
// its adapter does wrong.
type host struct {
	net    *verbs.Network // nil: UDP
	addr   string
	faults string
	acted  atomic.Uint64 // how often the faults did
}

func (h *host) open(addr string) (*verbs.Context, func() error, error) {
	dev, err := verbs.Open(verbs.Config{Addr: addr, Network: h.net}, verbs.WithFaults(h.faults, 1))
	if err != nil {
		return nil, nil, err
	}
	return dev, func() error {
		for _, s := range dev.FaultStats() {
			h.acted.Add(s.Applied)
		}
		return dev.Close()
	}, nil
}

// side returns a side of a test, for which lost messages come again soon; one
// that waits in vain fails, but not while the test is only slow.
func (h *host) side() Side {
	return Side{Port: "7471", Idle: 20 * time.Second, Opener: adapter.Opener{
		Addr: h.addr, Open: h.open, Response: adapter.Response{Timeout: 14, Retries: 15}, // 67 ms
	}}
}

// hosts returns two hosts of one network, with an address of each family.
func hosts() (at, from *host) {
	n := verbs.NewNetwork()
	return &host{net: n, addr: "10.0.0.1,fd00::1"}, &host{net: n, addr: "10.0.0.2,fd00::2"}
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
		err := s.Server(ctx)
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
func (s Side) run(ctx context.Context, server string) result {
	var out, errs strings.Builder
	s.Host, s.Out, s.Err = server, &out, &errs
	err := s.Client(ctx)
	return result{out.String(), errs.String(), err}
}

// The lines of programs that end well.
const (
	serverLines = "rdma_server: start\nrdma_server: end 0\n"
	clientLines = "rdma_client: start\nrdma_client: end 0\n"
)

// ended looks whether both sides ended well.
func ended(t *testing.T, s, c result) {
	t.Helper()
	if s.err != nil || c.err != nil || s.out != serverLines || c.out != clientLines || c.errs != "" {
		t.Errorf("server %+v\nclient %+v", s, c)
	}
}

func TestC11_RDMAClientAndServer(t *testing.T) {
	for _, to := range []string{"10.0.0.1", "fd00::1"} {
		for _, bind := range []string{"", to} {
			at, from := hosts()
			server := at.side()
			server.Host = bind
			done := start(t.Context(), server)
			c := from.side().run(t.Context(), to)
			ended(t, <-done, c)
		}
	}
}

// TestC11_RDMAClientAndServerUDP runs both over the kernel's UDP.
func TestC11_RDMAClientAndServerUDP(t *testing.T) {
	pid := os.Getpid()
	loopback := func(i int) string { return fmt.Sprintf("127.%d.%d.%d", 64+pid>>8&31, pid&255, i) }
	at, from := &host{addr: loopback(1)}, &host{addr: loopback(2)}
	server, client := at.side(), from.side()
	server.Port, client.Port = "echo", "7"
	done := start(t.Context(), server)
	c := client.run(t.Context(), loopback(1))
	ended(t, <-done, c)
}

// TestC3_C4_C5_RDMAClientLostMessages loses a message of each kind, at the side
// that sends it and at the other: both sides finish.
func TestC3_C4_C5_RDMAClientLostMessages(t *testing.T) {
	for _, m := range []string{"REQ", "REP", "RTU", "DREQ", "DREP", "SEND", "ACK"} {
		for _, where := range []string{"server", "client"} {
			at, from := hosts()
			victim := map[string]*host{"server": at, "client": from}[where]
			victim.faults = "drop nth=1 dir=both op=" + m
			done := start(t.Context(), at.side())
			c := from.side().run(t.Context(), "10.0.0.1")
			s := <-done
			if s.err != nil || c.err != nil {
				t.Errorf("%s at the %s: server: %v; client: %v", m, where, s.err, c.err)
			}
			// Both disconnect at about the same time: there may be no DREP.
			if n := victim.acted.Load(); n != 1 && m != "DREP" {
				t.Errorf("%s at the %s: %d messages lost", m, where, n)
			}
		}
	}
}

// TestRDMAClientFails prints what the Linux program prints, and returns what
// helps more.
func TestRDMAClientFails(t *testing.T) {
	at, from := hosts()
	dev, closer, err := at.open(at.addr)
	if err != nil || dev == nil {
		t.Fatal(err)
	}
	defer closer()
	for _, c := range []struct {
		to, out, errs string
		want          string // in the error
		is            error
	}{
		{"10.0.0.1", "end -1", "rdma_connect: Connection refused", "is the server running", ib.ECONNREFUSED},
		{"10.0.0.9", "end -1", "rdma_connect: Connection timed out", "does not answer", ib.ETIMEDOUT},
		{"0.0.0.0", "end -1", "rdma_create_ep: Invalid argument", "no server's address", ib.EINVAL},
		{"no such host", "rdma_getaddrinfo: Name or service not known\nrdma_client: end -2", "", "no such host", nil},
	} {
		side := from.side()
		side.Opener.Response.Retries = 1
		r := side.run(t.Context(), c.to)
		if r.err == nil || !strings.Contains(r.err.Error(), c.want) || c.is != nil && !errors.Is(r.err, c.is) {
			t.Errorf("%s: %v, want %q", c.to, r.err, c.want)
		}
		if want := "rdma_client: start\n" + c.out; !strings.HasPrefix(r.out, "rdma_client: start\n") || !strings.Contains(r.out, c.out) || !strings.Contains(r.errs, c.errs) {
			t.Errorf("%s: prints %q and %q, want %q and %q", c.to, r.out, r.errs, want, c.errs)
		}
	}
}

// stranger connects to the server, lets do act and disconnects.
func stranger(t *testing.T, from *host, do func(*rdmacm.ID) error) {
	t.Helper()
	side := from.side()
	st, err := side.Opener.Client(t.Context(), "", "10.0.0.1", side.Port)
	if err != nil {
		t.Fatal(err)
	}
	e, err := side.newEndpoint(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return e.Resolve(t.Context()) },
		e.build,
		func() error { return e.connect(t.Context()) },
		func() error { return do(e.ID) },
		func() error { return e.HangUp(t.Context()) },
		e.Close,
		st.Close,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRDMAServerStrangers ends the server with an error when its client goes
// before it has sent its message.
func TestRDMAServerStrangers(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(*rdmacm.ID) error
		want string // in the server's error
	}{
		{"goes", func(*rdmacm.ID) error { return nil }, "ended the connection"},
	} {
		at, from := hosts()
		done := start(t.Context(), at.side())
		stranger(t, from, c.do)
		if s := <-done; s.err == nil || !strings.Contains(s.err.Error(), c.want) || !strings.HasSuffix(s.out, "rdma_server: end -1\n") {
			t.Errorf("a client that %s: the server ends with %v and prints %q", c.what, s.err, s.out)
		}
	}
}

// TestRDMAServerSilence gives up on a client that says nothing.
func TestRDMAServerSilence(t *testing.T) {
	at, from := hosts()
	server := at.side()
	server.Idle = 50 * time.Millisecond
	done := start(t.Context(), server)
	stranger(t, from, func(*rdmacm.ID) error { return (<-done).check("the peer is silent") })
}

// check returns an error unless the side ended with want.
func (r result) check(want string) error {
	if r.err == nil || !strings.Contains(r.err.Error(), want) {
		return fmt.Errorf("it ended with %w, want %q", r.err, want)
	}
	return nil
}

// TestRDMAServerInterrupted ends a server that waits for its client.
func TestRDMAServerInterrupted(t *testing.T) {
	at, _ := hosts()
	ctx, cancel := context.WithCancel(t.Context())
	done := start(ctx, at.side())
	cancel()
	if s := <-done; !errors.Is(s.err, context.Canceled) || !strings.HasSuffix(s.out, "rdma_server: end -1\n") {
		t.Errorf("the server ends with %v and prints %q", s.err, s.out)
	}
}
