//go:build linux

package main

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// open opens a socket on a loopback address and closes it with the test.
func open(t *testing.T, merge bool) (*socket, netip.AddrPort) {
	t.Helper()
	s, err := openSocket(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0), config{pingpong: !merge})
	must.Do(t, err)
	at, err := s.local()
	must.Do(t, err)
	return s, at
}

// start runs a server on the socket until the test ends.
func start(t *testing.T, s *socket, serve func() error) {
	t.Helper()
	done := make(chan error)
	go func() { done <- serve() }()
	t.Cleanup(func() {
		s.shut.Store(true)
		if err := <-done; !errors.Is(err, errShut) {
			t.Errorf("the server ended with %v", err)
		}
		s.close()
	})
}

func TestThroughput(t *testing.T) {
	for _, c := range []config{
		{payload: 4096, overhead: 16, window: 256 << 10},
		{payload: 64, overhead: 32, window: 256 << 10},
		{payload: 1, overhead: 16, window: 1},
	} {
		server, at := open(t, true)
		start(t, server, newReceiver(server).serve)
		client, _ := open(t, true)
		defer client.close()
		s := newSender(client, at, c)
		r, err := s.run(50 * time.Millisecond)
		must.Do(t, err)
		if r.Packets == 0 || r.Packets+r.Lost != s.sent || r.Damaged != 0 {
			t.Errorf("payload %d: sent %d, received %d, lost %d, damaged %d", c.payload, s.sent, r.Packets, r.Lost, r.Damaged)
		}
	}
}

// TestLoss overflows a small buffer: losses are counted and do not stop the
// sender.
func TestLoss(t *testing.T) {
	server, at := open(t, true)
	must.Do(t, unix.SetsockoptInt(server.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096))
	start(t, server, newReceiver(server).serve)
	client, _ := open(t, true)
	defer client.close()
	s := newSender(client, at, config{payload: 4096, overhead: 16, window: 8 << 20})
	r, err := s.run(100 * time.Millisecond)
	must.Do(t, err)
	if r.Lost == 0 || r.Packets == 0 || r.Packets+r.Lost != s.sent {
		t.Errorf("sent %d, received %d, lost %d: want some lost and all accounted for", s.sent, r.Packets, r.Lost)
	}
}

func TestPingpong(t *testing.T) {
	for _, asleep := range []bool{false, true} {
		server, at := open(t, false)
		client, _ := open(t, false)
		defer client.close()
		if asleep {
			must.Do(t, errors.Join(server.sleep(), client.sleep()))
		}
		start(t, server, func() error { return echo(server) })
		r, err := pingpong(client, at, 40, maxSamples, 200*time.Millisecond)
		must.Do(t, err)
		if r.Samples == 0 || r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.Max || r.Mean <= 0 || r.Mean > r.Max {
			t.Errorf("asleep: %v: latencies out of order: %+v", asleep, *r)
		}
		const few = 10
		if r, err = pingpong(client, at, 40, few, time.Minute); err != nil || r.Samples != few {
			t.Errorf("asleep: %v: %+v (%v), want %d round trips", asleep, r, err, few)
		}
	}
}

// TestSilence checks that a silent peer gives an error, not a result.
func TestSilence(t *testing.T) {
	server, at := open(t, false)
	defer server.close()
	client, _ := open(t, false)
	defer client.close()
	if _, err := pingpong(client, at, 40, maxSamples, time.Second); err == nil {
		t.Error("a ping-pong with nobody succeeds")
	}
}

// data returns a sealed segment.
func data(flags byte, seq uint64, payload string) []byte {
	b := make([]byte, headerLen+8+len(payload)+crcLen)
	header{kindData, flags, uint16(len(payload)), seq}.put(b)
	copy(b[headerLen+8:], payload)
	seal(b)
	return b
}

func TestReceiver(t *testing.T) {
	r := newReceiver(nil)
	control := func(k kind, seq uint64) []byte {
		b := make([]byte, headerLen)
		header{kind: k, seq: seq}.put(b)
		return b
	}
	broken := data(flagAck, 3, "three")
	broken[headerLen+9] ^= 1
	tooLong := data(flagAck, 3, "three")
	header{kindData, flagAck, 100, 3}.put(tooLong)
	seal(tooLong)
	for _, c := range []struct {
		why    string
		in     []byte
		answer bool
		want   report
	}{
		{"a start", control(kindStart, 0), true, report{}},
		{"data", data(0, 0, "zero"), false, report{1, 1, 0}},
		{"data after a gap that asks for a report", data(flagAck, 2, "two"), true, report{3, 2, 0}},
		{"late data", data(flagAck, 1, "one"), true, report{3, 3, 0}},
		{"damaged data", broken, false, report{3, 3, 1}},
		{"data with a false length", tooLong, false, report{3, 3, 2}},
		{"a short message", []byte{1, 2, 3}, false, report{3, 3, 2}},
		{"an unknown message", control(99, 9), false, report{3, 3, 2}},
		{"a probe", control(kindProbe, 5), true, report{5, 3, 2}},
		{"another start", control(kindStart, 7), true, report{7, 0, 0}},
	} {
		reply := r.handle(c.in)
		if r.report != c.want {
			t.Errorf("%s: counts are %+v, want %+v", c.why, r.report, c.want)
		}
		if got, ok := parseReport(reply); ok != c.answer || ok && got != c.want {
			t.Errorf("%s: answered %v with %+v", c.why, ok, got)
		}
	}
	if got := string(r.region[:r.used]); got != "zerotwoone" {
		t.Errorf("the region holds %q", got)
	}
}

func TestRunRefuses(t *testing.T) {
	for why, c := range map[string]config{
		"no payload":            {payload: 0, overhead: 16},
		"no room for the CRC":   {payload: 8, overhead: minOverhead - 1},
		"more than a datagram":  {payload: maxRunBytes, overhead: 16},
		"no receiver":           {payload: 8, overhead: 16, bind: "127.0.0.1"},
		"a receiver over IPv6":  {listen: "[::1]:0"},
		"a receiver's bad port": {listen: "127.0.0.1:x"},
	} {
		if err := run(c); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	done := make(chan error)
	go func() { done <- receiveTCP(l) }()
	r, err := sendTCP(l.Addr().String(), 20*time.Millisecond)
	must.Do(t, errors.Join(err, <-done))
	if r.Gbps <= 0 || r.Seconds < 0.02 || !strings.HasPrefix(r.Mode, "tcp ") {
		t.Errorf("measured is %+v", r)
	}
	for why, c := range map[string]config{
		"nobody":      {tcp: true},
		"both sides":  {tcp: true, local: true},
		"a ping-pong": {tcp: true, pingpong: true, peer: "127.0.0.1:1"},
	} {
		if err := run(c); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
}
