package top

import (
	"strings"
	"time"

	"github.com/softhca/softhca/internal/observe"
)

// Options say what is shown.
type Options struct {
	View     string        // of ViewNames; empty: the connections
	Sort     string        // of ColumnNames of that view; empty: that of the view
	Filter   string        // words that each row has
	Interval time.Duration // between two reads
	Colors   bool
	UTF8     bool // the terminal shows characters beyond ASCII
}

// mode is what keys mean.
type mode uint8

const (
	modeTable mode = iota
	modeSearch
	modeFilter
	modeSort
	modeDetail
	modeHelp
)

// UI is what the user sees and chose.
type UI struct {
	model   *Model
	options Options
	tables  [numViews]table
	at      int // index of the table that is shown
	width   int
	height  int

	mode     mode
	before   mode   // the help returns to
	input    string // what was typed for a search or a filter
	filter   string
	search   string
	note     string // shown at the bottom until the next key
	menu     int    // column that the sort menu points at
	scroll   int    // first line of a detail or of the help
	detail   rowKey
	paused   bool
	interval time.Duration
}

// table is what the user chose of a view.
type table struct {
	*view
	order    order
	rows     []row
	top      int // first row that is shown
	selected int
	key      rowKey // of the selected row
}

// NewUI returns what a user sees at first. It shows nothing before Update and Resize.
func NewUI(o Options) *UI {
	u := &UI{model: NewModel(), options: o, filter: o.Filter, interval: o.Interval}
	for i, v := range views() {
		u.tables[i] = table{view: v, order: order{column: v.column(v.sorted)}}
		if v.name == o.View {
			u.at = i
		}
	}
	if n := u.table().column(o.Sort); n >= 0 {
		u.table().order.column = n
	}
	return u
}

// table returns the table that is shown.
func (u *UI) table() *table { return &u.tables[u.at] }

// Interval returns the time between two reads.
func (u *UI) Interval() time.Duration { return u.interval }

// Paused reports whether the user stopped the display.
func (u *UI) Paused() bool { return u.paused }

// Update shows another read of the adapters, made at the time now. err says why some are missing.
func (u *UI) Update(all []*observe.Adapter, now time.Time, err error) {
	u.model.Warning = ""
	if err != nil {
		u.model.Warning = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	u.model.Update(all, now)
	u.arrange()
}

// Resize sets the size of the screen.
func (u *UI) Resize(width, height int) {
	u.width, u.height = max(width, 0), max(height, 0)
	u.table().show(u.page())
	u.clampScroll()
}

// arrange sorts and filters the rows of the table that is shown. The selected object stays selected.
func (u *UI) arrange() {
	t := u.table()
	t.rows = t.arrange(u.model, t.order, u.filter)
	if i := t.find(t.rows, t.key); i >= 0 && t.selected != 0 {
		t.selected = i
	}
	t.show(u.page())
	u.clampScroll()
}

// show scrolls so that the selected row is among n rows that are shown.
func (t *table) show(n int) {
	t.selected = min(max(t.selected, 0), max(len(t.rows)-1, 0))
	t.top = min(max(t.top, t.selected-n+1), t.selected)
	t.top = max(min(t.top, len(t.rows)-n), 0)
	t.key = rowKey{}
	if len(t.rows) > 0 {
		t.key = t.view.key(&t.rows[t.selected])
	}
}

// selectRow selects a row.
func (u *UI) selectRow(i int) {
	u.table().selected = i
	u.table().show(u.page())
}

// found returns the object of the detail; nil if it is gone.
func (u *UI) found() *row {
	for _, r := range u.table().view.rows(u.model) {
		if u.table().view.key(&r) == u.detail {
			return &r
		}
	}
	return nil
}

// find selects the next row that matches a search, from the selected one plus step on.
func (u *UI) find(step int) {
	t := u.table()
	m := newMatcher(t.view, u.search)
	if len(m.words) == 0 {
		return
	}
	for i := range t.rows {
		n := (t.selected + step + i) % len(t.rows)
		if m.matches(&t.rows[n]) {
			u.selectRow(n)
			return
		}
	}
	u.note = "nothing matches " + u.search
}
