package mckey

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opener opens an adapter on an address of a network in this process.
func opener(n *verbs.Network, addr, faults string) adapter.Opener {
	return adapter.Opener{Addr: addr, Open: func(addr string) (*verbs.Context, func() error, error) {
		dev, err := verbs.Open(verbs.Config{Addr: addr, Network: n}, verbs.WithFaults(faults, 1))
		if err != nil {
			return nil, nil, err
		}
		return dev, dev.Close, nil
	}}
}

// side returns a receiver, which a test may make a sender.
func side(n *verbs.Network, addr, group string) Side {
	return Side{
		Options: Options{
			Load:  nodes.Load{Connections: 1, Count: 10, Size: 100, Idle: 20 * time.Second},
			Group: group, Space: rdmacm.UDP,
		},
		Opener: opener(n, addr, ""), Err: io.Discard,
	}
}

// output is what a side prints. It closes joined when all have joined.
type output struct {
	strings.Builder
	missing int
	joined  chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("joined dgid")) {
		if o.missing--; o.missing == 0 {
			close(o.joined)
		}
	}
	return o.Builder.Write(b)
}

// result is what became of a side.
type result struct {
	out string
	err error
}

// start runs a side. When start returns it has joined or has ended.
func start(ctx context.Context, s Side) <-chan result {
	out := &output{missing: s.Connections, joined: make(chan struct{})}
	s.Out = out
	done := make(chan result, 1)
	ended := make(chan struct{})
	go func() {
		err := s.Run(ctx)
		done <- result{out.String(), err}
		close(ended)
	}()
	select {
	case <-out.joined:
	case <-ended:
	}
	return done
}

func golden(t *testing.T, name, got string) {
	t.Helper()
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

// TestC11_Mckey has one sender and two receivers, at an adapter each, with all
// options that change what they do.
func TestC11_Mckey(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(sender, receiver *Options)
	}{
		{"default", func(*Options, *Options) {}},
		{"default", func(s, r *Options) { s.Size, r.Size = 4096, 4096 }},
		{"default", func(s, _ *Options) { s.SendOnly = true }},
		{"two", func(s, r *Options) { s.Connections, r.Connections, r.Count = 2, 2, 20 }},
		{"nothing", func(s, r *Options) { s.Count, r.Count = 0, 0 }},
		{"nothing", func(s, r *Options) { s.Size, r.Size = 0, 0 }},
	} {
		for group, addrs := range map[string][3]string{
			"239.77.0.1": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "ff15::77": {"fd00::1", "fd00::2", "fd00::3"},
		} {
			n := verbs.NewNetwork()
			sender, receivers := side(n, addrs[0], group), [2]Side{side(n, addrs[1], group), side(n, addrs[2], group)}
			sender.Sender = true
			c.change(&sender.Options, &receivers[0].Options)
			receivers[1].Options = receivers[0].Options
			first, second := start(t.Context(), receivers[0]), start(t.Context(), receivers[1])
			s, a, b := <-start(t.Context(), sender), <-first, <-second
			if err := errors.Join(s.err, a.err, b.err); err != nil || a.out != b.out {
				t.Errorf("%s %+v: %v", group, sender.Options, err)
			}
			family := map[bool]string{false: "4", true: "6"}[strings.Contains(group, ":")]
			golden(t, c.name+family, "--- sender\n"+s.out+"--- receivers\n"+a.out)
		}
	}
}

// TestMckeyBothSend has two senders that each hear what both send, as both
// joined as more than senders. They post no receives for it.
func TestMckeyBothSend(t *testing.T) {
	n := verbs.NewNetwork()
	var all sync.WaitGroup
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		s := side(n, addr, "239.77.0.1")
		s.Sender = true
		all.Go(func() {
			if r := <-start(t.Context(), s); r.err != nil {
				t.Error(r.err)
			}
		})
	}
	all.Wait()
}

// TestMckeyLost loses a datagram on the way to a receiver, which gives up.
func TestMckeyLost(t *testing.T) {
	n := verbs.NewNetwork()
	receiver, sender := side(n, "10.0.0.1", "239.77.0.1"), side(n, "10.0.0.2", "239.77.0.1")
	receiver.Opener, receiver.Idle = opener(n, "10.0.0.1", "drop nth=3 dir=in"), 50*time.Millisecond
	sender.Sender = true
	done := start(t.Context(), receiver)
	if s := <-start(t.Context(), sender); s.err != nil {
		t.Error(s.err)
	}
	r := <-done
	if !errors.Is(r.err, nodes.ErrIdle) || !strings.Contains(r.err.Error(), "9 of 10 messages received") || !strings.HasSuffix(r.out, "return status -1\n") {
		t.Errorf("the receiver ends with %v and\n%s", r.err, r.out)
	}
}

// TestMckeyInterrupted ends a receiver that waits for its first datagram, and a
// sender that waits for receivers.
func TestMckeyInterrupted(t *testing.T) {
	for _, sender := range []bool{false, true} {
		s := side(verbs.NewNetwork(), "10.0.0.1", "239.77.0.1")
		s.Sender, s.Pause = sender, map[bool]time.Duration{true: time.Hour}[sender]
		ctx, cancel := context.WithCancel(t.Context())
		done := start(ctx, s)
		cancel()
		if r := <-done; !errors.Is(r.err, context.Canceled) || !strings.HasSuffix(r.out, "test complete\nreturn status -1\n") {
			t.Errorf("sender %t: it ends with %v and\n%s", sender, r.err, r.out)
		}
	}
}

// TestMckeyRefused has the adapter refuse.
func TestMckeyRefused(t *testing.T) {
	n := verbs.NewNetwork()
	for _, c := range []struct {
		change func(*Side)
		line   string
		status string
	}{
		{func(s *Side) { s.Size = 4097 }, "mckey: message_size 4097 is larger than active mtu 4096\n", "-22"},
		{func(s *Side) { s.Group = "10.0.0.7" }, "mckey: event: RDMA_CM_EVENT_MULTICAST_ERROR, error: -1\n", "-1"},
		{func(s *Side) { s.Space = rdmacm.IPoIB }, "mckey: event: RDMA_CM_EVENT_ADDR_ERROR, error: -22\n", "-22"},
		{func(s *Side) { s.Opener = opener(n, "10.0.0.1", "fail op=AttachMcast errno=ENOMEM") }, "MULTICAST_ERROR, error: -1\n", "-1"},
		{func(s *Side) { s.Opener = opener(n, "10.0.0.1", "fail op=CreateQP errno=ENOMEM") }, "joining\n", "-1"},
		{func(s *Side) { s.Opener, s.SendOnly = opener(n, "10.0.0.1", "fail op=CreateCQ errno=ENOMEM"), true }, "joining\n", "-1"},
		{func(s *Side) { s.Opener, s.Sender = opener(n, "10.0.0.1", "fail op=PostSend errno=ENOMEM"), true }, "joined", "-1"},
		{func(s *Side) { s.Bind = "10.0.0.9" }, "starting server\n", "-1"},
	} {
		s := side(n, "10.0.0.1", "239.77.0.1")
		c.change(&s)
		r := <-start(t.Context(), s)
		if r.err == nil || !strings.Contains(r.out, c.line) || !strings.HasSuffix(r.out, "return status "+c.status+"\n") {
			t.Errorf("want %q, got %v and\n%s", c.line, r.err, r.out)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string // of the error; "" for none
		errno  error
	}{
		{func(*Options) {}, "", nil},
		{func(o *Options) { o.Group = "ff02::1" }, "", nil},
		{func(o *Options) { o.Group = "a name" }, "", nil},
		{func(o *Options) { o.Group = "" }, "no group", nil},
		{func(o *Options) { o.Group = "10.0.0.7" }, "no multicast address", nil},
		{func(o *Options) { o.MGID = "ff15::1" }, "requires binding", nil},
		{func(o *Options) { o.MGID, o.Bind = "ff15::1", "10.0.0.1" }, "with -m", ib.EOPNOTSUPP},
		{func(o *Options) { o.NoLoop = true }, "(-l)", ib.EOPNOTSUPP},
		{func(o *Options) { o.Pause = -1 }, "pause", nil},
		{func(o *Options) { o.Connections = 0 }, "0 connections", nil},
	} {
		o := side(nil, "", "239.77.0.1").Options
		c.change(&o)
		err := o.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || c.errno != nil && !errors.Is(err, c.errno) {
			t.Errorf("%+v: %v, want %q", o, err, c.want)
		}
	}
}
