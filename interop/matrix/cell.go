package matrix

import (
	"slices"
	"strings"
)

// Dim is a dimension of a matrix: its name and the values that it takes.
type Dim struct {
	Name   string
	Values []string
}

// Direction is the role of our side.
func Direction() Dim { return Dim{"dir", []string{"server", "client"}} }

// IP is the version of the Internet Protocol.
func IP() Dim { return Dim{"ip", []string{"ipv4", "ipv6"}} }

// MTU is the path MTU in bytes.
func MTU() Dim { return Dim{"mtu", []string{"1024", "4096"}} }

// Transport is the kind of socket that our adapter opens: UDP or raw.
func Transport() Dim { return Dim{"transport", []string{"udp", "raw"}} }

// Kernel is the version of the peer's kernel.
func Kernel(versions ...string) Dim { return Dim{"kernel", versions} }

// Cell is one place in a matrix: a value of each dimension, in their order.
type Cell struct {
	dims   []Dim
	values []string
}

// Get returns the value of the dimension of that name, "" if the matrix does
// not have it.
func (c Cell) Get(name string) string {
	for i, d := range c.dims {
		if d.Name == name {
			return c.values[i]
		}
	}
	return ""
}

// Is reports whether the dimension has the value in this cell.
func (c Cell) Is(name, value string) bool { return c.Get(name) == value }

// String returns the values, separated by slashes.
func (c Cell) String() string { return strings.Join(c.values, "/") }

// All returns the cells of the full product, the last dimension changing
// fastest, without those that skip reports; skip may be nil.
func All(dims []Dim, skip func(Cell) bool) []Cell {
	cells := []Cell{{dims: dims}}
	for _, d := range dims {
		var next []Cell
		for _, c := range cells {
			for _, v := range d.Values {
				next = append(next, Cell{dims, append(slices.Clone(c.values), v)})
			}
		}
		cells = next
	}
	if skip != nil {
		cells = slices.DeleteFunc(cells, skip)
	}
	return cells
}
