package storm

import (
	"github.com/softhca/softhca/internal/cm"
)

// place is an input in a state.
type place struct {
	in cm.State
	on cm.Input
}

// cell is a cell of the connection manager's machine and of the machine of
// alternate paths.
type cell struct {
	place
	lap cm.LAPState
}

// The sizes of both machines, and of a table of both.
const (
	numStates    = cm.Unknown + 1
	numLAPStates = cm.LAPMRARcvd + 1
	numInputs    = cm.TimerTimewait + 1
	numRows      = int(numStates) + int(numLAPStates)
)

// lapRow is the row of a state of the machine of alternate paths: after those of
// the other machine.
func lapRow(s cm.LAPState) int { return int(numStates) + int(s) }

// cells counts inputs by state.
type cells [numRows][numInputs]uint64

func (c *cells) count(in cm.State, lap cm.LAPState, on cm.Input) {
	c[in][on]++
	if in == cm.Established {
		c[lapRow(lap)][on]++
	}
}

// list returns the counts in the order of CellNames.
func (c *cells) list() []uint64 {
	list := make([]uint64, len(spots))
	for i, p := range spots {
		list[i] = c[p.row][p.on]
	}
	return list
}

// drops are the cells in which a message has no effect.
type drops [numRows][numInputs]bool

// has reports whether a message has no effect in a state.
func (d *drops) has(in cm.State, lap cm.LAPState, on cm.Input) bool {
	return d[in][on] || in == cm.Established && d[lapRow(lap)][on]
}

// spot is a cell that can occur.
type spot struct {
	name string
	row  int
	on   cm.Input
}

// spots are the cells that can occur, and dropped those where a message has no
// effect.
var spots, dropped = survey()

// survey returns the cells that can occur, and those without effect.
func survey() (all []spot, none drops) {
	rows, inputs := make(map[string]int), make(map[string]cm.Input)
	for s := range numStates {
		rows[s.String()] = int(s)
	}
	for s := range numLAPStates {
		rows[s.String()] = lapRow(s)
	}
	for on := range numInputs {
		inputs[on.String()] = on
	}
	cm.Walk(func(r cm.Row) {
		p := spot{r.State + ": " + r.Input, rows[r.State], inputs[r.Input]}
		if r.Outcome != cm.Impossible {
			all = append(all, p)
		}
		none[p.row][p.on] = r.Outcome == cm.Dropped
	})
	return all, none
}

// CellNames returns the reachable cells of the connection manager's machine,
// such as "REQ_SENT: REP", followed by those of the machine of alternate paths.
func CellNames() []string {
	var names []string
	for _, p := range spots {
		names = append(names, p.name)
	}
	return names
}
