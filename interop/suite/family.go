//go:build linux

package suite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
)

// Verdict is how a case ended.
type Verdict string

// The verdicts.
const (
	Pass     Verdict = "pass"
	Fail     Verdict = "FAIL"
	Expected Verdict = "expected" // it differs for a known reason, which the note gives
)

// Outcome is a verdict and its explanation.
type Outcome struct {
	Verdict  Verdict
	Note     string
	Measured string // figures, which differ from run to run
	// Spoiled says that an unrelated mistake of the peer hides the case's
	// subject: the case is tried up to three times.
	Spoiled bool
}

// Passed returns the outcome of a case that passed.
func Passed(note string) Outcome { return Outcome{Verdict: Pass, Note: note} }

// Failed returns the outcome of a case that failed.
func Failed(format string, args ...any) Outcome {
	return Outcome{Verdict: Fail, Note: fmt.Sprintf(format, args...)}
}

// With returns the outcome with figures.
func (o Outcome) With(format string, args ...any) Outcome {
	o.Measured = fmt.Sprintf(format, args...)
	return o
}

// Differs returns the outcome of a case that differs for a known reason.
func Differs(format string, args ...any) Outcome {
	return Outcome{Verdict: Expected, Note: fmt.Sprintf(format, args...)}
}

// Loose says which checks of its traffic a family skips.
type Loose uint8

const (
	// Gone: the peer's queue pairs end while our packets are under way, which
	// its kernel then drops uncounted.
	Gone Loose = 1 << iota
	// Damaging: our side damages packets on purpose; all checks apply to the
	// others.
	Damaging
	// Hostile: our side sends wrong frames on purpose.
	Hostile
	// Within: in some cells both programs are on one side, and no packet of theirs
	// is on the wire.
	Within
)

// Family is a kind of case, over a matrix of its own.
type Family struct {
	Name   string // first part of the names of its cases
	About  string // one line for the report
	Dims   []matrix.Dim
	Skip   func(matrix.Cell) bool // cells that make no sense; nil: none
	Short  func(matrix.Cell) bool // cells of a short run; nil: none
	Always bool                   // every cell is run, not pairs only
	Cost   time.Duration          // of one case, roughly
	Limit  time.Duration          // against cases that hang; 0: two minutes
	Tries  int                    // more than 1 only where the peer sometimes spoils a case
	Loose  Loose
	Faulty bool // data meets faults at our port
	// Refusal returns our counter for the packet that we must refuse in the case;
	// nil: we refuse none.
	Refusal func(matrix.Cell) string
	// Unverified are cells with faults whose programs do not compare all data;
	// nil: all do.
	Unverified func(matrix.Cell) bool
	// Run runs one case. ctx ends with its limit.
	Run func(ctx context.Context, l *lab.Lab, c matrix.Cell) Outcome
}

// DimNames returns the names of the dimensions.
func (f *Family) DimNames() (names []string) {
	for _, d := range f.Dims {
		names = append(names, d.Name)
	}
	return names
}

// Counting says in sentences which cases cannot account for all packets, "" if
// all can.
func (f *Family) Counting() string {
	var all []string
	if f.Loose&Hostile != 0 {
		return "Our side sends wrong packets on purpose: what either side counts is not compared."
	}
	if f.Loose&Within != 0 {
		return "In some cells both programs are on one side, and nothing is on the wire: what either side counts is not compared."
	}
	if f.Loose&Gone != 0 {
		all = append(all, "Packets for queue pairs that have just ended are counted as accepted by neither side.")
	}
	if f.Faulty {
		all = append(all, "What arrives meets faults at our port: our adapter may count as many packets more or fewer as they acted on.")
	}
	return strings.Join(all, " ")
}

// Case is one cell of a family.
type Case struct {
	*Family
	Cell matrix.Cell
}

// verified reports whether all data of the case meets faults and is compared.
func (c Case) verified() bool { return c.Faulty && (c.Unverified == nil || !c.Unverified(c.Cell)) }

// refusal returns the counter that the case makes our adapter count.
func (c Case) refusal() string {
	if c.Refusal == nil {
		return ""
	}
	return c.Refusal(c.Cell)
}

// ID returns the name of the case: that of the family and the cell's values.
func (c Case) ID() string {
	if v := c.Cell.String(); v != "" {
		return c.Name + "/" + v
	}
	return c.Name
}
