package perf

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/softhca/softhca/ib"
)

// TestSummaryJSON checks the form of --json, which other programs read.
func TestSummaryJSON(t *testing.T) {
	p := Plan{Op: Write, Type: ib.RC, Size: 1000, QPs: 2, PostList: 4}
	m := newMeter(&p, nil)
	m.begin(time.Minute)
	m.messages, m.stopped = 4000, m.start.Add(2*time.Second)
	trips := newTrips(&p)
	trips.add(2 * time.Microsecond)
	s := m.summary(&p, trips)
	s.Retransmits = 3
	const bandwidth = `{"op":"write","type":"rc","size":1000,"qps":2,"post_list":4,"window":false,"seconds":2,"messages":4000,"qp_least":0,"qp_most":0,"bytes":4000000,` +
		`"gbps":0.016,"mpps":0.002,"lat_us":{"p50":2,"p90":2,"p99":2,"p999":2,"max":2,"mean":2},"retransmits":3}`
	if b, err := json.Marshal(s); err != nil || string(b) != bandwidth {
		t.Errorf("bandwidth is\n%s (%v), want\n%s", b, err, bandwidth)
	}
	p.Latency = true
	trips = newTrips(&p)
	for range 4000 {
		trips.add(2 * time.Microsecond)
	}
	trips.add(time.Hour) // is taken as the longest there is
	s = m.summary(&p, trips)
	if l := s.Latency; l.P50 != 1 || l.P999 != 1 || l.Max < 4.9e6 || l.Max > 5.1e6 {
		t.Errorf("half of round trips of 2 µs and one of an hour is %+v", l)
	}
	if l := newTrips(&Plan{Op: Read, Latency: true}); l.parts != 1 {
		t.Errorf("a READ's latency is divided by %d", l.parts)
	}
	b, err := json.Marshal(s)
	for _, part := range []string{`"lat_us":{"p50":1,"p90":1,"p99":1,"p999":1,"max":`, `"retransmits":0}`} {
		if err != nil || !strings.Contains(string(b), part) {
			t.Errorf("the summary has no %s: %s (%v)", part, b, err)
		}
	}
}

// TestSummaryFits checks that the lines of a long measurement fit a terminal.
func TestSummaryFits(t *testing.T) {
	s := Summary{
		Op: "write", Type: "rc", Size: 1048576, QPs: 16, Seconds: 600, Messages: 13107200, Gbps: 122.88, Mpps: 0.0437, Retransmits: 1234567,
		Latency: Latency{P50: 2571.1, P90: 13391.1, P99: 105723.2, P999: 210042.8, Max: 311652.6},
	}
	lines := strings.Split(s.String(), "\n")
	if len(lines) != 3 || lines[2] != "  1234567 packets sent again" || !strings.HasPrefix(lines[1], "  latency p50 2.57 ms, p90 13.39 ms, ") {
		t.Errorf("it has other lines: %q", lines)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
