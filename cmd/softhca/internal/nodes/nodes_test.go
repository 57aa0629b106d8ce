package nodes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Load)
		want   string // of the error; "" for none
	}{
		{func(*Load) {}, ""},
		{func(l *Load) { l.Count, l.Size = 0, 0 }, ""},
		{func(l *Load) { l.Connections = 0 }, "0 connections"},
		{func(l *Load) { l.Connections = maxConnections + 1 }, "16385 connections"},
		{func(l *Load) { l.Count = -1 }, "count -1"},
		{func(l *Load) { l.Size = -1 }, "size -1"},
		{func(l *Load) { l.Size = maxSize + 1 }, "size 1073741825"},
		{func(l *Load) { l.Connections, l.Size = maxConnections, 1<<20 }, "larger than"},
		{func(l *Load) { l.Idle = -1 }, "idle"},
	} {
		l := Load{Connections: 1, Count: 10, Size: 100}
		c.change(&l)
		err := l.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", l, err, c.want)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), -1},
		{&adapter.Failure{Type: rdmacm.EventRejected, Status: 8}, 8},
		{fmt.Errorf("in front: %w", &adapter.Failure{Type: rdmacm.EventUnreachable, Status: -110}), -110},
		{&adapter.Failure{Type: rdmacm.EventDisconnected}, -1},
		{&Coded{-12, errors.New("too many")}, -12},
		{fmt.Errorf("host: %w", &net.DNSError{Err: "no such host"}), -2},
	} {
		if got := Status(c.err); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
}

// TestAdvice names the option that the sides do not agree on.
func TestAdvice(t *testing.T) {
	for status, want := range map[ib.WCStatus]string{
		ib.WCLocLenErr: "(-S)", ib.WCRemInvReqErr: "(-S)", ib.WCRNRRetryExcErr: "(-C)", ib.WCRetryExcErr: "alive",
	} {
		if text := (&completionError{status}).Error(); !strings.Contains(text, status.String()) || !strings.Contains(text, want) {
			t.Errorf("%v: %q, want %q", status, text, want)
		}
	}
}

// TestTell says how far a long transfer is, but not often.
func TestTell(t *testing.T) {
	var errs strings.Builder
	start := time.Unix(1, 0)
	test := &Test{Program: Program{Name: "cmatose", Options: Options{Load: Load{Connections: 2, Count: 9, Size: 1}}, Err: &errs}, told: start}
	n := &Node{test: test, number: 2}
	for i, after := range []time.Duration{0, progress - 1, progress, progress + 1, 2 * progress} {
		n.tell(start.Add(after), "sent", i)
	}
	want := "cmatose: connection 2 of 2: 2 of 9 messages sent\ncmatose: connection 2 of 2: 4 of 9 messages sent\n"
	if errs.String() != want {
		t.Errorf("it says %q, want %q", errs.String(), want)
	}
}

// TestStill has a client say once what may be wrong with a server that does not
// answer.
func TestStill(t *testing.T) {
	client := &Test{Adapter: &adapter.Adapter{Peer: netip.MustParseAddrPort("192.0.2.7:7471")}}
	const hint = ": 192.0.2.7:7471 does not answer: is an adapter open on that address, and does UDP port 4791 pass?"
	connected := &Test{Adapter: client.Adapter}
	connected.tally[Connected]++
	for _, c := range []struct {
		side   *Test
		waited time.Duration
		want   string
	}{
		{client, noticeAfter, "still waiting for it after 5s" + hint}, {client, 3 * noticeAfter, "still waiting for it after 15s"},
		{connected, noticeAfter, "still waiting for it after 5s"}, {&Test{Adapter: &adapter.Adapter{}}, noticeAfter, "still waiting for it after 5s"},
	} {
		if got := c.side.still("it", c.waited); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
