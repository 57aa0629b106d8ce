package connections

import (
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Summary is the result of a measurement, in the form of --json.
type Summary struct {
	Connections int    `json:"connections"` // of the first part, at once
	Failed      int    `json:"failed"`      // of these
	Steps       []Step `json:"steps"`       // of all connections at once, one step after the other
	// ConnectsPerSecond is how many connections were established a second while
	// all were being established.
	ConnectsPerSecond float64 `json:"connects_per_second"`

	Cycles *Cycles `json:"cycles,omitempty"`  // of the second part, with --cycles
	Leaks  *Leaks  `json:"leaks,omitempty"`   // resources left after the cycles
	Raw    *Raw    `json:"raw_udp,omitempty"` // the same exchange with plain UDP messages, with --local
	// ConnectRatio and CycleRatio compare with plain messages: establishing, and
	// whole lives.
	ConnectRatio float64 `json:"connect_ratio,omitempty"`
	CycleRatio   float64 `json:"cycle_ratio,omitempty"` // of cycles a second to exchanges of plain messages
}

// Step is what one step took.
type Step struct {
	Name    string `json:"name"`    // such as "connect"
	Samples int    `json:"samples"` // connections that finished it
	// TotalMs is the time of the step for all connections. In cycles, where
	// connections are in different steps, it is the sum of their times.
	TotalMs float64   `json:"total_ms"`
	MaxMs   float64   `json:"max_ms"`            // of the slowest connection
	MinUs   float64   `json:"min_us"`            // of the fastest connection
	ConnUs  float64   `json:"us_per_connection"` // the total over the connections
	Times   Quantiles `json:"us"`                // of a connection, in microseconds
}

// Cycles are whole lives: create, resolve, connect, one message, disconnect,
// destroy.
type Cycles struct {
	Count     int     `json:"count"`      // lives that ended well
	Window    int     `json:"window"`     // connections at a time
	Seconds   float64 `json:"seconds"`    // for all
	PerSecond float64 `json:"per_second"` // connections
	Steps     []Step  `json:"steps"`      // each of a life
}

// steps returns the results of the steps that ran.
func (t *timings) steps(connections int) []Step {
	var all []Step
	for i := range t {
		s := &t[i]
		if s.n == 0 && s.wall == 0 {
			continue
		}
		all = append(all, Step{
			Name: step(i).String(), Samples: s.n, TotalMs: milliseconds(s.total()), MaxMs: milliseconds(s.max),
			MinUs: microseconds(s.min), ConnUs: microseconds(s.total()) / float64(connections), Times: s.quantiles(),
		})
	}
	return all
}

func (c *client) summary() Summary {
	s := Summary{Connections: len(c.conns), Failed: c.failed, Steps: c.times.steps(len(c.conns))}
	if t := &c.times[connect]; t.wall > 0 {
		s.ConnectsPerSecond = float64(t.n) / t.wall.Seconds()
	}
	return s
}

// compare adds the measurement of plain messages.
func (s *Summary) compare(raw Raw) {
	s.Raw = &raw
	s.ConnectRatio = s.ConnectsPerSecond / raw.PerSecond
	if s.Cycles != nil {
		s.CycleRatio = s.Cycles.PerSecond / raw.PerSecond
	}
}

// String returns the summary for people: a line for each measurement, and one for each step.
func (s Summary) String() string {
	var b strings.Builder
	established, ms := 0, 0.0
	for i := range s.Steps {
		if t := &s.Steps[i]; t.Name == connect.String() {
			established, ms = t.Samples, t.TotalMs
		}
	}
	fmt.Fprintf(&b, "connections: %d established in %.2f ms, %.0f a second\n", established, ms, s.ConnectsPerSecond)
	table(&b, s.Steps)
	if c := s.Cycles; c != nil {
		fmt.Fprintf(&b, "cycles: %d, %d at a time, in %.2f s: %.0f connections a second\n", c.Count, c.Window, c.Seconds, c.PerSecond)
		table(&b, c.Steps)
	}
	if s.Leaks != nil {
		fmt.Fprintf(&b, "%v\n", s.Leaks)
	}
	if r := s.Raw; r != nil {
		fmt.Fprintf(&b, "plain UDP: %d exchanges of 3 messages, %d at a time, in %.2f s: %.0f a second\n", r.Exchanges, r.Window, r.Seconds, r.PerSecond)
		fmt.Fprintf(&b, "ratio: establishing %.2f of it", s.ConnectRatio)
		if s.Cycles != nil {
			fmt.Fprintf(&b, ", whole cycles %.2f", s.CycleRatio)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// table writes a line for each step.
func table(b *strings.Builder, steps []Step) {
	for i := range steps {
		fmt.Fprintf(b, "  %-13s %v\n", steps[i].Name, steps[i].Times)
	}
}

// Bounds of the histograms.
const (
	longest = 2 * time.Minute // longer times count as this
	digits  = 3
)

// timing collects the times of one step.
type timing struct {
	wall time.Duration // duration of the step for all connections; 0 in cycles
	sum  time.Duration // sum of the connections' times
	n    int
	max  time.Duration
	min  time.Duration
	h    *hdrhistogram.Histogram // nil until there is a time
}

// add counts one connection's time.
func (t *timing) add(d time.Duration) {
	if t.h == nil {
		t.h = hdrhistogram.New(1, int64(longest), digits)
		t.min = d
	}
	t.n++
	t.sum += d
	t.max, t.min = max(t.max, d), min(t.min, d)
	// The value is within the limits of the histogram, so there is no error.
	_ = t.h.RecordValue(min(max(int64(d), 1), int64(longest)))
}

// total returns the duration of the step for all connections.
func (t *timing) total() time.Duration {
	if t.wall > 0 {
		return t.wall
	}
	return t.sum
}

// timings are the times of all steps.
type timings [numSteps]timing

// Quantiles are times in microseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`  // median
	P90  float64 `json:"p90"`  // nine tenths
	P99  float64 `json:"p99"`  // 99 of a hundred
	P999 float64 `json:"p999"` // 999 of a thousand
	Max  float64 `json:"max"`  // all of them
}

// String returns the times for people.
func (q Quantiles) String() string {
	return fmt.Sprintf("p50 %.0f µs, p90 %.0f, p99 %.0f, p99.9 %.0f, max %.0f", q.P50, q.P90, q.P99, q.P999, q.Max)
}

func (t *timing) quantiles() Quantiles {
	if t.h == nil {
		return Quantiles{}
	}
	// The histogram rounds up, past the longest time.
	us := func(q float64) float64 { return microseconds(min(time.Duration(t.h.ValueAtQuantile(q)), t.max)) }
	return Quantiles{us(50), us(90), us(99), us(99.9), microseconds(t.max)}
}

func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
