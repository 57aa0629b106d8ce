package rping

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// TestC11_Rping runs both sides with all options that change what they do or
// print.
func TestC11_Rping(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
	}{
		{"quiet", func(o *Options) { o.Validate = false }},
		{"quiet", func(o *Options) { o.Size, o.Count = maxSize, 10 }},
		{"quiet", func(o *Options) { o.Port, o.Count = "echo", 1 }},
		{"verbose", func(o *Options) { o.Verbose = true }},
		{"verbose", func(o *Options) { o.Verbose, o.OwnQP = true, true }},
		{"shortest", func(o *Options) { o.Verbose, o.Size = true, minSize }},
		{"debug", func(o *Options) { o.Verbose, o.Debug, o.Count = true, true, 1 }},
		{"debugown", func(o *Options) { o.Verbose, o.Debug, o.OwnQP, o.Count = true, true, true, 1 }},
	} {
		for _, to := range []string{"10.0.0.1", "fd00::1"} {
			at, from := hosts()
			server, client := at.side(), from.side()
			c.change(&server.Options)
			c.change(&client.Options)
			s, r := both(t, server, client, to)
			if s.err != nil || r.err != nil {
				t.Errorf("%s, %s: server: %v; client: %v", c.name, to, s.err, r.err)
			}
			s.errs = strings.ReplaceAll(s.errs, "port 7\n", "port 7174\n")
			if server.Debug {
				s.out = anyOrder(t, s.out)
			}
			golden(t, c.name, s, r)
		}
	}
}

// anyOrder takes the lines out of a server's that come when they like: its
// client's RTU and first message overtake each other.
func anyOrder(t *testing.T, out string) string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^cma_event type RDMA_CM_EVENT_ESTABLISHED .* \(child\)\nESTABLISHED\n`)
	if n := len(lines.FindAllString(out, -1)); n != 1 {
		t.Errorf("the server says %d times that the connection is established:\n%s", n, out)
	}
	return lines.ReplaceAllString(out, "")
}

// TestC11_RpingOwnQPMeetsOther has only one side move its queue pair by itself.
func TestC11_RpingOwnQPMeetsOther(t *testing.T) {
	for _, own := range []string{"server", "client"} {
		at, from := hosts()
		server, client := at.side(), from.side()
		server.OwnQP, client.OwnQP = own == "server", own == "client"
		if s, c := both(t, server, client, "10.0.0.1"); s.err != nil || c.err != nil {
			t.Errorf("-q at the %s: server: %v; client: %v", own, s.err, c.err)
		}
	}
}

// TestC11_RpingUDP runs both sides over the kernel's UDP, IPv4 with a source
// that the user names.
func TestC11_RpingUDP(t *testing.T) {
	at, from := &host{addr: ""}, &host{addr: ""}
	server, client := at.side(), from.side()
	server.Host, client.Source = loopback(1), loopback(2)
	client.Size, server.Size, client.Count = 3000, 3000, 20
	if s, c := both(t, server, client, loopback(1)); s.err != nil || c.err != nil {
		t.Errorf("server: %v; client: %v", s.err, c.err)
	}
}

// TestC11_RpingManyClients serves many clients at once, and after one that
// fails, until it is interrupted.
func TestC11_RpingManyClients(t *testing.T) {
	const clients = 20
	at, from := hosts()
	server := at.side()
	server.Persistent = true
	ctx, interrupt := context.WithCancel(t.Context())
	done := start(ctx, server)
	large := from.side()
	large.Size = 100 // the server takes 64
	if c := large.client(t.Context(), "10.0.0.1"); c.err == nil {
		t.Error("texts that the server has no room for come back")
	}
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			h := &host{net: from.net, addr: fmt.Sprintf("10.0.1.%d", i+1)}
			side := h.side()
			side.Count = 10
			if c := side.client(t.Context(), "10.0.0.1"); c.err != nil {
				t.Errorf("client %d: %v", i, c.err)
			}
		})
	}
	group.Wait()
	interrupt()
	s := <-done
	if s.err != nil || strings.Count(s.errs, "server DISCONNECT EVENT...") != clients+1 || !strings.Contains(s.errs, "give it -S 100") {
		t.Errorf("the server ends with %v and says\n%s", s.err, s.errs)
	}
}

// TestC7_RpingRefusesTheSecond has a client come while another is served. The
// first one goes on.
func TestC7_RpingRefusesTheSecond(t *testing.T) {
	at, from := hosts()
	done := start(t.Context(), at.side())
	first := from.side()
	first.Count, first.Verbose = 0, true
	ctx, interrupt := context.WithCancel(t.Context())
	pinged := &output{listening: make(chan struct{})}
	var errs strings.Builder
	first.Host, first.Out, first.Err = "10.0.0.1", &onFirst{output: pinged}, &errs
	ended := make(chan error, 1)
	go func() { ended <- first.Client(ctx) }()
	<-pinged.listening
	other := &host{net: from.net, addr: "10.0.0.3"}
	c := other.side().client(t.Context(), "10.0.0.1")
	if f := (*adapter.Failure)(nil); !errors.As(c.err, &f) || f.Type != rdmacm.EventRejected || f.Status != 28 {
		t.Errorf("the second client ends with %v", c.err)
	}
	golden(t, "refused", result{}, c)
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("the first client, interrupted, ends with %v", err)
	}
	if s := <-done; s.err != nil || !strings.Contains(s.errs, "refuse a client") {
		t.Errorf("the server ends with %v and says\n%s", s.err, s.errs)
	}
}

// onFirst tells of the first line.
type onFirst struct {
	*output
	once sync.Once
}

func (o *onFirst) Write(b []byte) (int, error) {
	o.once.Do(func() { close(o.listening) })
	return len(b), nil
}

func TestC11_RpingNoListener(t *testing.T) {
	at, from := hosts()
	dev, closer, err := at.opener().Open(at.addr)
	if err != nil || dev == nil {
		t.Fatal(err)
	}
	defer closer()
	c := from.side().client(t.Context(), "10.0.0.1")
	if !errors.Is(c.err, ib.ECONNREFUSED) {
		t.Errorf("the client ends with %v", c.err)
	}
	golden(t, "nolistener", result{}, c)
}

// TestRpingNobody connects to an address that no adapter has.
func TestRpingNobody(t *testing.T) {
	_, from := hosts()
	side := impatient(from.side())
	side.Opener.Response.Retries = 1
	c := side.client(t.Context(), "10.0.0.9")
	if !errors.Is(c.err, ib.ETIMEDOUT) {
		t.Errorf("the client ends with %v", c.err)
	}
	golden(t, "nobody", result{}, c)
}

// TestC3_C4_C5_RpingLostMessages loses a message of each kind, at the side that
// sends it and at the other: both sides finish.
func TestC3_C4_C5_RpingLostMessages(t *testing.T) {
	for _, m := range []string{"REQ", "REP", "RTU", "DREQ", "DREP"} {
		for _, where := range []string{"server", "client"} {
			t.Run(m+" at the "+where, func(t *testing.T) {
				at, from := hosts()
				victim := map[string]*host{"server": at, "client": from}[where]
				victim.faults = "drop nth=1 dir=both op=" + m
				s, c := both(t, impatient(at.side()), impatient(from.side()), "10.0.0.1")
				if s.err != nil || c.err != nil || victim.acted.Load() != 1 {
					t.Errorf("server: %v; client: %v; %d messages lost", s.err, c.err, victim.acted.Load())
				}
				golden(t, "quiet", s, c)
			})
		}
	}
}

// TestRpingBadNetwork loses, repeats and reorders packets of the pings.
func TestRpingBadNetwork(t *testing.T) {
	at, from := hosts()
	at.faults = "drop every=7; dup every=11"
	client := impatient(from.side())
	client.Count, client.Size = 5, 10000
	server := impatient(at.side())
	server.Size = 10000
	if s, c := both(t, server, client, "10.0.0.1"); s.err != nil || c.err != nil || at.acted.Load() == 0 {
		t.Errorf("server: %v; client: %v; the faults acted %d times", s.err, c.err, at.acted.Load())
	}
}

// TestRpingInterrupted ends a server that waits for its client, and a client
// that has not finished.
func TestRpingInterrupted(t *testing.T) {
	at, _ := hosts()
	ctx, cancel := context.WithCancel(t.Context())
	done := start(ctx, at.side())
	cancel()
	if s := <-done; !errors.Is(s.err, context.Canceled) {
		t.Errorf("the server ends with %v", s.err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string // of the error; "" for none
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Size = minSize }, ""},
		{func(o *Options) { o.Size = minSize - 1 }, "size 22: want 23 to 65535"},
		{func(o *Options) { o.Size = maxSize + 1 }, "size 65536"},
		{func(o *Options) { o.Count = -3 }, "count -3"},
		{func(o *Options) { o.Idle = -time.Second }, "idle"},
	} {
		o := Options{Size: 64}
		c.change(&o)
		err := o.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", o, err, c.want)
		}
	}
}
