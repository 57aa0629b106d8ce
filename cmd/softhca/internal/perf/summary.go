package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// Interval is the progress of about a second.
type Interval struct {
	Elapsed  time.Duration // since the start
	Messages uint64        // of the interval
	Gbps     float64       // payload
	Mpps     float64       // millions of messages a second
}

// tick is the interval at which a measurement checks its context.
const tick = 50 * time.Millisecond

// meter counts messages and measures time.
type meter struct {
	size     int // bytes of payload of a message
	report   func(Interval)
	start    time.Time
	end      time.Time // when to stop
	stopped  time.Time // when the last message completed
	nextTick time.Time
	since    time.Time // start of the interval
	before   uint64    // messages before it
	messages uint64
	progress time.Time     // time of the last completed message
	pause    time.Duration // longest time without a completed message
}

func newMeter(p *Plan, report func(Interval)) *meter {
	m := &meter{size: p.Size, report: report}
	if p.Op == Bind {
		m.size = 0 // no payload
	}
	return m
}

// begin starts the clock.
func (m *meter) begin(d time.Duration) {
	m.start = time.Now()
	m.progress = m.start
	m.since, m.nextTick, m.end = m.start, m.start.Add(tick), m.start.Add(d)
}

// now returns the time. It reads one clock, time.Now two.
func (m *meter) now() time.Time { return m.start.Add(time.Since(m.start)) }

// running reports whether the measurement continues. It reports progress, and returns an
// error when ctx has ended.
func (m *meter) running(ctx context.Context) (bool, error) {
	now := m.now()
	if now.Before(m.nextTick) {
		return now.Before(m.end), nil
	}
	m.nextTick = now.Add(tick)
	if d := now.Sub(m.since); d >= time.Second {
		n := m.messages - m.before
		if m.report != nil {
			m.report(Interval{now.Sub(m.start), n, m.gbps(n, d), rate(n, d)})
		}
		m.since, m.before = now, m.messages
	}
	return now.Before(m.end), ctx.Err()
}

// complete records that messages have just completed.
func (m *meter) complete() {
	now := m.now()
	m.pause = max(m.pause, now.Sub(m.progress))
	m.progress = now
}

// stop ends the measurement: every message is complete.
func (m *meter) stop() { m.stopped = time.Now() }

// rate returns millions a second.
func rate(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds() / 1e6
}

// gbps returns the payload of n messages in 10^9 bits a second.
func (m *meter) gbps(n uint64, d time.Duration) float64 {
	return rate(n, d) * float64(m.size) * 8 / 1e3
}

// Summary is the result of a measurement, in the form of --json.
type Summary struct {
	Op          string  `json:"op"`          // write, write-imm, send, read, cmp-swap, fetch-add, atomic-write, flush or bind
	Type        string  `json:"type"`        // of the queue pairs: rc, uc, ud, rd or xrc
	Size        int     `json:"size"`        // bytes of a message
	QPs         int     `json:"qps"`         // queue pairs
	PostList    int     `json:"post_list"`   // requests that a post carried
	Window      bool    `json:"window"`      // the remote key is that of a memory window on the server's queue pair
	Seconds     float64 `json:"seconds"`     // from the first post to the last completion
	Messages    uint64  `json:"messages"`    // completed
	Least       uint64  `json:"qp_least"`    // messages of the queue pair that had the fewest,
	Most        uint64  `json:"qp_most"`     // and the most
	Bytes       uint64  `json:"bytes"`       // of these messages; 0 for bind
	Gbps        float64 `json:"gbps"`        // of payload
	Mpps        float64 `json:"mpps"`        // messages, in millions a second
	Latency     Latency `json:"lat_us"`      // in microseconds
	Retransmits uint64  `json:"retransmits"` // packets, both sides together
	// Lost counts messages and packets that an unreliable service did not deliver.
	Lost *Loss `json:"lost,omitempty"`
	// Migrated is the path migration of the queue pairs, if they had an
	// alternate path.
	Migrated *Migration `json:"migrated,omitempty"`
	// Interrupted says that the measurement was interrupted: it has only completed
	// messages, and no counters of either side.
	Interrupted bool `json:"interrupted,omitempty"`

	Client *Report `json:"client,omitempty"` // counters of the client
	Server *Report `json:"server,omitempty"` // counters of the server
}

// Loss is the loss of an unreliable service, including the copies of the last
// messages.
type Loss struct {
	Packets     uint64  `json:"packets"`            // packets that did not arrive
	PacketsSent uint64  `json:"packets_sent"`       // packets that were sent
	Messages    *uint64 `json:"messages,omitempty"` // messages that reached no receive; nil for WRITEs, which use no receives
	Sent        uint64  `json:"messages_sent"`      // messages that were sent
	Gbps        float64 `json:"delivered_gbps"`     // Summary.Gbps without the share of lost packets
}

// String returns the loss in a line.
func (l *Loss) String() string {
	line := fmt.Sprintf("%d of %s lost", l.Packets, text.Count(l.PacketsSent, "packet", "packets"))
	if l.Messages != nil {
		line += fmt.Sprintf(", %d of %s", *l.Messages, text.Count(l.Sent, "message", "messages"))
	}
	return line + fmt.Sprintf("; %s arrived", text.Rate(l.Gbps*1e9, "b/s"))
}

// count fills Lost from the counters of both sides.
func (s *Summary) count(p *Plan, end *done) {
	if p.service().reliable || p.Latency || p.Op == Bind || s.Client == nil || s.Server == nil {
		return
	}
	l := &Loss{PacketsSent: s.Client.Sent, Gbps: s.Gbps}
	l.Packets = s.Client.Sent - min(s.Server.Received, s.Client.Sent)
	if l.PacketsSent > 0 {
		l.Gbps *= 1 - float64(l.Packets)/float64(l.PacketsSent)
	}
	for _, n := range end.Messages {
		l.Sent += n
	}
	if p.Op.info().receives {
		l.Messages = new(l.Sent - min(s.Server.Messages, l.Sent))
	}
	s.Lost = l
}

// Latency holds percentiles in microseconds. With Plan.Latency they are of half
// a round trip where messages go back and forth (WRITE, WRITE with immediate,
// SEND), of the time from post to completion where the answer brings data (READ
// and atomics). When bandwidth is measured they are of the time from post to
// completion of the requests that are signalled, which includes the wait behind
// those posted before.
type Latency struct {
	P50  float64 `json:"p50"`  // half of the messages took at most this time
	P90  float64 `json:"p90"`  // nine tenths took at most this time
	P99  float64 `json:"p99"`  // 99 of 100 took at most this time
	P999 float64 `json:"p999"` // 999 of 1000 took at most this time
	Max  float64 `json:"max"`  // the longest time
	Mean float64 `json:"mean"` // the mean time
}

// String returns the summary as text in lines that fit a terminal: the measurement, its
// duration, and unusual events if there were any.
func (s Summary) String() string {
	qps := text.Count(s.QPs, "QP", "QPs")
	if s.Window {
		qps = text.Count(s.QPs, "QP with a memory window", "QPs with memory windows")
	}
	line := fmt.Sprintf("%s: %s of %s on %s in %.2f s: ", s.Op, text.Count(s.Messages, "message", "messages"),
		text.Count(s.Size, "byte", "bytes"), qps, s.Seconds)
	if s.Bytes > 0 {
		line += text.Rate(s.Gbps*1e9, "b/s") + ", "
	}
	line += text.Rate(s.Mpps*1e6, " messages/s")
	if l := s.Latency; l.Max > 0 {
		line += fmt.Sprintf("\n  latency p50 %s, p90 %s, p99 %s, p99.9 %s, max %s",
			text.Period(l.P50), text.Period(l.P90), text.Period(l.P99), text.Period(l.P999), text.Period(l.Max))
	}
	if s.Interrupted {
		return line + "; interrupted"
	}
	told := s.Client != nil && s.Server != nil && (s.Client.eventful() || s.Server.eventful())
	if !told {
		line += fmt.Sprintf("\n  %s sent again", text.Count(s.Retransmits, "packet", "packets"))
	}
	if s.Lost != nil {
		line += "\n  " + s.Lost.String()
	}
	if s.Migrated != nil {
		line += "\n  " + s.Migrated.String()
	}
	if told {
		line += "\n  client: " + s.Client.happenings() + "\n  server: " + s.Server.happenings() +
			s.Client.faultLines("client") + s.Server.faultLines("server")
	}
	return line
}

// Bounds of the histogram.
const (
	maxLatency    = 10 * time.Second // longer ones count as this
	latencyDigits = 3
)

// trips collects latencies.
type trips struct {
	h     *hdrhistogram.Histogram
	parts int64 // the reported latency is the trip divided by this
}

func newTrips(p *Plan) *trips {
	t := &trips{hdrhistogram.New(1, int64(maxLatency), latencyDigits), 1}
	if p.echoed() {
		t.parts = 2
	}
	return t
}

func (t *trips) add(d time.Duration) {
	// The value is within the limits of the histogram, so there is no error.
	_ = t.h.RecordValue(min(max(int64(d), 1), int64(maxLatency)))
}

func (t *trips) latency() Latency {
	us := func(ns int64) float64 { return float64(ns) / float64(t.parts) / 1e3 }
	return Latency{
		P50: us(t.h.ValueAtQuantile(50)), P90: us(t.h.ValueAtQuantile(90)), P99: us(t.h.ValueAtQuantile(99)),
		P999: us(t.h.ValueAtQuantile(99.9)), Max: us(t.h.Max()), Mean: t.h.Mean() / float64(t.parts) / 1e3,
	}
}

// summary returns the result of a client.
func (m *meter) summary(p *Plan, t *trips) Summary {
	d := m.stopped.Sub(m.start)
	return Summary{
		Op: p.Op.String(), Type: p.service().name, Size: p.Size, QPs: p.QPs, PostList: p.PostList, Window: p.Window, Seconds: d.Seconds(), Messages: m.messages,
		Bytes: m.messages * uint64(m.size), Gbps: m.gbps(m.messages, d), Mpps: rate(m.messages, d),
		Latency: t.latency(),
	}
}
