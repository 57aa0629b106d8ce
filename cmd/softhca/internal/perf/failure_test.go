package perf

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// newFaultyRig is newRig with faults at either side.
func newFaultyRig(t *testing.T, client, server string) rig {
	t.Helper()
	return newRigAt(t, [2]string{"10.0.0.1", "10.0.0.2"}, client, server)
}

// newRigAt is newFaultyRig with other addresses.
func newRigAt(t *testing.T, addrs [2]string, client, server string) rig {
	t.Helper()
	n := verbs.NewNetwork()
	open := func(addr, rules string) *verbs.Context {
		dev, err := verbs.Open(verbs.Config{Addr: addr, Network: n}, verbs.WithFaults(rules, 5))
		must.Do(t, err)
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		return dev
	}
	return rig{open(addrs[0], client), open(addrs[1], server)}
}

// TestFailure ends measurements by faults at one side or the other: the client
// knows what both saw.
func TestFailure(t *testing.T) {
	for _, c := range []struct {
		op             Op
		latency        bool
		client, server string
		status         string
		states         [2]string // of the client's and the server's queue pair
	}{
		{op: Write, client: "drop p=1 after=20ms", status: "RETRY_EXC_ERR", states: [2]string{"ERR", "RTS"}},
		{op: Read, server: "nak REMOTE_ACCESS nth=9", status: "REM_ACCESS_ERR", states: [2]string{"ERR", "ERR"}},
		{op: Send, server: "nak INVALID_REQUEST nth=9", status: "REM_INV_REQ_ERR", states: [2]string{"ERR", "ERR"}},
		{op: Send, latency: true, client: "qp to=ERR nth=9", status: "WR_FLUSH_ERR", states: [2]string{"ERR", "RTS"}},
		{op: Write, client: "fillcq nth=99", status: "CQ_ERR", states: [2]string{"ERR", "RTS"}},
		{op: WriteImm, server: "fillcq nth=3 op=PostRecv", status: "RETRY_EXC_ERR", states: [2]string{"ERR", "ERR"}},
	} {
		r := newFaultyRig(t, c.client, c.server)
		p := Plan{Op: c.op, Latency: c.latency, Duration: 5 * time.Second, Timeout: 18, Retry: 7}
		if c.status == "RETRY_EXC_ERR" { // only then: a busy host delays answers for longer
			p.Timeout, p.Retry = 12, 1
		}
		_, client, server := r.measure(t.Context(), p, c.op)
		f := (*Failure)(nil)
		if !errors.As(client, &f) || f.Status != c.status || f.Server == nil {
			t.Errorf("%+v: the client ends with %v", c, client)
			continue
		}
		if f.Client.States != c.states[0] || f.Server.States != c.states[1] {
			t.Errorf("%+v: the client's is in %s, the server's in %s", c, f.Client.States, f.Server.States)
		}
		if !errors.Is(server, ErrPeerFailed) || !strings.Contains(server.Error(), c.status) {
			t.Errorf("%+v: the server ends with %v", c, server)
		}
		text := f.Error()
		for _, want := range []string{"failed with " + c.status, "requester:", "responder:", c.client, c.server, "seed 5"} {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: the story has no %q:\n%s", c, want, text)
			}
		}
		if c.status == "RETRY_EXC_ERR" && (!strings.Contains(text, "16.8 ms (code 12) and 1 retry: 2 timeouts in a row make 33.6 ms") || f.Stalled <= 0) {
			t.Errorf("after %.1f ms the story is\n%s", f.Stalled, text)
		}
	}
}

// TestEndAfterRNRNAKs does not say that nothing answered if RNR NAKs did.
func TestEndAfterRNRNAKs(t *testing.T) {
	for naks, want := range map[uint64]string{0: "no retry was answered; it gave up", 3: "its retries were used up; it gave up"} {
		f := Failure{status: ib.WCRetryExcErr, Client: Report{RNRNAKs: naks}}
		if got := f.end(); !strings.HasPrefix(got, want+";") {
			t.Errorf("after %d RNR NAKs: %q, want %q", naks, got, want)
		}
	}
}

// connected returns both ends of a TCP connection.
func connected(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err == nil {
		b, err = l.Accept()
	}
	must.Do(t, err)
	return a, b
}

// TestServerEnds has a server that takes the client's messages and then fails or
// disappears. A client that waits for a message of the server has no failing
// request: it learns of the end over the control connection, and reports the
// cause.
func TestServerEnds(t *testing.T) {
	broken := errors.New("broken \x1b")
	for _, c := range []struct {
		end  func(*control)
		want string
	}{
		{func(ctl *control) { ctl.refuse(broken, nil) }, `the peer says: "broken \x1b"`},
		{func(ctl *control) { _ = ctl.conn.Close() }, "the peer closed the connection"},
	} {
		for _, p := range []Plan{{Op: Write, Latency: true}, {Op: Send, Latency: true}, {Op: Read, Latency: true}, {Op: Write}} {
			r := newRig(t)
			a, b := connected(t)
			p.Duration = time.Hour
			result := make(chan error, 1)
			go func() {
				_, err := Run(t.Context(), r.client, a, p, nil)
				result <- err
			}()
			// A server that connects its queue pairs, and never sends.
			s := &server{ctl: newControl(b)}
			must.Do(t, s.accept(r.server, p.Op))
			c.end(s.ctl)
			if err := <-result; !errors.Is(err, errServerEnded) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: the client says %v, want %s", p, err, c.want)
			}
			if err := s.own.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestClientTells has a client fail for a reason of its own, which the server
// reports.
func TestClientTells(t *testing.T) {
	r := newRig(t)
	for _, p := range []Plan{{Op: Write, Latency: true}, {Op: Send}, {Op: Read}} {
		ctl, result := r.serve(t, p.Op)
		q := valid(p.Op)
		q.Latency = p.Latency
		if p.Latency {
			q.Depth = 1
		}
		must.Do(t, ctl.send(q))
		var o offer
		must.Do(t, ctl.receive(&o, replyDue))
		go ctl.refuse(errors.New("message 7 carries the number 9"), nil)
		if err := <-result; err == nil || !strings.Contains(err.Error(), "message 7 carries the number 9") {
			t.Errorf("%+v: the server says %v", p, err)
		}
	}
}

// TestSanitize cuts and cleans what a peer reports.
func TestSanitize(t *testing.T) {
	r := &Report{States: "RTS\x1b[31m", Channel: strings.Repeat("ä", 1000), Faults: make([]verbs.FaultStat, 100)}
	r.Faults[0].Rule = "drop\n"
	r.sanitize()
	if r.States != `RTS\x1b[31m` || r.Channel != strings.Repeat("ä", maxShown-1)+"…" || len(r.Faults) != maxFaults || r.Faults[0].Rule != `drop\n` {
		t.Errorf("left is %+v", r)
	}
	(*Report)(nil).sanitize() // a peer that sends none
}
