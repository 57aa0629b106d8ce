package sim

import (
	"math/rand/v2"

	"github.com/softhca/softhca/ib"
)

// simQKey is the Q_Key of all UD queue pairs.
const simQKey = ib.QKey(0x1ee7)

// udSlot is the longest datagram: that of the smallest slots.
const udSlot = 256

// connectUD gives a node a UD queue pair in RTS: its previous one, or a new
// one.
func (w *world) connectUD(n *node, r *rand.Rand) {
	if e := n.ud; e != nil && e.qp != nil {
		if e.state == ib.SQE {
			e.resume()
			return
		}
		e.destroy()
	}
	e := &end{w: w, node: n, traits: traitsOf(ib.UD)}
	e.sendQ, e.recvQ = n.healthyCQ(r), n.healthyCQ(r)
	e.create(ib.UD)
	e.space = newSpace(w, n, spaceConfig{local: localSlots, recv: 40})
	e.gen = 1
	n.ud = e
	a := ib.QPAttr{Port: 1, QKey: simQKey, SQPSN: ib.NewPSN(r.Uint32())}
	e.climb(&a, ib.INIT, ib.RTS)
	e.fillRecvs(w.plan.recvs)
}

// sendDatagram sends a message from one node's UD queue pair to another's.
func (w *world) sendDatagram(r *rand.Rand) {
	n, to := w.nodes[r.IntN(len(w.nodes))], w.nodes[r.IntN(len(w.nodes))]
	e := n.ud
	if e == nil || e.state < ib.RTS || to.ud == nil || len(e.sq) >= int(endCap.MaxSendWR) {
		return
	}
	o := &op{end: e, id: w.nextID(false), code: ib.WRSend, length: 8 + r.IntN(min(udSlot, w.plan.slot)-8), signaled: true, imm: r.Uint32()}
	if r.IntN(3) == 0 {
		o.code = ib.WRSendWithImm
	}
	o.data = w.text.pattern(o.id, o.length)
	av := to.destination(1 - r.IntN(2))
	ah, err := n.PD.CreateAH(&av)
	w.Must(err)
	o.wr = ib.SendWR{ImmData: o.imm, AH: ah, RemoteQPN: to.ud.num, RemoteQKey: simQKey}
	if w.plan.on(badRequests) && r.IntN(10) == 0 {
		o.bad = deadAH
	}
	if o.gather(r) {
		w.text.sent(o, to.ud)
		e.post(o)
	}
	if o.bad == deadAH { // before the adapter reads it
		w.Must(n.PD.DestroyAH(ah))
		ah = 0
	}
	n.wake(e)
	if ah != 0 {
		// Requests that were not sent at once, because the queue is draining,
		// fail with LOC_QP_OP_ERR.
		for _, o := range e.sq {
			o.bad = deadAH
		}
		w.Must(n.PD.DestroyAH(ah))
	}
}
