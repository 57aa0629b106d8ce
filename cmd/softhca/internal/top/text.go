package top

import (
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/softhca/softhca/internal/observe"
)

// Read is a read of the adapters.
type Read struct {
	Adapters []*observe.Adapter
	At       time.Time
}

// Text prints a table of the adapters as text, with all columns. With two reads it has rates.
func Text(w io.Writer, o Options, reads []Read) error {
	u := NewUI(o)
	for _, r := range reads {
		u.Update(r.Adapters, r.At, nil)
	}
	t := u.table()
	texts := t.format(t.rows)
	widths := t.widths(texts)
	for i := range texts {
		for j, s := range texts[i] {
			widths[j] = max(widths[j], utf8.RuneCountInString(s)) // nothing is cut off
		}
	}
	var titles []string
	for _, c := range t.columns {
		titles = append(titles, c.title)
	}
	shown := Frame{utf8: o.UTF8}
	var b strings.Builder
	for _, line := range append([][]string{titles}, texts...) {
		var out strings.Builder
		for j, s := range line {
			s = strings.Map(shown.shown, s)
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(s))
			if t.columns[j].right {
				s, pad = pad, s
			}
			out.WriteString(s + pad + " ")
		}
		b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
