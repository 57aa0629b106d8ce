package explain

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/clocks"
	"github.com/softhca/softhca/internal/printable"
)

// Capture is one of several captures.
type Capture struct {
	Name string                    // for errors and the report
	Open func() (io.Reader, error) // returns the capture from its beginning, more than once, but not again before the last one was read
}

// reader opens the capture.
func (c *Capture) reader() (*pcapfile.Reader, error) {
	in, err := c.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	r, err := pcapfile.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return r, nil
}

// ReadAll follows the packets of several captures, in the order of time: those of both ends of a connection,
// or of several adapters. It reads each capture twice: packets that are in two of them show how their clocks
// differ, and it corrects the times. Records are numbered in the order of time. If captures are damaged, it
// returns their errors, and the report of the packets before the damage. It blocks as they do.
func ReadAll(captures []Capture, c Config) (*Report, error) {
	samples := make([]*clocks.Samples, len(captures))
	for i := range captures {
		r, err := captures[i].reader()
		if err != nil {
			return nil, err
		}
		samples[i] = clocks.Collect(r)
	}
	all := clocks.Compare(samples)
	j := pcapfile.NewJoin()
	for i := range captures {
		r, err := captures[i].reader()
		if err != nil {
			return nil, err
		}
		whole := pcapfile.NewWhole(captures[i].Name, r)
		whole.Correct(all[i].Correct)
		j.Add(whole)
	}
	f := New(c)
	f.report.compared(captures, all)
	var damage error
	for {
		i, err := j.Next(false)
		switch {
		case errors.Is(err, io.EOF):
			f.report.Records = j.Records()
			return f.Report(), damage
		case err != nil:
			damage = errors.Join(damage, err)
		default:
			f.Take(&i)
		}
	}
}

// Clock says how the clock of a capture differs from that of the reference, whose times the report uses for
// the packets of both.
type Clock struct {
	File      string        `json:"file"`      // the capture
	Reference string        `json:"reference"` // the capture with the clock that the report uses; file itself if no packet is in both
	Method    string        `json:"method"`    // both_directions, one_direction, same (the clocks agree within error_ns), or none
	Offset    time.Duration `json:"offset_ns"` // time of file minus time of reference, at the first packet in both; 0 for same and none
	Drift     time.Duration `json:"drift_ns"`  // how much the clock of file gains in each second; 0 if the error hides it
	Error     time.Duration `json:"error_ns"`  // at most the error of offset_ns, half of a round trip; 0 for one_direction, which does not show it
	Packets   int           `json:"packets"`   // that are in two captures, and were compared
}

// methods are the names in the report.
var methods = [...]string{clocks.None: "none", clocks.OneDirection: "one_direction", clocks.Same: "same", clocks.Both: "both_directions"}

// compared adds the clocks of captures, unless all agree.
func (r *Report) compared(captures []Capture, all []clocks.Clock) {
	agree := true
	for i := 1; i < len(all); i++ {
		c := &all[i]
		agree = agree && c.Method == clocks.Same && c.Reference == 0
		clock := Clock{
			File: printable.Line(captures[i].Name, printable.Limit), Reference: printable.Line(captures[c.Reference].Name, printable.Limit),
			Method: methods[c.Method], Offset: c.Offset, Error: c.Error, Packets: c.Packets,
		}
		if change := c.Last - c.Offset; c.Span > 0 && change.Abs() > 2*c.Error {
			clock.Drift = time.Duration(math.Round(float64(change) / c.Span.Seconds()))
		}
		r.Clocks = append(r.Clocks, clock)
	}
	if agree {
		r.Clocks = nil
	}
}

// String says how the clock differs, in a sentence. It is empty if it was not corrected.
func (c *Clock) String() string {
	if c.Method != methods[clocks.Both] && c.Method != methods[clocks.OneDirection] {
		return ""
	}
	order := "ahead of"
	if c.Offset < 0 {
		order = "behind"
	}
	s := fmt.Sprintf("the clock of %s is %v %s that of %s", c.File, rounded(c.Offset.Abs(), c.Error), order, c.Reference)
	if c.Method == methods[clocks.OneDirection] {
		s += ", if the fastest of " + count(c.Packets, "packet") + " in both took no time"
	} else {
		s += fmt.Sprintf(", to within %v (%s in both)", rounded(c.Error, c.Error/10), count(c.Packets, "packet"))
	}
	switch drift := c.Drift.Abs().Round(100 * time.Nanosecond); {
	case drift == 0:
	case c.Drift > 0:
		s += fmt.Sprintf(", and gains %v a second", drift)
	default:
		s += fmt.Sprintf(", and loses %v a second", drift)
	}
	return s + "; the times here are those of " + c.Reference
}

// rounded rounds to the decimal digit of an error.
func rounded(d, err time.Duration) time.Duration {
	digit := time.Duration(1)
	for digit <= err/10 {
		digit *= 10
	}
	return d.Round(digit)
}

// caveat says what the captures do not show about the clock. It is empty if they show all.
func (c *Clock) caveat() string {
	switch c.Method {
	case methods[clocks.OneDirection]:
		return "the delay from one capture to the other: packets in both " + c.File + " and " + c.Reference + " went in one direction only, so their clocks were joined as if the fastest took no time"
	case methods[clocks.None]:
		return "how the clock of " + c.File + " differs from those of the others: no packet is in both, so its times are not corrected, and its packets may be in the wrong place here"
	default:
		return ""
	}
}
