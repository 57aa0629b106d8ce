package perf

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// rig is two adapters without sockets.
type rig struct{ client, server *verbs.Context }

func newRig(t *testing.T) rig {
	t.Helper()
	n := verbs.NewNetwork()
	open := func(addr string) *verbs.Context {
		dev, err := verbs.Open(verbs.Config{Addr: addr, Network: n, Seed: 7})
		must.Do(t, err)
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Errorf("close the adapter: %v", err)
			}
		})
		return dev
	}
	return rig{open("10.0.0.1"), open("10.0.0.2")}
}

// measure runs both sides and returns their results.
func (r rig) measure(ctx context.Context, p Plan, serve Op) (s Summary, client, server error) {
	a, b := net.Pipe()
	if p.Timeout == 0 {
		p.Timeout = 17 // half a second: a machine busy with other tests is no loss
	}
	done := make(chan error)
	go func() { done <- Serve(ctx, r.server, b, serve) }()
	s, client = Run(ctx, r.client, a, p, nil)
	return s, client, <-done
}

// longestTry is the duration of the last try of long.
const longestTry = 8 * time.Second

// long measures until the result is enough to judge, each time for longer: on a busy machine a
// thread may not run during a whole short measurement. It returns the last result.
func (r rig) long(t *testing.T, p Plan, enough func(*Summary) bool) (s Summary, client, server error) {
	t.Helper()
	for {
		s, client, server = r.measure(t.Context(), p, p.Op)
		if client != nil || server != nil || enough(&s) || p.Duration >= longestTry {
			return s, client, server
		}
		p.Duration *= 4
	}
}

// moving reports whether each queue pair has sent something.
func moving(s *Summary) bool { return s.Least > 0 }

func TestMeasurements(t *testing.T) {
	r := newRig(t)
	for op := range numOps {
		for _, p := range []Plan{
			{Op: op},
			{Op: op, Depth: 7, QPs: 3},
			{Op: op, Depth: 7, PostList: 1},
			{Op: op, Depth: 7, PostList: 3},
			{Op: op, Latency: true},
			{Op: op, Size: 5000, MTU: 3},
			{Op: op, Size: 3, Depth: 1, Latency: true},
			{Op: op, Size: 3000, Latency: true},
			{Op: op, Latency: true, Events: op.info().receives},
		} {
			if op.info().word {
				p.Size = 0
			}
			p.Duration = 30 * time.Millisecond
			s, client, server := r.long(t, p, moving)
			if client != nil || server != nil {
				t.Fatalf("%+v: client: %v; server: %v", p, client, server)
			}
			if s.Least == 0 || s.Least > s.Most || s.Least*uint64(s.QPs) > s.Messages+uint64(s.QPs) {
				t.Errorf("%+v: of %d messages each queue pair has %d to %d", p, s.Messages, s.Least, s.Most)
			}
			if moved := s.Gbps > 0 && s.Bytes == s.Messages*uint64(s.Size); s.Messages == 0 || moved == (op == Bind) || s.Mpps <= 0 || s.Seconds < 0.03 {
				t.Errorf("%+v: nothing measured: %+v", p, s)
			}
			if l := s.Latency; l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.Max {
				t.Errorf("%+v: latencies out of order: %+v", p, l)
			}
		}
	}
}

func TestDisagreement(t *testing.T) {
	r := newRig(t)
	p := Plan{Op: Write, Duration: time.Second}
	_, client, server := r.measure(t.Context(), p, Send)
	for who, err := range map[string]error{"client": client, "server": server} {
		if err == nil || !strings.Contains(err.Error(), "the client measures write, this server serves send") {
			t.Errorf("the %s of another operation says %v", who, err)
		}
	}
}

// TestCancel ends a measurement that would take an hour.
func TestCancel(t *testing.T) {
	r := newRig(t)
	for _, p := range []Plan{{Op: Write}, {Op: Send, Latency: true}, {Op: Send, Latency: true, Events: true}, {Op: Read, Latency: true}} {
		p.Duration = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, client, server := r.measure(ctx, p, p.Op)
		cancel()
		if !errors.Is(client, context.DeadlineExceeded) || !errors.Is(server, context.DeadlineExceeded) {
			t.Errorf("%+v: called off, the client says %v and the server %v", p, client, server)
		}
	}
}

// TestProgress checks that a report comes after a second.
func TestProgress(t *testing.T) {
	p := Plan{Op: Write, Size: 1 << 20}
	var got []Interval
	m := newMeter(&p, func(i Interval) { got = append(got, i) })
	m.begin(time.Hour)
	m.messages = 50
	m.since, m.nextTick = m.since.Add(-2*time.Second), m.start
	if more, err := m.running(t.Context()); !more || err != nil {
		t.Fatalf("running says %v, %v", more, err)
	}
	if len(got) != 1 || got[0].Messages != 50 || got[0].Gbps <= 0.15 || got[0].Gbps > 0.22 {
		t.Errorf("50 MiB in two seconds are reported as %+v", got)
	}
}
