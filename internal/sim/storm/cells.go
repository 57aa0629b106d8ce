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

// The sizes of both machines.
const (
	numStates    = cm.Unknown + 1
	numLAPStates = cm.LAPMRARcvd + 1
	numInputs    = cm.TimerTimewait + 1
)

// cells counts inputs by state.
type cells struct {
	machine [numStates][numInputs]uint64
	lap     [numLAPStates][numInputs]uint64
}

func (c *cells) count(in cm.State, lap cm.LAPState, on cm.Input) {
	c.machine[in][on]++
	if in == cm.Established {
		c.lap[lap][on]++
	}
}

// spot is a cell that can occur.
type spot struct {
	name  string
	lap   bool // in the machine of alternate paths
	state int
	on    cm.Input
}

// spots are the cells that can occur, and dropped those where a message has no
// effect.
var spots, dropped = survey()

// drops are the cells in which a message has no effect.
type drops struct {
	machine [numStates][numInputs]bool
	lap     [numLAPStates][numInputs]bool
}

// has reports whether a message has no effect in a state.
func (d *drops) has(in cm.State, lap cm.LAPState, on cm.Input) bool {
	return d.machine[in][on] || in == cm.Established && d.lap[lap][on]
}

// survey returns the cells that can occur, and those without effect.
func survey() (all []spot, none drops) {
	states, inputs := make(map[string]int), make(map[string]cm.Input)
	for s := range numStates {
		states[s.String()] = int(s)
	}
	laps := make(map[string]int)
	for s := range numLAPStates {
		laps[s.String()] = int(s)
	}
	for on := range numInputs {
		inputs[on.String()] = on
	}
	cm.Walk(func(r cm.Row) {
		p := spot{name: r.State + ": " + r.Input, on: inputs[r.Input]}
		var main bool
		if p.state, main = states[r.State]; !main {
			p.state, p.lap = laps[r.State], true
		}
		if r.Outcome != cm.Impossible {
			all = append(all, p)
		}
		if r.Outcome == cm.Dropped && main {
			none.machine[p.state][p.on] = true
		} else if r.Outcome == cm.Dropped {
			none.lap[p.state][p.on] = true
		}
	})
	return all, none
}

// list returns the counts in the order of CellNames.
func (c *cells) list() []uint64 {
	list := make([]uint64, len(spots))
	for i, p := range spots {
		if p.lap {
			list[i] = c.lap[p.state][p.on]
		} else {
			list[i] = c.machine[p.state][p.on]
		}
	}
	return list
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
