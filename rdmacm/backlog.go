package rdmacm

import "net/netip"

// backlog counts the pending requests of a listener. One address can have at most three
// quarters of the places, so that no peer fills them all unless it forges a second
// address. The adapter's own address, which local programs share, may fill them all. The
// Manager's mu guards it.
type backlog struct {
	most    int
	waiting int
	from    map[netip.Addr]int
}

// add takes a place for a request from a to the adapter's address to, and reports
// whether there was one.
func (b *backlog) add(a, to netip.Addr) bool {
	kept := b.most / 4
	if a == to {
		kept = 0
	}
	if b.waiting >= b.most || b.from[a] >= b.most-kept {
		return false
	}
	if b.from == nil {
		b.from = make(map[netip.Addr]int)
	}
	b.waiting++
	b.from[a]++
	return true
}

// remove frees the place of a request from a.
func (b *backlog) remove(a netip.Addr) {
	b.waiting--
	if b.from[a]--; b.from[a] == 0 {
		delete(b.from, a)
	}
}
