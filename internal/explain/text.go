package explain

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	faint  = "\x1b[2m"
	plain  = "\x1b[0m"
)

// maxShown is the maximum number of conversations and of findings in the text, without All.
const maxShown = 10

// columns is the maximum length of lines, except for a word that is longer.
const columns = 100

// The columns at which the texts of the verdict, findings, conversations and packets begin.
const (
	verdictIndent      = 18
	findingIndent      = 9
	conversationIndent = 5
	rungIndent         = 31
)

// TextOptions are the options of the text form of a report.
type TextOptions struct {
	Colors bool
	All    bool   // list all conversations and findings of the report
	More   string // how to get the rest of a list, such as "--all shows them"; "" if there is no way
}

// printer writes the text of a report.
type printer struct {
	*bufio.Writer
	TextOptions
}

// Text writes the report as text: the verdict and a summary first, then conversations
// and findings, and the packets around the cause of the verdict. It blocks as w does.
func (r *Report) Text(w io.Writer, o TextOptions) error {
	p := &printer{bufio.NewWriter(w), o}
	p.verdict(r)
	p.conversations(r)
	p.findings(r)
	p.told(r)
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
	if !p.Colors || s == "" || color == "" {
		return s
	}
	return color + s + plain
}

// shade returns the color of an outcome.
func shade(outcome string) string {
	switch outcome {
	case Failed.String(), Lost.String():
		return red
	case Repaired.String(), Unknown.String(), empty:
		return yellow
	default:
		return green
	}
}

func (p *printer) verdict(r *Report) {
	v := &r.Verdict
	head := "VERDICT " + v.Outcome + ":"
	lines := wrap(head+" "+v.Headline, columns)
	fmt.Fprintf(p, "%s%s\n", p.in(bold+shade(v.Outcome), head), p.in(bold, strings.TrimPrefix(lines[0], head)))
	for _, line := range lines[1:] {
		fmt.Fprintf(p, "  %s\n", p.in(bold, line))
	}
	color := shade(v.Outcome)
	got := strings.Join(v.Programs, "; ")
	for _, line := range [...]struct{ name, text, color string }{
		{"capture", r.extent(), ""}, {"conversations", r.Tally.String(), ""}, {"first failure", r.firstFailure(), color},
		{"why", v.Means, ""}, {"reason", v.Reason, color}, {"where", v.Where, ""}, {"asked for", v.Fault, ""}, {"look at", v.Side, ""},
		{"requester sees", unless(got, v.Requester), color}, {"responder sees", unless(got, v.Responder), color}, {"programs got", got, color},
		{"try", v.Try, ""}, {"more", v.Page, faint},
	} {
		p.line(line.name, line.text, line.color)
	}
	for _, page := range v.ErrorPages {
		fmt.Fprintf(p, "  %-15s %s\n", "", p.in(faint, page))
	}
	for i := range r.Clocks {
		p.line("clocks", r.Clocks[i].String(), "")
	}
	for _, c := range v.Caveats {
		p.line("not shown", c, yellow)
	}
}

// unless returns the statuses that a side gets, empty if adapters say that a program got one of them.
func unless(got, statuses string) string {
	for s := range strings.SplitSeq(statuses, " or ") {
		if strings.Contains(got, s) {
			return ""
		}
	}
	return statuses
}

// line writes a line of the verdict, unless its text is empty.
func (p *printer) line(name, text, color string) {
	if text == "" {
		return
	}
	head := p.in(faint, fmt.Sprintf("%-15s", name))
	for _, line := range wrap(text, columns-verdictIndent) {
		fmt.Fprintf(p, "  %s %s\n", head, p.in(color, line))
		head = fmt.Sprintf("%-15s", "")
	}
}

// wrap breaks a text at blanks into lines of at most width characters. A word that is
// longer has a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for i, word := range strings.Split(text, " ") {
		switch {
		case i == 0:
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// wrapped writes a text in indented lines.
func (p *printer) wrapped(indent int, color, text string) {
	for _, line := range wrap(text, columns-indent) {
		fmt.Fprintf(p, "%*s%s\n", indent, "", p.in(color, line))
	}
}

// extent describes the size of the capture.
func (r *Report) extent() string {
	s := fmt.Sprintf("%s in %s, %v", count(r.Packets, "packet"), count(r.Records, "record"), round(r.Duration))
	for _, part := range [...]struct {
		n    int
		what string
	}{{r.BadICRC, "with a wrong ICRC"}, {r.Malformed, "malformed"}, {r.Truncated, "cut off by the capture"}, {r.Twice, "captured twice"}} {
		if part.n > 0 {
			s += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return s
}

// String returns the number of conversations and of each outcome.
func (t Tally) String() string {
	if t.Conversations == 0 {
		return ""
	}
	var parts []string
	for _, part := range [...]struct {
		n    int
		what string
	}{{t.Failed, "failed"}, {t.Lost, "lost messages"}, {t.Unknown, "unknown"}, {t.Repaired, "repaired"}, {t.Clean, "clean"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return fmt.Sprintf("%d: %s", t.Conversations, strings.Join(parts, ", "))
}

// firstFailure describes the first failure or lost message, and its place.
func (r *Report) firstFailure() string {
	i := slices.IndexFunc(r.Findings, func(f *Finding) bool { return f.Severity >= Lost && f.First == r.Tally.FirstFailure })
	if i < 0 {
		return ""
	}
	f := r.Findings[i]
	return fmt.Sprintf("%s: %s", f.place(), f.Title)
}

// place returns the place of the finding's first occurrence in the capture.
func (f *Finding) place() string {
	s := fmt.Sprintf("record %d at %v", f.First, round(f.At))
	if f.Conversation > 0 {
		s += fmt.Sprintf(", conversation %d", f.Conversation)
	}
	return s
}

// worst returns the severity of the gravest finding of each conversation that has one.
func (r *Report) worst() map[int]string {
	worst := map[int]string{}
	for _, f := range slices.Backward(r.Findings) {
		worst[f.Conversation] = f.Severity.String()
	}
	return worst
}

// shown returns the conversations in the text: those with findings before others, in the
// order of their numbers.
func (p *printer) shown(r *Report, worst map[int]string) []*Conversation {
	var all []*Conversation
	for _, rank := range [...]string{Failed.String(), Lost.String(), Repaired.String(), Unknown.String(), ""} {
		for i := range r.Conversations {
			if c := &r.Conversations[i]; worst[c.ID] == rank {
				all = append(all, c)
			}
		}
	}
	if !p.All {
		all = all[:min(len(all), maxShown)]
	}
	slices.SortFunc(all, func(a, b *Conversation) int { return a.ID - b.ID })
	return all
}

func (p *printer) conversations(r *Report) {
	if len(r.Conversations) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s\n", p.in(bold, "CONVERSATIONS"))
	worst := r.worst()
	shown := p.shown(r, worst)
	for _, c := range shown {
		outcome := cmp.Or(worst[c.ID], "clean")
		fmt.Fprintf(p, "%3d  %-3s %s %s > %s\n", c.ID, c.Service, p.in(shade(outcome), fmt.Sprintf("%-8s", outcome)), c.A, c.B)
		size := fmt.Sprintf("%s, %s in %v", count(c.Packets, "packet"), count(c.Bytes, "byte"), round(c.Length))
		if c.PathMTU > 0 {
			size += fmt.Sprintf(", path MTU %d bytes", c.PathMTU)
		}
		p.wrapped(conversationIndent, "", size)
		p.requests("> ", &c.AToB)
		p.requests("< ", &c.BToA)
		for _, n := range c.Notes {
			p.wrapped(conversationIndent, faint, n)
		}
	}
	p.more("     ", len(r.Conversations)-len(shown))
	if r.Unlisted > 0 {
		fmt.Fprintf(p, "     %s that the report does not list\n", count(r.Unlisted, "more conversation"))
	}
}

// more writes the number of items that a list omits.
func (p *printer) more(indent string, n int) {
	if n <= 0 {
		return
	}
	fmt.Fprintf(p, "%sand %d more", indent, n)
	if p.More != "" {
		fmt.Fprintf(p, " (%s)", p.More)
	}
	p.WriteByte('\n')
}

// count returns a number and a noun, such as "1 packet" or "2 packets".
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
	shown := r.Findings
	if !p.All {
		shown = shown[:min(len(shown), maxShown)]
	}
	for _, f := range shown {
		lines := wrap(f.Rule+": "+f.Title, columns-findingIndent)
		fmt.Fprintf(p, "%s %s\n", p.in(shade(f.Severity.String()), fmt.Sprintf("%-8v", f.Severity)), lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(p, "%*s%s\n", findingIndent, "", line)
		}
		times := "once"
		if f.Count > 1 {
			times = fmt.Sprintf("%d times, up to record %d", f.Count, f.Last)
		}
		p.wrapped(findingIndent, "", fmt.Sprintf("%s, %s: %s", f.place(), times, f.Detail))
	}
	p.more("         ", len(r.Findings)-len(shown))
}

// told lists what the adapters say.
func (p *printer) told(r *Report) {
	if len(r.Told) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s\n", p.in(bold, "FROM THE ADAPTERS"))
	shown := r.Told
	if !p.All {
		shown = shown[:min(len(shown), maxShown)]
	}
	for i := range shown {
		t := &shown[i]
		state := ""
		if t.State != "" {
			state = ", last in " + t.State
		}
		fmt.Fprintf(p, "     %s%s\n", t.name(), state)
		for k := range t.Remarks {
			m := &t.Remarks[k]
			times := ""
			if m.Count > 1 {
				times = fmt.Sprintf(", %d times", m.Count)
			}
			p.wrapped(findingIndent, "", fmt.Sprintf("record %d at %v%s: %s", m.First, round(m.At), times, m.text()))
		}
	}
	p.more("     ", len(r.Told)-len(shown))
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
		switch {
		case g.Record == r.Verdict.Record:
			color = bold + shade(r.Verdict.Outcome)
		case strings.Contains(g.Text, " NAK"):
			color = red
		case strings.Contains(g.Text, " RNR"):
			color = yellow
		}
		for i, line := range wrap(g.Text, columns-rungIndent) {
			head := fmt.Sprintf("%6d %10.6f s  %s  ", g.Record, g.At.Seconds(), arrow)
			if i > 0 {
				head = strings.Repeat(" ", rungIndent)
			}
			fmt.Fprintf(p, "%s%s\n", head, p.in(color, line))
		}
	}
}
