package top

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// The lines of the screen from the top. The last line has the keys, or what the user types.
const (
	lineTitle = iota
	lineSent
	lineRcvd
	lineTrouble
	lineViews
	lineHeading
	lineRows
)

// page returns how many rows of a table the screen has.
func (u *UI) page() int { return max(u.height-lineRows-1, 1) }

// bodyHeight returns how many lines of a detail or of the help the screen has.
func (u *UI) bodyHeight() int { return max(u.height-lineHeading-1, 1) }

// Draw returns what the screen shows.
func (u *UI) Draw() *Frame {
	f := newFrame(u.width, u.height, u.options.UTF8)
	u.drawHeader(f)
	switch u.mode {
	case modeDetail, modeHelp:
		u.drawBody(f)
	default:
		u.drawTable(f)
	}
	if u.mode == modeSort {
		u.drawMenu(f)
	}
	u.drawFoot(f)
	return f
}

// drawHeader draws the lines above a table.
func (u *UI) drawHeader(f *Frame) {
	t := &u.model.total
	x := f.put(0, lineTitle, Title, "softhca top")
	processes := text.Count(t.processes, "process", "processes")
	if t.dead > 0 {
		processes += fmt.Sprintf(" (%d dead)", t.dead)
	}
	about := fmt.Sprintf("  %s, %s, %s", text.Count(len(u.model.adapters), "adapter", "adapters"), processes, text.Count(t.qps, "connection", "connections"))
	if f.Width >= 100 {
		about += fmt.Sprintf(", %s, %s, %s", text.Count(t.cqs, "CQ", "CQs"), text.Count(t.cms, "CM ID", "CM IDs"), text.Count(t.mrs, "MR", "MRs"))
	}
	x = f.put(x, lineTitle, Plain, about)
	clock := fmt.Sprintf("every %v", u.interval)
	if u.paused {
		clock = "PAUSED"
	}
	if f.Width >= 100 {
		clock += "  " + u.model.at.Format("15:04:05")
	}
	if at := f.Width - utf8.RuneCountInString(clock); at > x {
		f.put(at, lineTitle, map[bool]Style{false: Label, true: Warn}[u.paused], clock)
	}
	u.drawRate(f, lineSent, Good, "Sent", rateOf{t.sentBits, t.mostSentBits, t.sentMessages, &t.sentHistory})
	u.drawRate(f, lineRcvd, Received, "Rcvd", rateOf{t.rcvdBits, t.mostRcvdBit, t.rcvdMessages, &t.rcvdHistory})
	u.drawTrouble(f)
	x = 0
	for i := range u.tables {
		style := Label
		if i == u.at {
			style = Active
		}
		x = f.put(x, lineViews, style, fmt.Sprintf(" %d %s ", i+1, u.tables[i].title))
	}
	if u.filter != "" && x+2 < f.Width {
		f.field(cells{x + 2, lineViews, f.Width - x - 2}, Warn, fmt.Sprintf("filter: %s (%s)", u.filter, text.Count(len(u.table().rows), "row", "rows")), false)
	}
}

// rateOf is a rate in one direction.
type rateOf struct {
	bits, most, messages float64
	history              *history
}

// drawRate draws the bar of a rate: full is the highest rate so far.
func (u *UI) drawRate(f *Frame, y int, style Style, name string, r rateOf) {
	bits, messages := " "+none, none
	if u.model.total.known {
		bits, messages = " "+text.Rate(r.bits, "b/s"), text.Rate(r.messages, " messages/s")
	}
	const barAt = 6
	width := max(f.Width/2-barAt-1, 10)
	f.put(0, y, Label, name)
	f.put(barAt-1, y, Title, "[")
	f.put(barAt+width, y, Title, "]")
	share := 0.0
	if r.most > 0 {
		share = r.bits / r.most
	}
	f.put(barAt, y, style, bar(share, width))
	f.put(barAt+width-utf8.RuneCountInString(bits), y, Plain, bits)
	x := barAt + width + 2
	f.field(cells{x, y, 20}, Plain, messages, true)
	if x += 22; f.Width-x >= trendWidth {
		f.put(x, y, style, sparkline(r.history.last(min(f.Width-x, keptSeconds))))
	}
}

// drawTrouble draws the line of what goes wrong.
func (u *UI) drawTrouble(f *Frame) {
	if u.model.Warning != "" {
		f.field(cells{0, lineTrouble, f.Width}, Bad, u.model.Warning, false)
		return
	}
	t := &u.model.total
	x := 0
	for _, v := range [...]struct {
		name string
		rate float64
	}{{"Retransmitted", t.retransmitted}, {"Timeouts", t.timeouts}, {"RNR", t.rnr}, {"Dropped", t.drops}} {
		value, style := none, Plain
		if t.known {
			value = perSecond(v.rate) + "/s"
		}
		if v.rate > 0 {
			style = Warn
		}
		x = f.put(x, lineTrouble, Label, v.name+" ")
		x = f.put(x, lineTrouble, style, value) + 2
	}
	style := Plain
	if t.errors > 0 {
		style = Bad
	}
	x = f.put(x, lineTrouble, Label, "Errors ")
	f.put(x, lineTrouble, style, count(t.errors))
}

// drawTable draws the table that is shown.
func (u *UI) drawTable(f *Frame) {
	t := u.table()
	shown := t.rows[t.top:min(t.top+u.page(), len(t.rows))]
	texts := t.format(shown)
	columns := t.choose(f.Width, texts)
	f.fill(lineHeading, Heading)
	x := 0
	for _, c := range columns {
		style := Heading
		if c.index == t.order.column {
			style = Sorted
		}
		f.field(cells{x, lineHeading, c.width}, style, t.columns[c.index].title, t.columns[c.index].right)
		x += c.width + 1
	}
	for i := range shown {
		u.drawRow(f, columns, t.top+i, texts[i])
	}
	if len(t.rows) == 0 {
		f.field(cells{0, lineRows, f.Width}, Label, u.emptyText(), false)
	}
}

// emptyText says why a table has no rows.
func (u *UI) emptyText() string {
	switch {
	case u.filter != "":
		return "no rows match " + u.filter
	case len(u.model.adapters) == 0:
		return "No program of this user has an adapter open. This page shows adapters as soon as programs open them."
	}
	return u.table().empty
}

// drawRow draws row i of the table that is shown.
func (u *UI) drawRow(f *Frame, columns []place, i int, texts []string) {
	t := u.table()
	r := &t.rows[i]
	y := lineRows + i - t.top
	if y >= f.Height-1 {
		return
	}
	line := Plain
	switch {
	case i == t.selected:
		line = Selected
	case !r.a.Running:
		line = Dead
	}
	f.fill(y, line)
	x := 0
	for _, c := range columns {
		style := line
		if own := t.columns[c.index].style; own != nil && line == Plain {
			style = own(r)
		}
		f.field(cells{x, y, c.width}, style, texts[c.index], t.columns[c.index].right)
		x += c.width + 1
	}
}

// format returns the text of each column of some rows.
func (t *table) format(rows []row) [][]string {
	texts := make([][]string, len(rows))
	for i := range rows {
		texts[i] = make([]string, len(t.columns))
		for j := range t.columns {
			texts[i][j] = t.columns[j].text(&rows[i])
		}
	}
	return texts
}

// place is where a column is shown.
type place struct{ index, width int }

// choose returns the columns that fit a width: the one by which the table is sorted, and those with
// the lowest ranks.
func (t *table) choose(width int, texts [][]string) (columns []place) {
	widths := t.widths(texts)
	in := make([]bool, len(t.columns))
	left := width + 1
	take := func(i int) bool {
		if widths[i]+1 <= left {
			in[i] = true
			left -= widths[i] + 1
		}
		return in[i]
	}
	take(t.order.column)
	for rank := range len(t.columns) + len(owner()) + 1 {
		fits := true
		for i := range t.columns {
			if t.columns[i].rank == rank && !in[i] {
				fits = take(i) && fits
			}
		}
		if !fits {
			break
		}
	}
	for i := range t.columns {
		if in[i] {
			columns = append(columns, place{i, widths[i]})
		}
	}
	return columns
}

// widths returns how wide the columns are with some rows.
func (t *table) widths(texts [][]string) []int {
	widths := make([]int, len(t.columns))
	for i := range t.columns {
		c := &t.columns[i]
		w := max(c.width, utf8.RuneCountInString(c.title))
		for _, line := range texts {
			w = max(w, min(utf8.RuneCountInString(line[i]), c.most))
		}
		widths[i] = w
	}
	return widths
}

// drawMenu draws the menu of columns over the table.
func (u *UI) drawMenu(f *Frame) {
	t := u.table()
	const width = 16
	top := max(0, u.menu-u.page()+1)
	f.field(cells{0, lineHeading, width}, Active, fmt.Sprintf("%-*s", width, " Sort by"), false)
	for y := lineRows; y < f.Height-1; y++ {
		f.field(cells{0, y, width}, Plain, strings.Repeat(" ", width), false)
		i := top + y - lineRows
		if i >= len(t.columns) {
			continue
		}
		style := Plain
		if i == u.menu {
			style = Selected
		}
		f.field(cells{0, y, width}, style, fmt.Sprintf(" %-*s", width-1, t.columns[i].name), false)
	}
}

// drawFoot draws the last line.
func (u *UI) drawFoot(f *Frame) {
	y := f.Height - 1
	prompt := map[mode]string{modeSearch: "Search: ", modeFilter: "Filter: "}[u.mode]
	switch {
	case prompt != "":
		f.fill(y, Input)
		x := f.put(0, y, Input, prompt+u.input+"_")
		f.put(x+2, y, Input, map[mode]string{modeSearch: "F3 next  ", modeFilter: ""}[u.mode]+"Enter keep  Esc cancel  "+u.note)
		return
	case u.note != "":
		f.fill(y, Input)
		f.put(0, y, Input, u.note)
		return
	}
	x := 0
	for _, k := range u.footKeys() {
		x = f.put(x, y, KeyName, k[0])
		x = f.put(x, y, Label, " "+k[1]+" ")
	}
}

// footKeys returns the keys that the last line names.
func (u *UI) footKeys() [][2]string {
	pause := map[bool]string{false: "Pause", true: "Go on"}[u.paused]
	switch u.mode {
	case modeDetail:
		return [][2]string{{"F1", "Help"}, {"Esc", "Back"}, {"Up Down", "Scroll"}, {"Space", pause}, {"+ -", "Interval"}, {"F10", "Quit"}}
	case modeHelp:
		return [][2]string{{"Esc", "Back"}, {"Up Down", "Scroll"}, {"F10", "Quit"}}
	case modeSort:
		return [][2]string{{"Up Down", "Choose"}, {"Enter", "Sort"}, {"Esc", "Cancel"}}
	}
	return [][2]string{
		{"F1", "Help"}, {"F3", "Search"}, {"F4", "Filter"}, {"F6", "Sort"}, {"Tab", "View"}, {"Enter", "Detail"}, {"Space", pause}, {"F10", "Quit"},
	}
}
