package top

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
)

// row is a row of a table: an adapter, or one of its objects.
type row struct {
	a  *adapter
	c  *connection
	q  *queue
	cm int // index among the adapter's CMIDs
	mr int // index among the adapter's MRs
}

// rowKey identifies the object of a row from one read to the next.
type rowKey struct {
	path string
	num  uint64
}

// column is a column of a table.
type column struct {
	name    string // for --sort
	title   string
	right   bool // aligned to the right
	width   int  // at least, in cells
	most    int  // at most; 0: as wide as width
	rank    int  // columns with lower ranks are shown first if there is not room for all
	falling bool // sorted from the highest to the lowest value

	text    func(*row) string
	compare func(a, b *row) int
	style   func(*row) Style // nil: that of the row
}

// extent is how wide a column is.
type extent struct{ width, most int }

// words returns a column of text, sorted by the text.
func words(name, title string, rank int, e extent, text func(*row) string) column {
	return column{
		name: name, title: title, width: e.width, most: e.most, rank: rank, text: text,
		compare: func(a, b *row) int { return cmp.Compare(text(a), text(b)) },
	}
}

// ordered returns a column that is sorted by a value, the lowest first.
func ordered[T cmp.Ordered](c column, value func(*row) T) column {
	c.compare = func(a, b *row) int { return cmp.Compare(value(a), value(b)) }
	return c
}

// numbers returns a column of numbers, sorted by them, the highest first.
func numbers[T cmp.Ordered](name, title string, rank int, value func(*row) T, text func(T) string) column {
	return column{
		name: name, title: title, right: true, width: 6, rank: rank, falling: true,
		text:    func(r *row) string { return text(value(r)) },
		compare: func(a, b *row) int { return cmp.Compare(value(a), value(b)) },
	}
}

// when shows values only if they are known, which they are not at the first read.
func (c column) when(known func(*row) bool) column {
	text := c.text
	c.text = func(r *row) string {
		if !known(r) {
			return none
		}
		return text(r)
	}
	return c
}

// rising sorts a column from the lowest value to the highest.
func (c column) rising() column {
	c.falling = false
	return c
}

// styled gives a column a style of its own.
func (c column) styled(style func(*row) Style) column {
	c.style = style
	return c
}

// warning styles values that are not 0.
func warning[T cmp.Ordered](value func(*row) T) func(*row) Style {
	return func(r *row) Style {
		var zero T
		if value(r) != zero {
			return Warn
		}
		return Plain
	}
}

// owner returns the columns with which the rows of all tables begin.
func owner() []column {
	return []column{
		words("adapter", "ADAPTER", 2, extent{7, 16}, func(r *row) string { return r.a.Name }),
		ordered(column{name: "pid", title: "PID", right: true, width: 7, rank: 3, text: func(r *row) string { return strconv.Itoa(r.a.PID) }}, func(r *row) int { return r.a.PID }),
		words("process", "PROCESS", 4, extent{7, 16}, func(r *row) string { return r.a.Command }),
	}
}

// matcher looks for the words of a filter or a search in rows.
type matcher struct {
	view  *view
	words [][]byte // in lower case
	label []byte   // of the last row
}

// newMatcher returns a matcher of a text.
func newMatcher(v *view, text string) *matcher {
	return &matcher{view: v, words: bytes.Fields([]byte(strings.ToLower(text)))}
}

// matches reports whether a row has all words.
func (m *matcher) matches(r *row) bool {
	if len(m.words) == 0 {
		return true
	}
	b := m.label[:0]
	for _, s := range [...]string{r.a.Name, r.a.Command, r.a.state()} {
		b = append(append(b, s...), ' ')
	}
	b = append(strconv.AppendInt(b, int64(r.a.PID), 10), ' ')
	b = append(r.a.Addr.AppendTo(b), ' ')
	b = m.view.label(b, r)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c - 'A' + 'a'
		}
	}
	m.label = b
	return !slices.ContainsFunc(m.words, func(word []byte) bool { return !bytes.Contains(b, word) })
}

// appendQPN appends the number of a queue pair, as QPN.String writes it.
func appendQPN(b []byte, n ib.QPN) []byte {
	const digits = "0123456789abcdef"
	b = append(b, "0x"...)
	for shift := max((bits.Len32(uint32(n))+3)/4, 6) * 4; shift > 0; shift -= 4 {
		b = append(b, digits[n>>(shift-4)&0xf])
	}
	return b
}
