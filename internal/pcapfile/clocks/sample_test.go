package clocks

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// TestSamplesAreBounded has captures with more packets than are compared: both choose the same ones, at all
// times. Packets of a hostile capture take no more memory.
func TestSamplesAreBounded(t *testing.T) {
	a, b := &Samples{limit: math.MaxUint64}, &Samples{limit: math.MaxUint64}
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for psn := range uint32(3 * maxSamples) {
		p := packet(src, dst, psn)
		p.Time = epoch.Add(time.Duration(psn) * time.Microsecond)
		a.take(p)
		p.Time = p.Time.Add(time.Second)
		b.take(p)
		if psn == maxSamples/4 {
			b.take(p) // so the two are not thinned at the same packet
		}
	}
	a.group()
	b.group()
	list := matches(a, b)
	if len(a.list) > maxSamples || len(list) < maxSamples/2 || len(list) < len(a.list)-1 {
		t.Errorf("%d and %d samples, %d matches", len(a.list), len(b.list), len(list))
	}
	parts := [8]int{}
	for _, m := range list {
		parts[(m.at-list[0].at)*8/(list[len(list)-1].at-list[0].at+1)]++
	}
	for i, n := range parts {
		if n < len(list)/10 {
			t.Errorf("part %d of 8 of the capture has %d of %d samples", i, n, len(list))
		}
	}
	for name, sum := range map[string]func(i int) uint64{"equal": func(int) uint64 { return 7 }, "small": func(i int) uint64 { return uint64(i % (2 * maxSamples)) }} {
		s := &Samples{limit: math.MaxUint64}
		for i := range 5 * maxSamples {
			s.add(sample{sum: sum(i)})
			if len(s.list) > maxSamples {
				t.Fatalf("%s sums: %d samples", name, len(s.list))
			}
		}
	}
}

// TestRepeatsAreBounded has so many equal packets that they are not compared, even if both captures have the same
// number of them.
func TestRepeatsAreBounded(t *testing.T) {
	for _, c := range []struct{ first, second, want int }{
		{1, 1, 1}, {maxRepeats, maxRepeats, maxRepeats}, {maxRepeats + 1, maxRepeats + 1, 0}, {2, 1, 0}, {1, 2, 0}, {maxRepeats + 5, maxRepeats + 1, 0},
	} {
		a, b := &Samples{limit: math.MaxUint64}, &Samples{limit: math.MaxUint64}
		for i := range c.first {
			a.add(sample{sum: 5, at: int64(i)})
		}
		for i := range c.second {
			b.add(sample{sum: 5, at: int64(i)})
		}
		a.group()
		b.group()
		if got := len(matches(a, b)); got != c.want {
			t.Errorf("%d and %d equal packets: %d matches, want %d", c.first, c.second, got, c.want)
		}
		if len(a.list) > maxRepeats+1 {
			t.Errorf("of %d equal packets %d are kept", c.first, len(a.list))
		}
	}
}

// TestCutPackets has packets that one capture cuts off, and fields that the network changes: they are the same.
func TestCutPackets(t *testing.T) {
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	whole := packet(src, dst, 5)
	whole.Payload = append(whole.Payload, make([]byte, 200)...)
	cut := *whole
	cut.Payload, cut.Truncated = whole.Payload[:hashed+2], true
	hop := *whole
	hop.IP = bytes.Clone(whole.IP)
	hop.IP[8]--    // TTL
	hop.IP[1] |= 3 // ECN
	short := cut
	short.Payload = whole.Payload[:hashed-1]
	s := &Samples{limit: math.MaxUint64}
	for _, p := range []*pcapfile.Packet{whole, &cut, &hop, &short, packet(dst, src, 5)} {
		s.take(p)
	}
	if len(s.list) != 4 || s.list[0].sum != s.list[1].sum || s.list[0].sum != s.list[2].sum || s.list[0].sum == s.list[3].sum {
		t.Errorf("the samples are %+v", s.list)
	}
	if s.list[0].pair != s.list[3].pair || s.list[0].forth == s.list[3].forth {
		t.Errorf("the directions are not opposite: %+v", s.list)
	}
}

// TestRunsAreSplit has a capture with one record for several packets, which the other captures one by one.
func TestRunsAreSplit(t *testing.T) {
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	single, run := &Samples{limit: math.MaxUint64}, &Samples{limit: math.MaxUint64}
	whole := packet(src, dst, 1)
	single.take(whole)
	for psn := range uint32(3) {
		p := packet(src, dst, psn+2)
		single.take(p)
		whole.Payload = append(bytes.Clone(whole.Payload), p.Payload...)
	}
	n := ipudp.UDPLen + len(whole.Payload)
	whole.IP, whole.UDP = bytes.Clone(whole.IP), bytes.Clone(whole.UDP)
	binary.BigEndian.PutUint16(whole.IP[2:], uint16(len(whole.IP)+n))
	binary.BigEndian.PutUint16(whole.UDP[4:], uint16(n))
	run.take(whole)
	single.group()
	run.group()
	if got := len(matches(single, run)); got != 4 || len(whole.Payload) < 4*roce.MinSize {
		t.Errorf("%d of 4 packets are in both", got)
	}
}
