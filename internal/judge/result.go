package judge

// Verdict is what came of a script.
type Verdict string

// The verdicts.
const (
	Agrees    Verdict = "agrees"
	Differs   Verdict = "differs"
	NotJudged Verdict = "not judged"
)

// Kind is what an expectation is about.
type Kind string

// The kinds of expectations.
const (
	KindPacket     Kind = "packet"
	KindCompletion Kind = "completion"
	KindEvent      Kind = "event"
	KindState      Kind = "state"
	KindMemory     Kind = "memory"
)

// Difference is an expectation that the adapter does not meet.
type Difference struct {
	Line   int      `json:"line"`
	Step   string   `json:"step"` // its commands
	QP     string   `json:"qp"`
	Kind   Kind     `json:"kind"`
	Want   string   `json:"want"`
	Got    string   `json:"got"`
	Ladder []string `json:"ladder,omitempty"` // > to the adapter, < from it, the newest last
	Sent   []string `json:"sent,omitempty"`   // packets of this step, hex, from the BTH on
	Hex    []string `json:"got_hex,omitempty"`
}

// same reports whether two differences are of the same expectation and look the
// same.
func (d *Difference) same(o *Difference) bool {
	return d.Line == o.Line && d.QP == o.QP && d.Kind == o.Kind && d.Want == o.Want && d.Got == o.Got
}

// Result is what came of one script.
type Result struct {
	Script       string       `json:"script"`
	Title        string       `json:"title"`
	Covers       []string     `json:"covers"`
	Verdict      Verdict      `json:"verdict"`
	Reason       string       `json:"reason,omitempty"` // why it is not judged
	Requester    bool         `json:"requester"`        // roles in which it was judged
	Responder    bool         `json:"responder"`
	Runs         int          `json:"runs"`
	Same         int          `json:"same"`           // expectations that were met
	NotSeen      int          `json:"not_observable"` // lines of the script's output that nobody can see from outside
	Differences  []Difference `json:"differences,omitempty"`
	Unstable     []Difference `json:"unstable,omitempty"` // seen in some runs only
	LeftOut      []Left       `json:"left_out,omitempty"`
	Damaged      int          `json:"damaged,omitempty"` // packets of the adapter with a wrong ICRC, which nobody looked at
	Milliseconds int64        `json:"ms"`
}
