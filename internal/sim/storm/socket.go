package storm

import (
	"math/rand/v2"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// socket is a queue pair of a program, with the receives posted to it.
type socket struct {
	host  *host
	kind  kind
	qp    *qp.QP // nil after destruction
	num   ib.QPN
	slab  int   // index of the piece of the host's memory with its receives
	owner *side // nil for a host's datagram socket, and on the shelf
}

// The memory of receives.
const (
	slabs     = 160
	slabSlots = 4
	slotSize  = 128
)

// take returns a queue pair in INIT: one from the shelf, or a new one. UC queue
// pairs are always new: an old one would accept messages of an earlier
// connection. It returns nil if there is no room.
func (h *host) take(k kind, r *rand.Rand) *socket {
	w := h.w
	if n := len(h.shelf); n > 0 && k == reliable && r.IntN(2) == 0 {
		t := h.shelf[n-1]
		h.shelf = h.shelf[:n-1]
		t.modify(ib.RESET)
		w.Must(h.HCA.Prepare(w.Now, t.qp))
		w.Mark("queue pairs used again")
		return t
	}
	if len(h.slabs) == 0 {
		return nil
	}
	t := &socket{host: h, kind: k, slab: h.slabs[len(h.slabs)-1]}
	h.slabs = h.slabs[:len(h.slabs)-1]
	// QPNs come from a small range, so that a restarted adapter soon reuses
	// those of its earlier life.
	h.narrow = k == reliable
	q, err := h.HCA.CreateQP(h.PD, hca.QPConfig{
		Type: typeOf[k], SendCQ: h.cq, RecvCQ: h.cq,
		Cap: ib.QPCap{MaxSendWR: 32, MaxRecvWR: slabSlots, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: messageLen},
	})
	h.narrow = false
	w.Must(err)
	t.qp, t.num = q, q.Num()
	h.socks[t.num] = t
	if k != datagrams {
		w.Must(h.HCA.Prepare(w.Now, q))
	}
	return t
}

var typeOf = [numKinds]ib.QPType{reliable: ib.RC, unreliable: ib.UC, datagrams: ib.UD}

// fill posts all receives.
func (t *socket) fill() {
	for i := range uint64(slabSlots) {
		t.post(i)
	}
}

// post posts a receive.
func (t *socket) post(slot uint64) {
	h := t.host
	at := (uint64(t.slab)*slabSlots + slot) * slotSize
	_, err := t.qp.PostRecv(ib.RecvWR{WRID: slot, SGList: []ib.SGE{{Addr: h.mr.Addr() + at, Length: slotSize, LKey: h.mr.LKey()}}})
	h.w.Must(err)
}

// slot returns the memory of a receive.
func (t *socket) slot(i uint64) []byte {
	at := (uint64(t.slab)*slabSlots + i) * slotSize
	return t.host.memory[at : at+slotSize]
}

// stop ends all traffic: the connection is over, or will be.
func (t *socket) stop() {
	if st := t.qp.State(); st != ib.RESET && st != ib.ERR {
		t.host.w.Must(t.host.HCA.Disconnect(t.host.w.Now, t.qp))
	}
}

func (t *socket) modify(to ib.QPState) {
	t.host.w.Must(t.qp.Modify(t.host.w.Now, &ib.QPAttr{State: to}, ib.AttrState))
}

// layDown puts the queue pair on the shelf for a later connection, or destroys
// it.
func (t *socket) layDown() {
	t.stop()
	if t.owner != nil {
		t.owner.pending = 0
	}
	t.owner = nil
	if t.kind == reliable && len(t.host.shelf) < 4 {
		t.host.shelf = append(t.host.shelf, t)
		return
	}
	t.destroy()
}

// destroy destroys the queue pair.
func (t *socket) destroy() {
	h := t.host
	if t.qp == nil {
		return
	}
	if t.owner != nil {
		t.owner.pending = 0
		t.owner.sock = nil
	}
	h.HCA.DestroyQP(h.PD, t.qp)
	delete(h.socks, t.num)
	h.slabs = append(h.slabs, t.slab)
	t.qp = nil
}
