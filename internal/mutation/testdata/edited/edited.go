// Package edited is what TestSites makes edits in.
package edited

import "sync"

var limit = 7

const name = "a" + "b"

type t struct {
	mu sync.Mutex
	n  int
}

func (x *t) f(a, b int) (ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := a
	if a < b && !ok {
		x.n += 2
	}
	switch {
	case a == b:
		n++
	default:
		return true
	}
	return n > limit
}
