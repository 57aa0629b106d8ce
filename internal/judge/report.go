package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/internal/testagent"
)

// Schema names the format of a report.
const Schema = "softhca-judge/1"

// Report is the outcome of several scripts, in JSON, also for reports that
// users send us.
type Report struct {
	Schema  string    `json:"schema"`  // softhca-judge/1
	Date    time.Time `json:"date"`    // time of the run
	Adapter Adapter   `json:"adapter"` // the judged adapter
	Setting Setting   `json:"setting"` // configuration of the run
	Summary Summary   `json:"summary"` // counts of scripts and expectations
	Results []*Result `json:"results"` // result of each script
}

// Adapter describes the judged adapter, without its address.
type Adapter struct {
	Device    string            `json:"device"`     // name of the RDMA device
	Kernel    string            `json:"kernel"`     // kernel of its host
	Firmware  string            `json:"firmware"`   // from the device
	ActiveMTU int               `json:"active_mtu"` // active MTU of its port
	Numbers   map[string]uint64 `json:"attributes"` // from ibv_query_device
}

// Setting is the configuration of the run.
type Setting struct {
	Version   string `json:"version,omitempty"` // of this program
	IP        int    `json:"ip"`                // 4 or 6
	Transport string `json:"transport"`         // of our own adapter: udp, raw or pipe
	QuietMS   int64  `json:"quiet_ms"`          // silence that ends a step
	WaitMS    int64  `json:"wait_ms"`           // the longest wait for an expected packet or event
	Timeout   uint8  `json:"timeout_code"`      // of the local ACK timeout
	Runs      int    `json:"runs"`              // of each script
	Hostile   bool   `json:"hostile"`           // packets that end within their headers were sent
}

// Summary counts scripts and expectations.
type Summary struct {
	Agree     int `json:"agree"`                // scripts that the adapter agrees with
	Differ    int `json:"differ"`               // scripts that it differs from
	NotJudged int `json:"not_judged"`           // scripts that say nothing about it
	Requester int `json:"requester_judged"`     // scripts that judge it as requester
	Responder int `json:"responder_judged"`     // scripts that judge it as responder
	Same      int `json:"expectations_met"`     // in all scripts
	Different int `json:"expectations_not_met"` // in all scripts
	Unseen    int `json:"not_observable"`       // in all scripts: output lines that are not visible from outside
}

// Add adds a result to the counts.
func (s *Summary) Add(r *Result) {
	switch r.Verdict {
	case Agrees:
		s.Agree++
	case Differs:
		s.Differ++
	default:
		s.NotJudged++
		return
	}
	if r.Requester {
		s.Requester++
	}
	if r.Responder {
		s.Responder++
	}
	s.Same += r.Same
	s.Different += len(r.Differences)
	s.Unseen += r.NotSeen
}

// String returns the counts in a sentence.
func (s Summary) String() string {
	return fmt.Sprintf("%d scripts agree, %d differ, %d not judged; as responder %d, as requester %d; %d expectations met, %d not",
		s.Agree, s.Differ, s.NotJudged, s.Responder, s.Requester, s.Same, s.Different)
}

// NewReport begins a report of the adapter that c judges.
func NewReport(c *Config, d testagent.Device, date time.Time) *Report {
	c.setDefaults()
	r := &Report{
		Schema: Schema, Date: date.UTC().Truncate(time.Second),
		Adapter: Adapter{d.Name, d.Kernel, d.Firmware, d.ActiveMTU, maps.Clone(d.Numbers)},
		Setting: Setting{
			IP: 4, Transport: c.Port.Caps().Name, QuietMS: c.Quiet.Milliseconds(), WaitMS: c.Wait.Milliseconds(),
			Timeout: c.Timeout, Runs: c.Runs,
		},
	}
	delete(r.Adapter.Numbers, "node_guid") // identifies the machine as an address does
	if c.Peer.Is6() {
		r.Setting.IP = 6
	}
	return r
}

// Add adds a result.
func (r *Report) Add(one *Result) {
	r.Results = append(r.Results, one)
	r.Summary.Add(one)
}

// Write writes the report as JSON.
func (r *Report) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// maxReport bounds a report from a stranger.
const maxReport = 64 << 20

// ReadFile reads the report in a file.
func ReadFile(name string) (*Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // cannot lose data: it was only read
	return ReadReport(f)
}

// ReadReport reads a report.
func ReadReport(in io.Reader) (*Report, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxReport+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxReport {
		return nil, fmt.Errorf("the report has more than %d bytes", maxReport)
	}
	r := new(Report)
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(r); err != nil {
		return nil, fmt.Errorf("the report is no JSON of softhca judge: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("the report has the schema %.40q, want %q", r.Schema, Schema)
	}
	for _, one := range r.Results {
		if one == nil {
			return nil, errors.New("the report has an empty result")
		}
		one.sanitize()
	}
	for _, s := range [...]*string{&r.Adapter.Device, &r.Adapter.Kernel, &r.Adapter.Firmware} {
		*s = printable.Line(*s, printable.Limit)
	}
	return r, nil
}

// sanitize makes the texts of a result of another host safe to print.
func (r *Result) sanitize() {
	texts := []*string{&r.Script, &r.Title, &r.Reason}
	for _, list := range [...][]Difference{r.Differences, r.Unstable} {
		for i := range list {
			d := &list[i]
			texts = append(texts, &d.Step, &d.QP, &d.Want, &d.Got)
			for k := range d.Ladder {
				texts = append(texts, &d.Ladder[k])
			}
		}
	}
	for _, s := range texts {
		*s = printable.Line(*s, 0)
	}
}

// Line returns a result in one line, or with all in one line for each
// difference, with their packets.
func (r *Result) Line(all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-34s %-10s %4d met", r.Script, r.Verdict, r.Same)
	switch {
	case r.Verdict == NotJudged:
		fmt.Fprintf(&b, "  %s", r.Reason)
	case len(r.Differences) > 0:
		d := r.first()
		fmt.Fprintf(&b, "  line %d: %s", d.Line, d.short(!all))
		if n := len(r.Differences); n > 1 {
			fmt.Fprintf(&b, " (and %d more)", n-1)
		}
	}
	if r.Damaged > 0 {
		fmt.Fprintf(&b, "  (%d packets with a wrong ICRC)", r.Damaged)
	}
	for i := range r.Differences {
		if all {
			b.WriteString("\n" + r.Differences[i].long())
		}
	}
	for i := range r.Unstable {
		if all {
			b.WriteString("\n  not in every run:" + strings.TrimPrefix(r.Unstable[i].long(), " "))
		}
	}
	return b.String()
}

// first is the most telling difference: events come last.
func (r *Result) first() *Difference {
	i := slices.IndexFunc(r.Differences, func(d Difference) bool { return d.Kind != KindEvent })
	return &r.Differences[max(i, 0)]
}

const shortLen = 60

func (d *Difference) short(cut bool) string {
	want, got := d.Want, d.Got
	if cut && len(want) > shortLen {
		want = want[:shortLen] + "..."
	}
	if cut && len(got) > shortLen {
		got = got[:shortLen] + "..."
	}
	return fmt.Sprintf("%s: %s: want %s, got %s", d.QP, d.Kind, want, got)
}

func (d *Difference) long() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  line %d: %s\n    %s: %s\n    want %s\n    got  %s", d.Line, d.Step, d.QP, d.Kind, d.Want, d.Got)
	for _, l := range d.Ladder {
		b.WriteString("\n      " + l)
	}
	return b.String()
}
