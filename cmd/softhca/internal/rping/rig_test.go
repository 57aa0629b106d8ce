package rping

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/verbs"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is an address, of a network in this process or of the real one, and what
// its adapter does wrong.
type host struct {
	net    *verbs.Network // nil: UDP
	addr   string
	faults string
	acted  atomic.Uint64 // how often the faults did
}

// opener opens an adapter on the host, for either role.
func (h *host) opener() adapter.Opener {
	return adapter.Opener{Addr: h.addr, Open: func(addr string) (*verbs.Context, func() error, error) {
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
	}}
}

// hosts returns two hosts of one network, with an address of each family.
func hosts() (at, from *host) {
	n := verbs.NewNetwork()
	return &host{net: n, addr: "10.0.0.1,fd00::1"}, &host{net: n, addr: "10.0.0.2,fd00::2"}
}

// loopback returns address i of those that no other test process uses.
func loopback(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 32+pid>>8&31, pid&255, i)
}

// side returns a side of a test; one that waits in vain fails soon, but not
// while the test is only slow.
func (h *host) side() Side {
	return Side{Options: Options{Port: "7174", Size: 64, Count: 3, Validate: true, Idle: 20 * time.Second}, Opener: h.opener()}
}

// impatient makes lost messages come again soon.
func impatient(s Side) Side {
	s.Opener.Response = adapter.Response{Timeout: 14, Retries: 15} // 67 ms
	return s
}

// output is what a side prints. It closes listening when that is said.
type output struct {
	mu sync.Mutex // guards the rest
	strings.Builder
	listening chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
func (s Side) client(ctx context.Context, server string) result {
	var out, errs strings.Builder
	s.Host, s.Out, s.Err = server, &out, &errs
	err := s.Client(ctx)
	return result{out.String(), errs.String(), err}
}

// both runs a server and a client.
func both(t *testing.T, server, client Side, to string) (s, c result) {
	t.Helper()
	done := start(t.Context(), server)
	c = client.client(t.Context(), to)
	return <-done, c
}

// changing matches what differs from run to run: addresses and keys.
var changing = regexp.MustCompile(`0x[0-9a-f]+|(addr|rkey|lkey|laddr) [0-9a-f]+`)

// golden compares what both sides print with a file.
func golden(t *testing.T, name string, s, c result) {
	t.Helper()
	var b strings.Builder
	for _, part := range []struct{ title, text string }{
		{"server's output", s.out}, {"server's errors", s.errs}, {"client's output", c.out}, {"client's errors", c.errs},
	} {
		fmt.Fprintf(&b, "--- %s\n%s", part.title, part.text)
	}
	got := changing.ReplaceAllStringFunc(b.String(), func(s string) string {
		word, _, found := strings.Cut(s, " ")
		if !found {
			return "PTR"
		}
		return word + " NUM"
	})
	name = filepath.Join("testdata", name+".txt")
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
