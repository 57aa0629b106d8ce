package explain

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	faint  = "\x1b[2m"
	plain  = "\x1b[0m"
)

// maxShown is how many conversations and findings the text has.
const maxShown = 40

// printer writes the text of a report.
type printer struct {
	*bufio.Writer
	colors bool
}

// Text writes the report for people: the verdict first, then conversations and
// findings, and the packets around what explains the verdict. It blocks as w does.
func (r *Report) Text(w io.Writer, colors bool) error {
	p := &printer{bufio.NewWriter(w), colors}
	p.verdict(&r.Verdict)
	p.conversations(r)
	p.findings(r)
	p.ladder(r)
	return p.Flush()
}

// JSON writes the report as one object. It blocks as w does.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// in returns s in a color.
func (p *printer) in(color, s string) string {
	if !p.colors || s == "" {
		return s
	}
	return color + s + plain
}

// shade returns the color of an outcome.
func shade(outcome string) string {
	switch outcome {
	case Failed.String(), Lost.String():
		return red
	case Repaired.String():
		return yellow
	default:
		return green
	}
}

func (p *printer) verdict(v *Verdict) {
	fmt.Fprintf(p, "%s %s\n", p.in(bold+shade(v.Outcome), "VERDICT "+v.Outcome+":"), p.in(bold, v.Headline))
	for _, line := range [...]struct{ name, text string }{
		{"why", v.Means}, {"where", v.Where}, {"asked for", v.Fault}, {"look at", v.Side}, {"requester sees", v.Requester},
		{"responder sees", v.Responder}, {"try", v.Try}, {"more", v.Page},
	} {
		if line.text != "" {
			fmt.Fprintf(p, "  %-15s %s\n", line.name, line.text)
		}
	}
	for _, page := range v.ErrorPages {
		fmt.Fprintf(p, "  %-15s %s\n", "", page)
	}
	for _, c := range v.Caveats {
		fmt.Fprintf(p, "  %-15s %s\n", "not shown", c)
	}
}

func (p *printer) conversations(r *Report) {
	if len(r.Conversations) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s\n", p.in(bold, "CONVERSATIONS"))
	for i := range r.Conversations[:min(len(r.Conversations), maxShown)] {
		c := &r.Conversations[i]
		fmt.Fprintf(p, "%3d  %-3s %s > %s  %s, %s in %v", c.ID, c.Service, c.A, c.B, count(c.Packets, "packet"), count(c.Bytes, "byte"), round(c.Length))
		if c.PathMTU > 0 {
			fmt.Fprintf(p, ", path MTU %d", c.PathMTU)
		}
		p.WriteByte('\n')
		p.requests("> ", &c.AToB)
		p.requests("< ", &c.BToA)
		for _, n := range c.Notes {
			fmt.Fprintf(p, "     %s\n", p.in(faint, n))
		}
	}
	if more := len(r.Conversations) - maxShown + r.Unlisted; more > 0 && len(r.Conversations) > maxShown || r.Unlisted > 0 {
		fmt.Fprintf(p, "     and %d more\n", max(more, r.Unlisted))
	}
}

// count returns a number of things, such as "1 packet" or "2 packets".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (p *printer) requests(arrow string, q *Requests) {
	if q.Messages == 0 {
		return
	}
	fmt.Fprintf(p, "     %s%s of %s", arrow, count(q.Messages, "message"), count(q.Bytes, "byte"))
	if q.Mean > 0 {
		fmt.Fprintf(p, ", answered after %v, %v at most", round(q.Mean), round(q.Longest))
	}
	p.WriteByte('\n')
}

func (p *printer) findings(r *Report) {
	if len(r.Findings) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s\n", p.in(bold, "FINDINGS"))
	for _, f := range r.Findings[:min(len(r.Findings), maxShown)] {
		fmt.Fprintf(p, "%s %s: %s\n", p.in(shade(f.Severity.String()), fmt.Sprintf("%-8v", f.Severity)), f.Rule, f.Title)
		times := "once"
		if f.Count > 1 {
			times = fmt.Sprintf("%d times, up to record %d", f.Count, f.Last)
		}
		fmt.Fprintf(p, "         conversation %d, record %d at %v, %s: %s\n", f.Conversation, f.First, round(f.At), times, f.Detail)
	}
	if more := len(r.Findings) - maxShown; more > 0 {
		fmt.Fprintf(p, "         and %d more\n", more)
	}
}

// ladder draws the packets around the finding of the verdict.
func (p *printer) ladder(r *Report) {
	rungs, ends := r.Ladder()
	if len(rungs) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s  %s ... %s\n", p.in(bold, "PACKETS"), ends[0], ends[1])
	for _, g := range rungs {
		arrow, color := "------->", ""
		if g.Side == 1 {
			arrow, color = "<-------", faint
		}
		fmt.Fprintf(p, "%6d %12.6f  %s\n", g.Record, g.At.Seconds(), p.in(color, arrow+"  "+g.Text))
	}
}
