package rdmacm

import "net/netip"

// backlog counts the requests of a listener that wait to be taken. A quarter of
// the places is kept from the address that has the others: no peer fills them
// all, unless it speaks in the name of more than one. The adapter's own address,
// at which the listener's fellows are, may. The Manager's mu guards it.
type backlog struct {
	most    int
	waiting int
	from    map[netip.Addr]int
}

// add takes a place for a request from an address to one of the adapter, and
// reports false if there is none.
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

// remove gives the place back.
func (b *backlog) remove(a netip.Addr) {
	b.waiting--
	if b.from[a]--; b.from[a] == 0 {
		delete(b.from, a)
	}
}
