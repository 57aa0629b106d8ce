package rdmacm

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// journal collects the lines of a host's log.
type journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// line is what the test reads of a line of the log.
type line struct{ Level, Msg, Conn, Service, Cause, Remote string }

// connections returns the lines about connections.
func (j *journal) connections(t *testing.T) (all []line) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for text := range bytes.Lines(j.text.Bytes()) {
		var l line
		must.Do(t, json.Unmarshal(text, &l))
		if strings.HasPrefix(l.Msg, "connection ") {
			all = append(all, l)
		}
	}
	return all
}

// one checks that exactly one line has a message, and returns it.
func one(t *testing.T, side string, all []line, msg, level string) (l line) {
	t.Helper()
	n := 0
	for _, found := range all {
		if found.Msg == msg {
			l = found
			n++
		}
	}
	if n != 1 || l.Level != level {
		t.Fatalf("%s: %d lines %q, the last %+v; want one at level %s: %+v", side, n, msg, l, level, all)
	}
	return l
}

// TestW1_ConnectionsAreLogged connects, disconnects, is rejected and gets no answer: each is logged
// once at each side, and both sides give the connection the same name.
func TestW1_ConnectionsAreLogged(t *testing.T) {
	n := verbs.NewNetwork()
	var logA, logB journal
	logged := func(addr string, j *journal) *host {
		return newHost(t, verbs.Config{Network: n, Addr: addr, Log: slog.New(slog.NewJSONHandler(j, nil))})
	}
	a, b := logged("10.0.0.1", &logA), logged("10.0.0.2", &logB)
	c := connect2(t, a, b)
	must.Do(t, c.client.Disconnect())
	b.take(EventDisconnected)
	must.Do(t, c.server.Disconnect())
	a.take(EventDisconnected)
	far, near := logB.connections(t), logA.connections(t)
	began := one(t, "client", near, "connection established", "INFO")
	if began.Service != "tcp:7471" || strings.Count(began.Conn, "-") != 1 || !strings.Contains(began.Conn, "10.0.0.1/0x") || !strings.Contains(began.Conn, "10.0.0.2/0x") {
		t.Errorf("the connection is logged as %+v", began)
	}
	for side, l := range map[string]line{
		"server": one(t, "server", far, "connection established", "INFO"), "client's end": one(t, "client", near, "connection ended", "INFO"),
		"server's end": one(t, "server", far, "connection ended", "INFO"),
	} {
		if l.Conn != began.Conn || l.Service != began.Service {
			t.Errorf("%s: %+v, want connection %s", side, l, began.Conn)
		}
	}
	if mine, other := one(t, "client", near, "connection ended", "INFO").Cause, one(t, "server", far, "connection ended", "INFO").Cause; mine != "by this side" || other != "by the peer" {
		t.Errorf("disconnected %q and %q", mine, other)
	}

	id := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, id.Connect(nil))
	must.Do(t, b.take(EventConnectRequest).ID.Reject([]byte("no")))
	a.take(EventRejected)
	if l := one(t, "client", logA.connections(t), "connection rejected by the peer", "WARN"); l.Cause != "consumer reject" || !strings.Contains(l.Remote, "10.0.0.2") {
		t.Errorf("rejected: %+v", l)
	}
	if l := one(t, "server", logB.connections(t), "connection rejected", "INFO"); l.Cause != "consumer reject" || l.Service != "tcp:7471" || l.Remote != "10.0.0.1" || l.Conn != "" {
		t.Errorf("rejects: %+v", l)
	}

	must.Do(t, c.listener.Destroy())
	id = withQP(t, a.resolved(TCP, b.at(port+1)))
	must.Do(t, id.Connect(nil))
	a.take(EventRejected)
	refused := logB.connections(t)
	if l := refused[len(refused)-1]; l.Msg != "connection rejected" || l.Cause != "invalid service id" || l.Remote != "10.0.0.1" || l.Conn != "" {
		t.Errorf("a request without a listener: %+v", l)
	}

	dead := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.3", Faults: verbs.Faults{Rules: "drop dir=in"}})
	must.Do(t, a.shortTimeout(dead, 1).Connect(nil))
	a.take(EventUnreachable)
	for _, l := range logA.connections(t) {
		if l.Msg == "connection rejected" {
			t.Errorf("the client rejected nothing: %+v", l)
		}
	}
	if l := one(t, "client", logA.connections(t), "connection unanswered", "WARN"); l.Service != "tcp:7471" || l.Remote != "10.0.0.3" {
		t.Errorf("no answer: %+v", l)
	}
}
