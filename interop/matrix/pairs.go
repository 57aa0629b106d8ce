package matrix

// pair is two values of two dimensions, by their indices.
type pair struct {
	d1, d2 int
	v1, v2 string
}

// pairs calls f with each pair of values in a cell.
func (c Cell) pairs(f func(pair)) {
	for i := range c.values {
		for j := i + 1; j < len(c.values); j++ {
			f(pair{i, j, c.values[i], c.values[j]})
		}
	}
}

// Pairs returns cells of the product that cover every pair of values of the
// cells that skip leaves: it repeatedly takes the first cell that adds the most
// new pairs. The same dimensions give the same cells. A matrix of one dimension
// has all of its cells.
func Pairs(dims []Dim, skip func(Cell) bool) []Cell {
	all := All(dims, skip)
	if len(dims) < 2 {
		return all
	}
	open := map[pair]bool{}
	for _, c := range all {
		c.pairs(func(p pair) { open[p] = true })
	}
	var chosen []Cell
	for len(open) > 0 {
		best, most := 0, 0
		for i, c := range all {
			n := 0
			c.pairs(func(p pair) {
				if open[p] {
					n++
				}
			})
			if n > most {
				best, most = i, n
			}
		}
		chosen = append(chosen, all[best])
		all[best].pairs(func(p pair) { delete(open, p) })
	}
	return chosen
}
