package main

import (
	"strings"
	"unicode/utf8"
)

// width is the number of columns between the two vertical lines.
const width = 48

// ladder is a diagram while it is drawn.
type ladder struct {
	strings.Builder
	skipped bool // the last command was left out, and so is its output
}

// draw returns the diagram of lines of a script.
func draw(lines []string) string {
	l := &ladder{}
	l.WriteString("adapter" + strings.Repeat(" ", width-5) + "peer\n")
	for _, s := range lines {
		if output, ok := strings.CutPrefix(s, "    "); ok {
			l.output(strings.TrimSpace(output))
			continue
		}
		l.command(strings.TrimSpace(s))
	}
	return l.String()
}

// command draws what the script does: prose, a packet of the peer, or a call.
func (l *ladder) command(s string) {
	l.skipped = strings.HasPrefix(s, "query ")
	switch {
	case s == "" || l.skipped || strings.HasPrefix(s, "+"): // the output shows the time
	case strings.HasPrefix(s, "#"):
		l.rung("", strings.TrimSpace(s[1:]))
	case strings.HasPrefix(s, "< "):
		name, note := label(s[2:])
		l.rung("◀"+dashes(name)+" "+name+" ─", note)
	default:
		l.rung(" "+s, "")
	}
}

// output draws an output line: something that the adapter did.
func (l *ladder) output(s string) {
	switch {
	case l.skipped || strings.HasPrefix(s, "count: "):
	case strings.HasPrefix(s, "@"):
		l.rung(center("· · ·"), "at "+s[1:])
	case strings.HasPrefix(s, "> "):
		name, note := label(s[2:])
		l.rung("─ "+name+" "+dashes(name)+"▶", note)
	case strings.HasPrefix(s, "retry "), strings.HasPrefix(s, "drop "):
		l.rung(center(s), "")
	default:
		l.rung(" "+s, "")
	}
}

// rung writes one line between the vertical lines, and a note on the right.
func (l *ladder) rung(body, note string) {
	pad := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(body)))
	l.WriteString(strings.TrimRight(" │"+body+pad+"│  "+note, " ") + "\n")
}

// dashes are the dashes of an arrow in addition to its label, a first dash, a
// head and two blanks.
func dashes(label string) string {
	return strings.Repeat("─", max(0, width-4-utf8.RuneCountInString(label)))
}

func center(s string) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))/2) + s
}

// label returns the label of a packet in a script's form, such as "c RD_SEND_FIRST
// psn=200 srcqp=a len=256": the sender's queue pair with reliable datagrams,
// operation, PSN and payload length; and a note with its other fields.
func label(s string) (name, note string) {
	words := strings.Fields(s)
	op := words[1]
	for _, service := range [...]string{"RC_", "UC_", "RD_", "UD_"} {
		op = strings.TrimPrefix(op, service)
	}
	of, psn, size := "", "", ""
	var notes []string
	for _, w := range words[2:] {
		key, v, _ := strings.Cut(w, "=")
		switch key {
		case "srcqp":
			of = v + ": "
		case "psn":
			psn = " psn " + v
		case "len":
			size = " " + v + " B"
		case "ackreq":
			notes = append(notes, "please acknowledge")
		case "migreq":
			notes = append(notes, "MigReq "+map[bool]string{true: "1", false: "0"}[v == "true" || v == "1"])
		case "src":
			notes = append(notes, "from "+v)
		case "dst":
			notes = append(notes, "to "+v)
		}
		if op == "ACKNOWLEDGE" && isAnswer(w) {
			op = w
		}
	}
	if reason := strings.Index(s, " reason="); reason >= 0 { // a number, and words in parentheses
		text, _, _ := strings.Cut(s[reason+len(" reason="):], ")")
		notes = append(notes, "reason "+strings.Replace(text, " (", ": ", 1))
	}
	return of + op + psn + size, strings.Join(notes, ", ")
}

// isAnswer reports whether a word is an answer's syndrome: ACK, or a NAK with its
// cause.
func isAnswer(word string) bool {
	return word == "ACK" || strings.HasPrefix(word, "NAK_") || strings.HasPrefix(word, "RNR_NAK")
}
