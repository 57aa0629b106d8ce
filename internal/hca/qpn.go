package hca

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
)

// qpnRest is how many QPNs are freed before one of them is used again, so
// that packets of an old connection find nobody (V13).
const qpnRest = 2048

// qpnTable finds QPs by number: an 8-bit slot that all of an adapter's QPNs
// share, then 16 random bits through two levels of arrays.
type qpnTable struct {
	slot   ib.QPN // already shifted
	pages  [256]*[256]*qp.QP
	rest   [qpnRest]ib.QPN // a ring of QPNs that are resting
	freed  int
	inRest map[ib.QPN]struct{}
}

func (t *qpnTable) init(slot uint8) {
	t.slot = ib.QPN(slot) << 16
	t.inRest = make(map[ib.QPN]struct{})
}

// find returns the QP with number n, nil if there is none.
func (t *qpnTable) find(n ib.QPN) *qp.QP {
	if n&^0xffff != t.slot {
		return nil
	}
	page := t.pages[n>>8&0xff]
	if page == nil {
		return nil
	}
	return page[n&0xff]
}

// alloc draws a number that is neither in use nor resting, nor 0 or 1.
func (t *qpnTable) alloc(rand func() uint32) (ib.QPN, bool) {
	n := ib.QPN(rand() & 0xffff)
	for range 1 << 16 {
		full := t.slot | n
		if _, resting := t.inRest[full]; n > 1 && !resting && t.find(full) == nil && full != ib.QPNMulticast {
			return full, true
		}
		n = (n + 1) & 0xffff
		if n&7 == 0 { // do not run through a crowded stretch in order
			n = ib.QPN(rand() & 0xffff)
		}
	}
	return 0, false
}

func (t *qpnTable) add(q *qp.QP) {
	n := q.Num()
	page := &t.pages[n>>8&0xff]
	if *page == nil {
		*page = new([256]*qp.QP)
	}
	(*page)[n&0xff] = q
}

// each calls f for every QP.
func (t *qpnTable) each(f func(*qp.QP)) {
	for _, page := range t.pages {
		if page == nil {
			continue
		}
		for _, q := range page {
			if q != nil {
				f(q)
			}
		}
	}
}

func (t *qpnTable) remove(n ib.QPN) {
	t.pages[n>>8&0xff][n&0xff] = nil
	i := t.freed % qpnRest
	if t.freed >= qpnRest {
		delete(t.inRest, t.rest[i])
	}
	t.rest[i] = n
	t.inRest[n] = struct{}{}
	t.freed++
}
