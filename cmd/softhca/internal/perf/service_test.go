package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
)

// unreliable are the measurements of services that repeat nothing.
var unreliable = []Plan{
	{Type: ib.UC, Op: Write},
	{Type: ib.UC, Op: WriteImm, Size: 5000, QPs: 2},
	{Type: ib.UC, Op: Send, MTU: ib.MTU1024, Size: 3000},
	{Type: ib.UD, Op: Send},
	{Type: ib.UD, Op: Send, Size: 3, QPs: 3},
	{Type: ib.UC, Op: Write, Latency: true},
	{Type: ib.UC, Op: Send, Latency: true, Size: 3},
	{Type: ib.UD, Op: Send, Latency: true},
}

// TestUnreliableServices measures UC and UD at a rate that causes no loss.
func TestUnreliableServices(t *testing.T) {
	r := newRig(t)
	for _, p := range unreliable {
		p.Duration, p.Limit = 30*time.Millisecond, 100_000
		s, client, server := r.long(t, p, func(s *Summary) bool { return s.Messages > 0 })
		if client != nil || server != nil {
			t.Fatalf("%+v: client: %v; server: %v", p, client, server)
		}
		if s.Type != p.service().name || s.Messages == 0 || s.Bytes != s.Messages*uint64(s.Size) {
			t.Errorf("%+v: %+v", p, s)
		}
		if l := s.Lost; (l == nil) != p.Latency {
			t.Errorf("%+v: lost %+v", p, l)
		} else if l != nil && (l.Sent < s.Messages || l.PacketsSent < l.Sent || l.Packets > l.PacketsSent || (l.Messages == nil) != (p.Op == Write)) {
			t.Errorf("%+v: lost %+v of %d messages", p, l, s.Messages)
		}
	}
}

// TestLossIsCounted loses every fifth packet of the server: of UD that is every
// fifth message, and of UC, with messages of several packets, more than that.
func TestLossIsCounted(t *testing.T) {
	for _, p := range unreliable[1:4] {
		r := newFaultyRig(t, "", "drop every=5 dir=in")
		p.Duration, p.Limit = 50*time.Millisecond, 100_000
		s, client, server := r.long(t, p, func(s *Summary) bool { return s.Lost != nil && s.Lost.Sent > 100 })
		if client != nil || server != nil {
			t.Errorf("%+v: client: %v; server: %v", p, client, server)
			continue
		}
		l := s.Lost
		if l.Packets < l.PacketsSent/5 || l.Packets == l.PacketsSent || *l.Messages < l.Sent/6 || *l.Messages >= l.Sent || l.Gbps >= s.Gbps {
			t.Errorf("%+v: %v of %v", p, l, s)
		}
		if text := s.String(); !strings.Contains(text, l.String()) {
			t.Errorf("the result says nothing of the loss: %s", text)
		}
	}
}

// TestLostAnswer has the server's answers lost: the client says so instead of
// waiting forever.
func TestLostAnswer(t *testing.T) {
	r := newFaultyRig(t, "", "drop nth=5 every=1 dir=out")
	_, client, _ := r.measure(t.Context(), Plan{Type: ib.UD, Op: Send, Latency: true, Duration: time.Hour}, Send)
	if client == nil || !strings.Contains(client.Error(), "no answer to message 5") {
		t.Errorf("the client says %v", client)
	}
}

// TestServiceBounds checks that plans which a service does not support are
// refused.
func TestServiceBounds(t *testing.T) {
	for why, p := range map[string]Plan{
		"a READ of UC":              {Type: ib.UC, Op: Read},
		"a WRITE of UD":             {Type: ib.UD, Op: Write},
		"a datagram of two packets": {Type: ib.UD, Op: Send, Size: 4097},
		"an alternate path of UC":   {Type: ib.UC, Op: Write, Alt: true},
		"a rate limit of RD":        {Type: ib.RD, Op: Send, Limit: 1000},
		"a management queue pair":   {Type: ib.GSI, Op: Send},
	} {
		if err := p.Check(); err == nil {
			t.Errorf("%s: %+v is accepted", why, p)
		}
	}
	r := newRig(t)
	p := Plan{Type: ib.UD, Op: Send, Size: 1025, MTU: ib.MTU1024, Duration: time.Second}
	if _, client, server := r.measure(t.Context(), p, Send); server == nil || client == nil || !strings.Contains(client.Error(), "at most the path MTU") {
		t.Errorf("a datagram beyond the path MTU: client: %v; server: %v", client, server)
	}
	if _, err := ParseType("dc"); err == nil || !strings.Contains(err.Error(), "rc, uc, ud, rd, xrc") {
		t.Errorf("an unknown type: %v", err)
	}
}
