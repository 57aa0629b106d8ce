package judge

// Verdict is the outcome of a script.
type Verdict string

// The verdicts.
const (
	Agrees    Verdict = "agrees"
	Differs   Verdict = "differs"
	NotJudged Verdict = "not judged"
)

// Kind is the subject of an expectation.
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
	Line   int      `json:"line"`              // of the script
	Step   string   `json:"step"`              // its commands
	QP     string   `json:"qp"`                // the queue pair, by its name in the script
	Kind   Kind     `json:"kind"`              // packet, completion, event, state or memory
	Want   string   `json:"want"`              // expectation of the script
	Got    string   `json:"got"`               // reaction of the adapter
	Ladder []string `json:"ladder,omitempty"`  // > to the adapter, < from it, the newest last
	Sent   []string `json:"sent,omitempty"`    // packets of this step, hex, from the BTH on
	Hex    []string `json:"got_hex,omitempty"` // packets that came, from the BTH on
}

// same reports whether two differences are of the same expectation and have the
// same result.
func (d *Difference) same(o *Difference) bool {
	return d.Line == o.Line && d.QP == o.QP && d.Kind == o.Kind && d.Want == o.Want && d.Got == o.Got
}

// Result is the outcome of one script.
type Result struct {
	Script       string       `json:"script"`                // its name
	Title        string       `json:"title"`                 // its first line
	Covers       []string     `json:"covers"`                // requirements that it covers
	Verdict      Verdict      `json:"verdict"`               // agrees, differs or not judged
	Reason       string       `json:"reason,omitempty"`      // why it is not judged
	Requester    bool         `json:"requester"`             // roles in which it was judged
	Responder    bool         `json:"responder"`             // likewise
	Runs         int          `json:"runs"`                  // number of runs
	Same         int          `json:"same"`                  // met expectations
	NotSeen      int          `json:"not_observable"`        // output lines of the script that are not visible from outside
	Differences  []Difference `json:"differences,omitempty"` // unmet expectations
	Unstable     []Difference `json:"unstable,omitempty"`    // differences in some runs only
	LeftOut      []Left       `json:"left_out,omitempty"`    // parts that cannot be judged
	Damaged      int          `json:"damaged,omitempty"`     // packets of the adapter with a wrong ICRC, which are not judged
	Milliseconds int64        `json:"ms"`                    // duration
}
