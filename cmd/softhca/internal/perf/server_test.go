package perf

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// serve starts a server and returns the client's end of the connection and
// what the server will say in the end.
func (r rig) serve(t *testing.T, op Op) (*control, <-chan error) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { _ = a.Close() })
	result := make(chan error, 1)
	go func() { result <- Serve(t.Context(), r.server, b, op) }()
	return newControl(a), result
}

// valid returns a request that a server accepts, for queue pairs that nobody
// has.
func valid(op Op) *request {
	r := &request{Op: op.String(), Size: 100, Depth: 4, QPs: 1, MTU: 1024, side: side{
		GID: "10.0.0.1", Addr: 1, RKey: 1, QPs: []endpoint{{QPN: 2, PSN: 3}},
	}}
	if op.info().word {
		r.Size = 8
	}
	return r
}

// TestLies has a client claim messages that it never sent: the server checks
// its memory and reports that.
func TestLies(t *testing.T) {
	r := newRig(t)
	for op, want := range map[Op]string{
		Write: "arrived wrong", FetchAdd: "is 0 after 5 atomics", CmpSwap: "is 0 after 5 atomics",
	} {
		ctl, result := r.serve(t, op)
		must.Do(t, ctl.send(valid(op)))
		var o offer
		if err := ctl.receive(&o, replyDue); err != nil || o.MTU != 1024 || len(o.QPs) != 1 {
			t.Fatalf("%v: the server offers %+v (%v)", op, o, err)
		}
		must.Do(t, ctl.send(&done{Messages: []uint64{5}, Pattern: 9}))
		var v verdict
		if err := ctl.receive(&v, replyDue); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the client is told %v, want %q", op, err, want)
		}
		if err := <-result; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the server says %v, want %q", op, err, want)
		}
	}
}

// TestHostileRequests checks that each bad request only causes an error with a
// reason, also at the client.
func TestHostileRequests(t *testing.T) {
	r := newRig(t)
	for why, spoil := range map[string]func(*request){
		"no such operation":            func(q *request) { q.Op = "rm" },
		"a huge message":               func(q *request) { q.Size = 1 << 60 },
		"a negative size":              func(q *request) { q.Size = -1 },
		"size 0":                       func(q *request) { q.Size = 0 },
		"a huge depth":                 func(q *request) { q.Depth = 1 << 60 },
		"a huge number of queue pairs": func(q *request) { q.QPs = 1 << 60 },
		"no path MTU":                  func(q *request) { q.MTU = 1000 },
		"fewer queue pairs than said":  func(q *request) { q.side.QPs = nil },
		"no GID":                       func(q *request) { q.GID = "nowhere" },
		"a GID of another family":      func(q *request) { q.GID = "fd00::1" },
		"a multicast GID":              func(q *request) { q.GID = "224.0.0.1" },
		"an error":                     func(q *request) { q.Error = "no\x1b[2J" },
	} {
		ctl, result := r.serve(t, Write)
		q := valid(Write)
		spoil(q)
		must.Do(t, ctl.send(q))
		var o offer
		if err := ctl.receive(&o, replyDue); err == nil {
			t.Errorf("%s: the server offers %+v", why, o)
		}
		if err := <-result; err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: the server says %q", why, err)
		}
	}
}

// TestHostileCounts sends counts of queue pairs that there are not.
func TestHostileCounts(t *testing.T) {
	r := newRig(t)
	for _, n := range [][]uint64{nil, {1, 2}} {
		ctl, result := r.serve(t, Send)
		must.Do(t, ctl.send(valid(Send)))
		var o offer
		must.Do(t, ctl.receive(&o, replyDue))
		must.Do(t, ctl.send(&done{Messages: n}))
		var v verdict
		if err := ctl.receive(&v, replyDue); err == nil {
			t.Errorf("counts %v are accepted", n)
		}
		if err := <-result; !errors.Is(err, errLine) {
			t.Errorf("counts %v: the server says %v", n, err)
		}
	}
}

// TestGone closes the connection in the middle: the server ends.
func TestGone(t *testing.T) {
	r := newRig(t)
	for _, op := range []Op{Write, Send} {
		ctl, result := r.serve(t, op)
		must.Do(t, ctl.send(valid(op)))
		var o offer
		must.Do(t, ctl.receive(&o, replyDue))
		must.Do(t, ctl.conn.Close())
		if err := <-result; err == nil {
			t.Errorf("%v: the client has gone and the server says nothing", op)
		}
	}
}

// TestControl checks that invalid lines give errors, not results.
func TestControl(t *testing.T) {
	for why, line := range map[string]string{
		"no JSON":                 "hello\n",
		"another version":         `{"softhca_perf":2}` + "\n",
		"no version":              "{}\n",
		"a number of wrong kind":  `{"softhca_perf":1,"qps":"many"}` + "\n",
		"a line without end":      strings.Repeat("x", 2*maxLine),
		"the end of the input":    "",
		"half a line, then ended": `{"softhca_perf":1`,
	} {
		a, b := net.Pipe()
		go func() {
			_, _ = b.Write([]byte(line)) // fails when the reader has had enough
			_ = b.Close()
		}()
		var q request
		if err := newControl(a).receive(&q, replyDue); err == nil {
			t.Errorf("%s is received as %+v", why, q)
		}
		_ = a.Close()
	}
}

// TestPeek checks that the number of a message of any length is found.
func TestPeek(t *testing.T) {
	r := newRig(t)
	for _, size := range []int{1, 2, 7, 8, 9, 100} {
		p := Plan{Op: Write, Size: size, Latency: true}
		must.Do(t, p.Check())
		own, err := newLocalSide(r.client, p, false, true)
		must.Do(t, err)
		pp, err := newPingpong(own, &side{QPs: make([]endpoint, 1)})
		must.Do(t, err)
		for _, n := range []uint64{1, 255, 256, 1 << 40} {
			if err := pp.send(n); err == nil {
				t.Fatal("a queue pair in RESET takes a send")
			}
			copy(own.in(0), pp.out) // what the peer's WRITE would do
			if !pp.here(n) || pp.here(n+1) {
				t.Errorf("%d bytes: message %d is seen as %d", size, n, pp.last())
			}
		}
		if size > 8 && !bytes.Equal(pp.out[:size-8], make([]byte, size-8)) {
			t.Errorf("%d bytes: the number is not at the end", size)
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNoFamily checks that the error has advice.
func TestNoFamily(t *testing.T) {
	p := Plan{Op: Write, MTU: ib.MTU256}
	must.Do(t, p.Check())
	if _, err := newLocalSide(newRig(t).client, p, false, false); err == nil || !strings.Contains(err.Error(), "no IPv6 address") {
		t.Errorf("an adapter without IPv6 says %v", err)
	}
}
