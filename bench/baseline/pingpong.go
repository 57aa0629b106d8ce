//go:build linux

package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the ping-pong. The first round trips do not count: warmUp of them,
// or those of the first quarter of the time on a busy machine.
const (
	warmUp     = 1000
	maxSamples = 4 << 20
	pingWait   = time.Second // a busy machine may keep the other side waiting
)

// latency is the result of a ping-pong: whole round trips in microseconds.
type latency struct {
	Mode    string  `json:"mode"`
	Segment int     `json:"segment"` // bytes
	Samples int     `json:"samples"`
	Mean    float64 `json:"mean_us"`
	P50     float64 `json:"p50_us"`
	P90     float64 `json:"p90_us"`
	P99     float64 `json:"p99_us"`
	P999    float64 `json:"p999_us"`
	Max     float64 `json:"max_us"`
}

// pingpong sends a segment, spins or sleeps until it is back, and repeats that until most round
// trips were measured or the time is over. A lost segment ends it with an error, because it has
// only one segment in flight.
func pingpong(sock *socket, peer netip.AddrPort, segment, most int, d time.Duration) (*latency, error) {
	sock.direct(peer)
	b := make([]byte, segment)
	trips := make([]time.Duration, 0, 1<<16)
	begin := time.Now()
	for seq := uint64(0); time.Since(begin) < d && len(trips) < most; seq++ {
		header{kind: kindPing, seq: seq}.put(b)
		start := time.Now()
		if err := sock.sendTo(b); err != nil {
			return nil, err
		}
		if err := awaitEcho(sock, seq, start); err != nil {
			return nil, err
		}
		if seq >= warmUp || start.Sub(begin) > d/4 {
			trips = append(trips, time.Since(start))
		}
	}
	if len(trips) == 0 {
		return nil, fmt.Errorf("no round trip in the last three quarters of %v", d)
	}
	slices.Sort(trips)
	sum := time.Duration(0)
	for _, trip := range trips {
		sum += trip
	}
	at := func(q float64) float64 {
		return float64(trips[int(q*float64(len(trips)-1))]) / float64(time.Microsecond)
	}
	return &latency{
		Mode: "pingpong", Segment: segment, Samples: len(trips),
		Mean: float64(sum) / float64(len(trips)) / float64(time.Microsecond),
		P50:  at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), Max: at(1),
	}, nil
}

// awaitEcho receives until the ping with the number seq is back.
func awaitEcho(sock *socket, seq uint64, start time.Time) error {
	for {
		b, err := sock.receiveFrom()
		if err != nil {
			return err
		}
		if h, ok := parseHeader(b); ok && h.kind == kindPing && h.seq == seq {
			return nil
		}
		if b == nil && time.Since(start) > pingWait {
			return fmt.Errorf("ping %d is not back after %v", seq, pingWait)
		}
	}
}

// idleSpins is how often an echo polls before it sleeps until the next ping.
const idleSpins = 1 << 16

// echo sends back what arrives, spinning or sleeping like pingpong, until the socket fails or is
// shut.
func echo(sock *socket) error {
	for idle := 0; ; idle++ {
		b, err := sock.receiveFrom()
		if err == nil && b != nil {
			idle = 0
			sock.answer()
			err = sock.sendTo(b)
		}
		if err == nil && idle >= idleSpins {
			err = sock.poll(unix.POLLIN, pingWait)
		}
		if err != nil {
			return err
		}
	}
}
