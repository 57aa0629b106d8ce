//go:build linux

package main

import (
	"errors"
	"net/netip"
	"time"
)

// Bounds on waiting for the receiver.
const (
	regionLen   = 1 << 20
	reportWait  = 5 * time.Millisecond
	maxSilences = 400
)

var errSilent = errors.New("the receiver does not answer")

// throughput is the result of a measurement.
type throughput struct {
	Mode    string  `json:"mode"`
	Payload int     `json:"payload"` // bytes
	Segment int     `json:"segment"` // bytes
	Window  int     `json:"window"`  // bytes
	Seconds float64 `json:"seconds"`
	Packets uint64  `json:"packets"` // received intact
	Lost    uint64  `json:"lost"`
	Damaged uint64  `json:"damaged"`
	Gbps    float64 `json:"gbps"` // of payload
	Mpps    float64 `json:"mpps"`
}

// sender sends numbered segments within a window.
type sender struct {
	sock     *socket
	region   []byte // the data, sent cyclically
	batch    []byte // one run of segments
	payload  int
	segment  int
	perRun   int
	window   uint64 // segments
	sent     uint64 // sequence number of the next segment
	settled  uint64 // all before are known to have arrived or to be lost
	asked    uint64 // sequence number after the last request for a report
	silences int
	last     report
}

// newSender returns a sender to peer with the sizes of c.
func newSender(sock *socket, peer netip.AddrPort, c config) *sender {
	sock.direct(peer)
	segment := c.payload + c.overhead
	run := min(maxSegments, maxRunBytes/segment)
	s := &sender{
		sock:    sock,
		region:  make([]byte, regionLen+c.payload),
		batch:   make([]byte, run*segment),
		payload: c.payload,
		segment: segment,
		perRun:  run,
		window:  uint64(max(c.window/segment, 2*run)),
	}
	for i := range s.region {
		s.region[i] = byte(i * 7)
	}
	return s
}

// run sends for the given time and waits until every segment is known to have
// arrived or to be lost.
func (s *sender) run(d time.Duration) (*throughput, error) {
	if err := s.ask(kindStart); err != nil {
		return nil, err
	}
	begin := time.Now()
	for time.Since(begin) < d {
		if s.sent-s.settled+uint64(s.perRun) > s.window {
			if err := s.wait(); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.sendRun(); err != nil {
			return nil, err
		}
	}
	if err := s.ask(kindProbe); err != nil {
		return nil, err
	}
	seconds := time.Since(begin).Seconds()
	r := s.last
	return &throughput{
		Mode: "throughput", Payload: s.payload, Segment: s.segment, Window: int(s.window) * s.segment,
		Seconds: seconds, Packets: r.packets, Damaged: r.damaged, Lost: s.sent - r.packets - r.damaged,
		Gbps: float64(r.packets) * float64(s.payload) * 8 / seconds / 1e9,
		Mpps: float64(r.packets) / seconds / 1e6,
	}, nil
}

// sendRun fills the batch with the next segments and sends it.
func (s *sender) sendRun() error {
	for i := range s.perRun {
		seg := s.batch[i*s.segment : (i+1)*s.segment]
		flags := byte(0)
		if i == s.perRun-1 && s.sent+1-s.asked >= s.window/4 {
			flags = flagAck
			s.asked = s.sent + 1
		}
		header{kindData, flags, uint16(s.payload), s.sent}.put(seg)
		from := int(s.sent*uint64(s.payload)) & (regionLen - 1)
		copy(seg[len(seg)-crcLen-s.payload:], s.region[from:from+s.payload])
		seal(seg)
		s.sent++
	}
	return s.sock.send(s.batch, s.segment)
}

// wait takes a report, or probes for one if none comes.
func (s *sender) wait() error {
	b, _, err := s.sock.await(reportWait)
	if err != nil {
		return err
	}
	if r, ok := parseReport(b); ok && r.next <= s.sent {
		s.settled, s.last = max(s.settled, r.next), r
		s.silences = 0
	}
	if b != nil {
		return nil
	}
	if s.silences++; s.silences > maxSilences {
		return errSilent
	}
	return s.control(kindProbe)
}

// ask sends a message until the receiver's report accounts for every segment.
func (s *sender) ask(k kind) error {
	for range maxSilences {
		if err := s.control(k); err != nil {
			return err
		}
		for {
			b, _, err := s.sock.await(reportWait)
			if err != nil {
				return err
			}
			if b == nil {
				break
			}
			if r, ok := parseReport(b); ok && r.next == s.sent {
				s.settled, s.last = r.next, r
				return nil
			}
		}
	}
	return errSilent
}

func (s *sender) control(k kind) error {
	var b [headerLen]byte
	header{kind: k, seq: s.sent}.put(b[:])
	return s.sock.send(b[:], len(b))
}
