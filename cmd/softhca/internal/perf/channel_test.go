package perf

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
)

// TestV18_ReliableDatagrams measures every operation over a channel that queue
// pairs share. They take turns, so none has many messages more than another.
func TestV18_ReliableDatagrams(t *testing.T) {
	r := newRig(t)
	for _, op := range (&Plan{Type: ib.RD}).service().ops {
		for _, p := range []Plan{
			{QPs: 3, Depth: 7},
			{QPs: 2, Size: 5000, MTU: ib.MTU1024},
			{Latency: true},
		} {
			if op.info().word {
				p.Size = 0
			}
			p.Type, p.Op, p.Duration = ib.RD, op, 30*time.Millisecond
			s, client, server := r.long(t, p, moving)
			if client != nil || server != nil {
				t.Fatalf("%+v: client: %v; server: %v", p, client, server)
			}
			if s.Type != "rd" || s.Messages == 0 || s.Bytes != s.Messages*uint64(s.Size) || s.Latency.P50 <= 0 {
				t.Errorf("%+v: nothing measured: %+v", p, s)
			}
			// A queue pair misses turns if this thread does not get to poll its completions.
			if most := s.Least + s.Least/4 + uint64(2*p.Depth+2*s.PostList); p.Depth > 0 && s.Most > most {
				t.Errorf("%+v: queue pairs that take turns have %d to %d messages", p, s.Least, s.Most)
			}
			if s.Client.Channel != "RTS" || s.Server.Channel != "RTS" {
				t.Errorf("%+v: the EE contexts are in %q and %q", p, s.Client.Channel, s.Server.Channel)
			}
		}
	}
}

// TestV18_MeasuredFailures ends measurements over a channel: what one queue pair
// is refused leaves the channel up, and a peer that is silent ends it.
func TestV18_MeasuredFailures(t *testing.T) {
	for _, c := range []struct {
		op             Op
		client, server string
		status         string
		channels       [2]string // states of the client's and the server's EE context
		told           string    // in the text
	}{
		{Write, "drop p=1 after=20ms", "", "RETRY_EXC_ERR", [2]string{"ERR", "RTS"}, "it got no error and waits for PSN"},
		{Read, "", "nak REMOTE_ACCESS nth=9", "REM_ACCESS_ERR", [2]string{"RTS", "RTS"}, "NAK remote access error"},
		{Send, "", "nak INVALID_REQUEST nth=9", "REM_INV_REQ_ERR", [2]string{"RTS", "RTS"}, "NAK invalid request"},
	} {
		r := newFaultyRig(t, c.client, c.server)
		p := Plan{Type: ib.RD, Op: c.op, QPs: 2, Duration: 5 * time.Second, Timeout: 12, Retry: 1}
		_, client, _ := r.measure(t.Context(), p, c.op)
		f := (*Failure)(nil)
		if !errors.As(client, &f) || f.Status != c.status || f.Server == nil {
			t.Errorf("%+v: the client ends with %v", c, client)
			continue
		}
		if got := [2]string{f.Client.Channel, f.Server.Channel}; got != c.channels {
			t.Errorf("%+v: the EE contexts are in %v, want %v", c, got, c.channels)
		}
		for _, want := range []string{c.told, "its EE context: " + c.channels[0]} {
			if !strings.Contains(f.Error(), want) {
				t.Errorf("%+v: the error does not say %q:\n%v", c, want, f)
			}
		}
	}
}

// TestV18_ChannelRecovers loses packets on both sides.
func TestV18_ChannelRecovers(t *testing.T) {
	for _, op := range []Op{Write, Send, Read} {
		r := newFaultyRig(t, "drop every=50 dir=in", "drop every=50 dir=in")
		p := Plan{Type: ib.RD, Op: op, QPs: 4, Depth: 8, Duration: 100 * time.Millisecond, Timeout: 15}
		s, client, server := r.long(t, p, func(s *Summary) bool { return s.Retransmits > 0 })
		if client != nil || server != nil || s.Retransmits == 0 {
			t.Errorf("%v with loss: client: %v; server: %v; %v", op, client, server, s)
		}
	}
}
