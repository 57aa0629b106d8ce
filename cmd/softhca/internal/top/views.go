package top

import "slices"

// view is a table.
type view struct {
	name    string // for --view
	title   string
	columns []column
	sorted  string // name of the column by which it is sorted at first
	empty   string // shown if there are no rows
	rows    func(m *Model) []row
	key     func(*row) rowKey
	label   func(b []byte, r *row) []byte // appends what a filter looks at, beyond the adapter
}

// The indexes of views.
const (
	viewConnections = iota
	viewAdapters
	viewCQs
	viewCM
	viewMRs
	numViews
)

// views returns the tables.
func views() [numViews]*view {
	return [...]*view{connectionsView(), adaptersView(), queuesView(), managerView(), regionsView()}
}

// ViewNames returns the names of the tables.
func ViewNames() (names []string) {
	for _, v := range views() {
		names = append(names, v.name)
	}
	return names
}

// ColumnNames returns the names of the columns of a table.
func ColumnNames(table string) (names []string) {
	for _, v := range views() {
		for _, c := range v.columns {
			if v.name == table {
				names = append(names, c.name)
			}
		}
	}
	return names
}

// column returns the index of a column; -1 if there is none.
func (v *view) column(name string) int {
	return slices.IndexFunc(v.columns, func(c column) bool { return c.name == name })
}

// order is how a table is sorted.
type order struct {
	column   int
	inverted bool
}

// arrange returns the rows that match a filter, sorted. Rows that compare equal stay in the order
// of adapters and objects.
func (v *view) arrange(m *Model, o order, filter string) []row {
	rows := v.rows(m)
	if m := newMatcher(v, filter); len(m.words) > 0 {
		rows = slices.DeleteFunc(rows, func(r row) bool { return !m.matches(&r) })
	}
	by := &v.columns[o.column]
	falling := by.falling != o.inverted
	slices.SortStableFunc(rows, func(a, b row) int {
		n := by.compare(&a, &b)
		if falling {
			return -n
		}
		return n
	})
	return rows
}

// find returns the index of the row with a key; -1 if there is none.
func (v *view) find(rows []row, key rowKey) int {
	for i := range rows {
		if v.key(&rows[i]) == key {
			return i
		}
	}
	return -1
}
