package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/explore"
	"github.com/softhca/softhca/internal/printable"
)

// maxCells is the maximum number of faults on a page. Findings come first.
const maxCells = 20_000

// exploredScripts are the files of the script of an exploration, in their order.
var exploredScripts = [...]string{"store.js", "format.js", "explored.js"}

// cell is a fault for the script.
type cell struct {
	Process string          `json:"process"`
	Kind    string          `json:"kind"`
	What    string          `json:"what"`
	Of      uint64          `json:"of"`
	Fault   string          `json:"fault"` // in words
	Verdict explore.Verdict `json:"verdict"`
	Why     string          `json:"why,omitempty"`
	Code    int             `json:"code"`
	Millis  int64           `json:"milliseconds"`
	Stacks  string          `json:"stacks,omitempty"`
	Output  string          `json:"output,omitempty"`
	Again   string          `json:"again"` // the command that shows it again
}

// verdictLine is a verdict in the list of the page.
type verdictLine struct {
	Verdict explore.Verdict
	Letter  string
	Text    string
	Count   int
}

// exploredView is the data of the template of an exploration.
type exploredView struct {
	Outcome      string // failed or clean
	Headline     string
	Program      string
	Numbers      []line
	Verdicts     []verdictLine
	Part         string // which faults are shown, if not all
	Style        template.CSS
	Script       template.JS
	Data         string
	StylePolicy  string
	ScriptPolicy string
}

// WriteExplored writes the page of an exploration. It blocks as w does.
func WriteExplored(w io.Writer, r *explore.Report) error {
	v := &exploredView{Outcome: "clean", Headline: "no findings", Program: printable.Line(strings.Join(r.Program, " "), printable.Limit)}
	if n := r.Findings(); n > 0 {
		v.Outcome, v.Headline = "failed", text.Count(n, "finding", "findings")
	}
	v.Headline += fmt.Sprintf(" in %s of %d", text.Count(r.Tried, "fault", "faults"), r.Planned)
	v.count(r)
	cells := cellsOf(r)
	if n := len(r.Results) - len(cells); n > 0 {
		v.Part = fmt.Sprintf("%d faults are not shown: those without a finding first", n)
	}
	var err error
	if v.Data, err = encodeCells(cells); err != nil {
		return err
	}
	style, err := joined("", "style.css", "explored.css")
	if err != nil {
		return err
	}
	script, err := joined("\"use strict\";\n", exploredScripts[:]...)
	if err != nil {
		return err
	}
	// Both are embedded files, without data of the report.
	v.Style, v.Script = template.CSS(style), template.JS(script)
	v.StylePolicy, v.ScriptPolicy = policy(style), policy(script)
	t, err := template.New("explored.html").ParseFS(files, "explored.html")
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	if err := t.Execute(w, v); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// joined returns embedded files, one after the other.
func joined(before string, names ...string) ([]byte, error) {
	all := []byte(before)
	for _, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
		all = append(all, b...)
	}
	return all, nil
}

// count fills in the numbers and the verdicts.
func (v *exploredView) count(r *explore.Report) {
	took := time.Duration(r.Millis) * time.Millisecond
	v.Numbers = []line{
		{"Processes", printable.Line(strings.Join(r.Processes, ", "), printable.Limit)},
		{"Sites", fmt.Sprintf("%d in the first run", r.Sites)},
		{"Faults", fmt.Sprintf("%d planned, %d tried, %d never happened", r.Planned, r.Tried, r.Counts[explore.Unreached])},
		{"Time", took.String()},
	}
	if r.Cut > 0 {
		v.Numbers = append(v.Numbers, line{"Not planned", fmt.Sprintf("%d more faults", r.Cut)})
	}
	for _, d := range explore.Verdicts() {
		v.Verdicts = append(v.Verdicts, verdictLine{d, letter(d), d.Text(), r.Counts[d]})
	}
}

// letter returns the letter of a verdict: its first, in upper case for findings.
func letter(d explore.Verdict) string {
	s := string(d[:1])
	if d.Finding() {
		return strings.ToUpper(s)
	}
	return s
}

// cellsOf returns the faults for the script, in the order of the runs.
func cellsOf(r *explore.Report) []cell {
	others := max(maxCells-r.Findings(), 0)
	cells := []cell{}
	for i := range r.Results {
		f := &r.Results[i]
		if !f.Verdict.Finding() {
			if others == 0 {
				continue
			}
			others--
		}
		if len(cells) == maxCells {
			break
		}
		var stacks strings.Builder
		for j := range f.Stacks {
			f.Stacks[j].Text(&stacks, "")
		}
		cells = append(cells, cell{
			Process: printable.Line(f.Process, printable.Limit), Kind: printable.Line(f.Kind, printable.Limit), What: printable.Line(f.What, printable.Limit), Of: f.Of,
			Fault: printable.Line(f.Fault.String(), printable.Limit), Verdict: f.Verdict, Why: printable.Line(f.Why, maxWhy), Code: f.Code, Millis: f.Millis,
			Stacks: stacks.String(), Output: printable.Lines(f.Output), Again: printable.Lines(r.Command(f)),
		})
	}
	return cells
}

// maxWhy is the maximum number of characters of a reason on a page.
const maxWhy = 4000

// encodeCells returns the data of the script: JSON behind its length, compressed, in base64.
func encodeCells(cells []cell) (string, error) {
	body, err := json.Marshal(map[string]any{"cells": cells})
	if err != nil {
		return "", fmt.Errorf("page: %w", err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = z.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(body))))
	if err == nil {
		_, err = z.Write(body)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("page: %w", err)
	}
	return base64.URLEncoding.EncodeToString(out.Bytes()), nil
}
