package top

import "strings"

// Style is what a cell says by its color.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Title
	Heading  // of a table
	Sorted   // heading of the column by which a table is sorted
	Selected // row
	Active   // name of the view that is shown
	Label
	KeyName
	Input
	Good
	Received
	Warn
	Bad
	Dead
	numStyles
)

// styleLetters show styles in tests.
const styleLetters = ".THSXALKIgrwbd"

// Cell is a character of the screen.
type Cell struct {
	Rune  rune
	Style Style
}

// Frame is what the screen shows.
type Frame struct {
	Width, Height int
	Cells         []Cell // line by line
	utf8          bool
}

// newFrame returns an empty frame.
func newFrame(width, height int, utf8 bool) *Frame {
	f := &Frame{width, height, make([]Cell, width*height), utf8}
	for i := range f.Cells {
		f.Cells[i].Rune = ' '
	}
	return f
}

// put writes text at a position and returns the column after it. What does not fit is cut off.
func (f *Frame) put(x, y int, style Style, text string) int {
	for _, r := range text {
		if x >= f.Width {
			break
		}
		if x >= 0 && y >= 0 && y < f.Height {
			f.Cells[y*f.Width+x] = Cell{f.shown(r), style}
		}
		x++
	}
	return x
}

// cells are some cells of a line.
type cells struct{ x, y, width int }

// field writes text into some cells. Text that does not fit ends with an ellipsis.
func (f *Frame) field(c cells, style Style, text string, right bool) {
	r := []rune(text)
	x, width := c.x, c.width
	switch {
	case width <= 0:
		return
	case len(r) > width:
		r = append(r[:width-1:width-1], '…')
	case right:
		x += width - len(r)
	}
	f.put(x, c.y, style, string(r))
}

// fill sets the style of a line, also where it has no text.
func (f *Frame) fill(y int, style Style) {
	if y < 0 || y >= f.Height {
		return
	}
	for x := range f.Width {
		f.Cells[y*f.Width+x].Style = style
	}
}

// shown returns the character that is shown for one: one of a single cell, which the terminal has.
func (f *Frame) shown(r rune) rune {
	switch {
	case !f.utf8:
		return ascii(r)
	case narrow(r):
		return r
	}
	return '?'
}

// narrow reports whether a character surely takes one cell: it is of an alphabet, punctuation or a
// block, and does not combine with the one before.
func narrow(r rune) bool {
	return r >= ' ' && r < 0x7f || r >= 0xa1 && r < 0x300 && r != 0xad || r >= 0x370 && r < 0x483 || r >= 0x48a && r < 0x530 ||
		r >= 0x2010 && r < 0x2027 || r >= 0x2190 && r < 0x2200 || r >= 0x2500 && r < 0x25a0
}

// ascii returns the ASCII character for one.
func ascii(r rune) rune {
	const ramp = " .:-=+*%#"
	switch {
	case r >= ' ' && r < 0x7f:
		return r
	case r >= '▁' && r <= '█':
		return rune(ramp[1+r-'▁'])
	}
	switch r {
	case 'µ':
		return 'u'
	case '…':
		return '~'
	case '─':
		return '-'
	}
	return '?'
}

// Text returns the lines without styles.
func (f *Frame) Text() string { return f.lines(func(c Cell) rune { return c.Rune }) }

// Styles returns a letter for the style of each cell.
func (f *Frame) Styles() string {
	return f.lines(func(c Cell) rune { return rune(styleLetters[c.Style]) })
}

func (f *Frame) lines(of func(Cell) rune) string {
	var b strings.Builder
	for y := range f.Height {
		var line strings.Builder
		for _, c := range f.Cells[y*f.Width : (y+1)*f.Width] {
			line.WriteRune(of(c))
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
