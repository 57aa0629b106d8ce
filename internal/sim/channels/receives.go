package channels

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
)

// receives is the model of a receive queue: a program's own or a shared one.
type receives struct {
	srq  *qp.SRQ // nil: a program's own
	at   int     // offset of its slots in the adapter's memory
	out  []bool  // by slot: posted and not complete
	free []int   // free slots, the next one first
}

func newReceives(at, n int) *receives {
	v := &receives{at: at, out: make([]bool, n)}
	for i := range n {
		v.free = append(v.free, i)
	}
	return v
}

// slot returns the memory of a receive.
func (v *receives) slot(n *node, i int) []byte { return n.buf[v.at+i*recvLen:][:recvLen] }

// done frees a slot. It reports false if it was not posted.
func (v *receives) done(i int) bool {
	if i >= len(v.out) || !v.out[i] {
		return false
	}
	v.out[i] = false
	v.free = append(v.free, i)
	return true
}

// Bits of the work request ID of a receive: that it is a receive, and that it is
// a shared one.
const (
	isRecv   = 1 << 63
	isShared = 1 << 62
)

// recvID returns the work request ID of a receive: its program and slot.
func recvID(p *program, slot int) uint64 {
	if p.recvs.srq != nil {
		return isRecv | isShared | uint64(slot)
	}
	return isRecv | uint64(p.life)<<32 | uint64(p.index)<<8 | uint64(slot)
}

// receive posts receives, up to n while there is room.
func (p *program) receive(n int) {
	v := p.recvs
	for ; n > 0 && len(v.free) > 0; n-- {
		slot := v.free[0]
		wr := ib.RecvWR{WRID: recvID(p, slot), SGList: []ib.SGE{{
			Addr: p.n.mr.Addr() + uint64(v.at+slot*recvLen), Length: recvLen, LKey: p.n.mr.LKey(),
		}}}
		var err error
		if v.srq != nil {
			err = v.srq.PostRecv(&wr)
		} else {
			_, err = p.q.PostRecv(wr)
		}
		if err != nil {
			p.n.w.Fail("status", "post receive: %v", err)
			return
		}
		v.free, v.out[slot] = v.free[1:], true
	}
	if p.q.State() == ib.ERR { // the shard flushes it; otherwise receives need no doorbell
		p.n.HCA.Single().Doorbell(p.n.w.Now, p.q)
		p.n.poll()
	}
}

// owner returns the program whose receive has completed, its queue and its
// slot; nil if there is none.
func (n *node) owner(wc *ib.WC) (p *program, v *receives, slot int) {
	if wc.WRID&isShared != 0 {
		for _, p := range n.w.programs {
			if p.n == n && p.q.Num() == wc.QPN && p.recvs == n.shared {
				return p, n.shared, int(wc.WRID & 0xff)
			}
		}
		return nil, nil, 0
	}
	p = n.w.programs[wc.WRID>>8&0xff]
	if p.n != n || uint64(p.life) != wc.WRID>>32&0x3fffffff || wc.QPN != p.q.Num() {
		return nil, nil, 0
	}
	return p, p.recvs, int(wc.WRID & 0xff)
}
