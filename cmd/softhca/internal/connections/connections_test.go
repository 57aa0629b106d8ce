package connections

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is an address, of a network in this process or of the real one, and what
// its adapter does wrong.
type host struct {
	net    *verbs.Network // nil: UDP
	addr   string
	faults string
}

// side returns a side of a test, for which lost messages come again soon.
func (h *host) side() Side {
	open := func(addr string) (*verbs.Context, func() error, error) {
		dev, err := verbs.Open(verbs.Config{Addr: addr, Network: h.net}, verbs.WithFaults(h.faults, 1))
		if err != nil {
			return nil, nil, err
		}
		return dev, dev.Close, nil
	}
	return Side{
		Options: Options{Port: 7471, Connections: 20, Window: 4},
		Opener:  adapter.Opener{Addr: h.addr, Open: open, Response: adapter.Response{Timeout: 14, Retries: 15}}, // 67 ms
		Err:     io.Discard,
	}
}

// hosts returns two hosts of one network, with an address of each family.
func hosts() (at, from *host) {
	n := verbs.NewNetwork()
	return &host{net: n, addr: "10.0.0.1,fd00::1"}, &host{net: n, addr: "10.0.0.2,fd00::2"}
}

// loopback returns address i of those that no other test process uses.
func loopback(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 96+pid>>8&31, pid&255, i)
}

// heard closes itself when a server says where it listens.
type heard chan struct{}

func (h heard) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("listening on")) {
		close(h)
	}
	return len(b), nil
}

// start runs a server until stop, which returns how it ended.
func start(t *testing.T, s Side) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listening := make(heard)
	s.Err = listening
	done := make(chan error, 1)
	go func() { done <- s.Server(ctx) }()
	select {
	case <-listening:
	case err := <-done:
		t.Fatal(err)
	}
	return func() error {
		cancel()
		return <-done
	}
}

// measure runs a client of a server.
func measure(t *testing.T, s Side, server string) (Summary, error) {
	t.Helper()
	s.Host = server
	return s.Client(t.Context())
}

// TestC11_Connections measures over IPv4 and IPv6.
func TestC11_Connections(t *testing.T) {
	at, from := hosts()
	stop := start(t, at.side())
	for _, to := range []string{"10.0.0.1", "fd00::1"} {
		sum, err := measure(t, from.side(), to)
		if err != nil || sum.Connections != 20 || sum.Failed != 0 || !(sum.ConnectsPerSecond > 0) || len(sum.Steps) != len(phases) {
			t.Errorf("%s: %v, %+v", to, err, sum)
		}
		for _, s := range sum.Steps {
			if s.Samples != 20 || s.TotalMs <= 0 || s.MaxMs*1e3 < s.MinUs || s.Times.P50 > s.Times.Max {
				t.Errorf("%s: %+v", to, s)
			}
		}
		if text := sum.String(); !strings.HasPrefix(text, "connections: 20 established in ") || strings.Count(text, "\n  ") != len(phases) {
			t.Errorf("%s: %s", to, text)
		}
	}
	must.Do(t, stop())
}

// TestC11_NoListener shows that there is a result even if every connection is rejected.
func TestC11_NoListener(t *testing.T) {
	at, from := hosts()
	dev, closer, err := at.side().Opener.Open(at.addr)
	if err != nil || dev == nil {
		t.Fatal(err)
	}
	defer closer()
	side := from.side()
	side.Connections = 3
	sum, err := measure(t, side, "10.0.0.1")
	if !errors.Is(err, ib.ECONNREFUSED) || !strings.Contains(err.Error(), "3 of 3 connections failed") || sum.Failed != 3 {
		t.Errorf("%v, %+v", err, sum)
	}
	if text := sum.String(); !strings.Contains(text, "connections: 0 established in ") || !strings.Contains(text, "\n  connect ") {
		t.Error(text)
	}
}

// TestC3_C4_C5_LostMessages loses every tenth packet of the client: all
// connections are made and ended.
func TestC3_C4_C5_LostMessages(t *testing.T) {
	at, from := hosts()
	stop := start(t, at.side())
	from.faults = "drop every=10 dir=both op=CM"
	if sum, err := measure(t, from.side(), "10.0.0.1"); err != nil || sum.Failed != 0 {
		t.Errorf("%v, %+v", err, sum)
	}
	must.Do(t, stop())
}

// local measures within one process, over the host's network.
func local(t *testing.T, change func(*Local)) (Summary, error) {
	t.Helper()
	at, from := &host{addr: loopback(1)}, &host{addr: loopback(2)}
	l := Local{Side: from.side(), ServerOpener: at.side().Opener}
	l.Host, l.Cycles = loopback(1), 200
	change(&l)
	return l.Run(t.Context())
}

// TestC3_C5_CyclesLeaveNothing takes connections through their lives in both
// modes and looks at what is left.
func TestC3_C5_CyclesLeaveNothing(t *testing.T) {
	for _, events := range []bool{false, true} {
		sum, err := local(t, func(l *Local) { l.Events = events })
		if err != nil {
			t.Fatalf("events %t: %v\n%v", events, err, sum)
		}
		c, r := sum.Cycles, sum.Raw
		if c.Count != 200 || c.Window != 4 || c.PerSecond <= 0 || len(c.Steps) != int(numSteps) || !sum.Leaks.Clean {
			t.Errorf("events %t: %+v, %+v", events, c, sum.Leaks)
		}
		for _, s := range c.Steps {
			if s.Samples != 200 {
				t.Errorf("events %t: %d times of %s", events, s.Samples, s.Name)
			}
			if s.TotalMs < s.MaxMs || s.ConnUs < s.MinUs || s.ConnUs > s.MaxMs*1e3 || s.Times.P999 > s.Times.Max {
				t.Errorf("events %t: the mean of %s is not between its shortest and longest: %+v", events, s.Name, s)
			}
		}
		if r.Exchanges != leastExchanges || r.Bytes != 280 || r.Window != 4 || sum.CycleRatio != c.PerSecond/r.PerSecond {
			t.Errorf("events %t: %+v, ratio %v", events, r, sum.CycleRatio)
		}
		if b, err := json.Marshal(sum); err != nil || !strings.Contains(string(b), `"cm_id":0`) {
			t.Errorf("events %t: %s, %v", events, b, err)
		}
		if text := sum.String(); !strings.Contains(text, "nothing is left over") || !strings.Contains(text, "whole cycles") {
			t.Errorf("events %t: %s", events, text)
		}
	}
}

// TestLocalWithoutCycles measures the phases and the plain messages.
func TestLocalWithoutCycles(t *testing.T) {
	sum, err := local(t, func(l *Local) { l.Cycles = 0 })
	if err != nil || sum.Cycles != nil || sum.Leaks != nil || sum.ConnectRatio <= 0 || strings.Contains(sum.String(), "cycles") {
		t.Errorf("%v, %+v", err, sum)
	}
}

// mostObjects returns how many objects a connection may allocate. With the race detector the
// compiler inlines less, and more objects are allocated.
func mostObjects() uint64 {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 85
	}
	return 55
}

// TestC11_AllocationsOfConnect bounds what connections allocate, on both sides, while they are
// being established: the garbage collector's share of the time follows from it.
func TestC11_AllocationsOfConnect(t *testing.T) {
	at, from := hosts()
	server, err := at.side().Opener.Server(7471)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	side := from.side()
	side.Connections = 200
	cl, err := side.Opener.Client(t.Context(), "10.0.0.1", 7471)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	srv, err := newServer(server, io.Discard, side.Connections)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(&side, cl, oneThread{srv})
	defer c.close()
	for i := range phases {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		must.Do(t, c.phase(t.Context(), &phases[i]))
		if runtime.ReadMemStats(&after); phases[i].step != connect {
			continue
		}
		n := uint64(side.Connections)
		t.Logf("a connection allocates %d objects, %d bytes", (after.Mallocs-before.Mallocs)/n, (after.TotalAlloc-before.TotalAlloc)/n)
		if objects := (after.Mallocs - before.Mallocs) / n; objects > mostObjects() {
			t.Errorf("establishing a connection allocates %d objects, more than %d", objects, mostObjects())
		}
	}
	if c.failed != 0 {
		t.Error(c.why)
	}
}

// TestCyclesFail ends the cycles with the first connection that fails.
func TestCyclesFail(t *testing.T) {
	at, from := &host{addr: loopback(3)}, &host{addr: loopback(4), faults: "fail op=CreateQP nth=60 errno=ENOMEM"}
	l := Local{Side: from.side(), ServerOpener: at.side().Opener}
	l.Host, l.Cycles = loopback(3), 200
	if _, err := l.Run(t.Context()); !errors.Is(err, ib.ENOMEM) || !strings.Contains(err.Error(), "of 66: ") {
		t.Error(err)
	}
}

// TestCyclesInterrupted ends them.
func TestCyclesInterrupted(t *testing.T) {
	for _, events := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		at, from := &host{addr: loopback(5)}, &host{addr: loopback(6)}
		l := Local{Side: from.side(), ServerOpener: at.side().Opener}
		l.Host, l.Cycles, l.Events = loopback(5), 1<<30, events
		l.Err = cancels(cancel) // with the first line of progress
		if _, err := l.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("events %t: %v", events, err)
		}
	}
}

type cancels func()

func (c cancels) Write(b []byte) (int, error) {
	c()
	return len(b), nil
}

// TestLeaksAreSeen judges counts with something more than before.
func TestLeaksAreSeen(t *testing.T) {
	const cycles = 1000
	const most = heapNoise + cycles*heapPerCycle
	for _, c := range []struct {
		what  string
		add   func(*Leaks)
		clean bool
	}{
		{"nothing", func(*Leaks) {}, true},
		{"noise in the heap", func(l *Leaks) { l.After[1].HeapBytes += most; l.After[2].HeapBytes += 2 * most }, true},
		{"a larger table", func(l *Leaks) { l.After[2].HeapBytes += 1 << 30 }, true},
		{"a larger table earlier", func(l *Leaks) { l.After[1].HeapBytes += 1 << 30; l.After[2].HeapBytes += 1 << 30 }, true},
		{"a smaller heap", func(l *Leaks) { l.After[0].HeapBytes += 1 << 30 }, true},
		{"a heap that grows", func(l *Leaks) { l.After[1].HeapBytes += most + 1; l.After[2].HeapBytes += 2*most + 2 }, false},
		{"an ID", func(l *Leaks) { l.After[2].IDs++ }, false},
		{"a connection", func(l *Leaks) { l.After[2].Client.CMIDs++ }, false},
		{"a queue pair", func(l *Leaks) { l.After[2].Server.QPs++ }, false},
		{"a goroutine", func(l *Leaks) { l.After[2].Goroutines++ }, false},
		{"a goroutine less", func(l *Leaks) { l.After[2].Goroutines-- }, true},
	} {
		l := Leaks{Before: Counts{Goroutines: 5}}
		for i := range l.After {
			l.After[i] = Counts{Goroutines: 5, HeapBytes: 1 << 20}
		}
		c.add(&l)
		if l.judge(cycles); l.Clean != c.clean || strings.Contains(l.String(), "SOMETHING") == c.clean {
			t.Errorf("%s: clean is %t\n%v", c.what, l.Clean, &l)
		}
	}
}

func TestMessage(t *testing.T) {
	var b [messageLen]byte
	for _, n := range []uint64{0, 1, 1<<63 + 12345} {
		if fillMessage(b[:], n); !rightMessage(b[:]) || rightMessage(b[1:]) {
			t.Errorf("message %d", n)
		}
		if b[40] ^= 4; rightMessage(b[:]) {
			t.Errorf("message %d with a wrong bit is right", n)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string // of the error; "" for none
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Connections = 0 }, "--connections 0"},
		{func(o *Options) { o.Connections = maxConnections + 1 }, "--connections 32769"},
		{func(o *Options) { o.Cycles = -1 }, "--cycles -1"},
		{func(o *Options) { o.Window = 0 }, "window 0"},
	} {
		o := Options{Connections: 1, Window: 1}
		c.change(&o)
		err := o.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", o, err, c.want)
		}
	}
}
