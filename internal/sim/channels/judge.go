package channels

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
)

// markNames are the situations that are counted, each with the requirement that
// it is about.
var markNames = [...]string{
	"V18 delivered", "V18 REM_INV_RD_REQ_ERR", "V18 REM_ABORT_ERR", "V18 LOC_EEC_OP_ERR", "V18 INV_EECN_ERR", "V18 LOC_RDD_VIOL_ERR",
	"V18 REM_ACCESS_ERR", "V18 REM_INV_REQ_ERR", "V18 LOC_PROT_ERR", "V18 LOC_LEN_ERR", "V18 RNR_RETRY_EXC_ERR", "V18 WR_FLUSH_ERR",
	"V18 queue pair reset", "V18 queue pair in ERR", "V18 queue pair destroyed", "V18 channel destroyed",
	"V18 resync", "V18 suspended", "V18 shared receive", "V18 forged", "Q36 queue pair in SQD", "Q36 EE context in SQD",
	"V15 REARM", "V15 PATH_MIG", "V15 path cut", "V15 both ends at once", "V15 address lost", "V15 packet over a path that was left",
}

// MarkNames returns the situations.
func MarkNames() []string { return markNames[:] }

// poll polls and checks all completions.
func (n *node) poll() {
	for k := n.cq.Poll(n.wcs[:]); k > 0; k = n.cq.Poll(n.wcs[:]) {
		for i := range k {
			wc := &n.wcs[i]
			n.w.Completions++
			if n.w.quiet != "" {
				n.w.Fail("forged", "adapter %d: request %#x completes with %v by %s", n.Index, wc.WRID, wc.Status, n.w.quiet)
			}
			if n.w.Telling() {
				n.w.Say(n.Index, "completion qp %v %v of %#x", wc.QPN, wc.Status, wc.WRID)
			}
			if wc.Status != ib.WCSuccess && slices.Contains(markNames[:], "V18 "+wc.Status.String()) {
				n.w.Mark("V18 " + wc.Status.String())
			}
			if wc.WRID>>63 != 0 {
				n.received(wc)
			} else {
				n.w.sent(wc)
			}
		}
	}
}

// sent checks the completion of a send request.
func (w *world) sent(wc *ib.WC) {
	o := w.works[wc.WRID]
	if o == nil || o.over {
		w.Fail("twice", "request %d completes with %v, and was complete, or never was", wc.WRID, wc.Status)
		return
	}
	p := o.from
	if o.life != p.life || len(p.queue) == 0 || p.queue[0] != o || wc.QPN != p.q.Num() {
		w.Fail("order", "request %d of queue pair %v completes with %v before others", o.id, p.q.Num(), wc.Status)
		return
	}
	o.over, o.status = true, wc.Status
	o.via.hears()
	p.queue, p.free = p.queue[1:], append(p.free, o.slot)
	if why := w.unfair(o, wc.Status); why != "" {
		w.Fail("status", "request %d (%v, wrong %d) of queue pair %v in %v completes with %v: %s", o.id, o.op, o.bad, p.q.Num(), p.q.State(), wc.Status, why)
	}
	if wc.Status == ib.WCSuccess {
		w.done(o)
	}
	if s := p.q.State(); wc.Status != ib.WCSuccess && s != ib.SQE && s != ib.ERR {
		w.Fail("state", "after %v the queue pair %v is in %v", wc.Status, p.q.Num(), s)
	}
}

// unfair returns the reason why a status has no explanation, "" if it has one.
func (w *world) unfair(o *work, s ib.WCStatus) string {
	wasDisturbed := o.to.disturbed || o.to.disturbedAt >= o.at || o.to.life != o.toLife
	switch s {
	case ib.WCSuccess:
		if o.bad != good {
			return "it is wrong"
		}
	case ib.WCWRFlushErr: // an earlier one failed, or the queue pair was stopped
	case ib.WCLocEECOpErr, ib.WCInvEECNErr:
		if !o.via.ch.gone && (o.bad != badEEC || s == ib.WCLocEECOpErr) {
			return "its channel is there"
		}
	case ib.WCRemInvRDReqErr:
		if earned[o.bad] != s && !wasDisturbed {
			return "it names a queue pair that is there"
		}
	case ib.WCRNRRetryExcErr:
		if w.plan.rnrRetry == ib.RNRInfiniteRetry {
			return "it may wait forever"
		}
	default:
		if s != earned[o.bad] {
			return "nothing is wrong with it that has this status"
		}
	}
	refused := s == ib.WCRemInvRDReqErr || s == ib.WCRNRRetryExcErr || s == ib.WCRemAccessErr || s == ib.WCRemInvReqErr || s == ib.WCLocProtErr
	if refused && o.got {
		return "its message was delivered"
	}
	return ""
}

// done checks the effect of a successful request.
func (w *world) done(o *work) {
	want := make([]byte, o.n)
	var have []byte
	switch o.op {
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm:
		o.fill(want)
		have = o.to.n.buf[o.there():][:o.n]
	case ib.WRRDMARead:
		for i := range want {
			want[i] = text(i + int(o.id%1000))
		}
		have = o.from.n.buf[o.home():][:o.n]
	}
	if have != nil && !bytes.Equal(have, want) {
		w.Fail("content", "request %d (%v of %d bytes) is complete, and not where it should be", o.id, o.op, o.n)
	}
	if o.takesReceive() && !o.got && o.to.life == o.toLife {
		w.Fail("lost", "request %d (%v) is complete, and its message was not delivered", o.id, o.op)
	}
}

func (o *work) takesReceive() bool {
	return o.op == ib.WRSend || o.op == ib.WRSendWithImm || o.op == ib.WRRDMAWriteWithImm
}

// received checks the completion of a receive.
func (n *node) received(wc *ib.WC) {
	w := n.w
	p, v, slot := n.owner(wc)
	if p == nil || !v.done(slot) {
		w.Fail("twice", "receive %#x of queue pair %v completes with %v, and was complete, or of another life", wc.WRID, wc.QPN, wc.Status)
		return
	}
	if v == n.shared {
		w.Mark("V18 shared receive")
	}
	switch wc.Status {
	case ib.WCSuccess:
		w.delivered(p, v.slot(n, slot), wc)
	case ib.WCRemAbortErr, ib.WCLocLenErr:
	case ib.WCLocEECOpErr:
		if !n.ended {
			w.Fail("status", "a receive of queue pair %v completes with %v, and every channel is there", wc.QPN, wc.Status)
		}
	case ib.WCWRFlushErr:
		if p.q.State() != ib.ERR {
			w.Fail("status", "a receive of queue pair %v in %v is flushed", wc.QPN, p.q.State())
		}
	default:
		w.Fail("status", "a receive of queue pair %v completes with %v", wc.QPN, wc.Status)
	}
}

// delivered checks a received message: it was sent to this queue pair, is
// complete, arrives once, and in the order of its sender.
func (w *world) delivered(p *program, b []byte, wc *ib.WC) {
	w.Mark("V18 delivered")
	id := binary.LittleEndian.Uint64(b)
	if wc.Opcode == ib.WCRecvRDMAWithImm {
		id = uint64(wc.ImmData)
	}
	o := w.works[id]
	switch {
	case o == nil, o.to != p, o.toLife != p.life, !o.takesReceive(), o.bad != good:
		w.Fail("content", "queue pair %v gets a message that was not sent to it: %d", p.q.Num(), id)
		return
	case o.got:
		w.Fail("twice", "message %d is delivered twice", id)
		return
	case wc.EEC != o.via.peer.eec.Num(), wc.ByteLen != o.n:
		w.Fail("content", "message %d of %d bytes by EE context %v is delivered as %d bytes by %v", id, o.n, o.via.peer.eec.Num(), wc.ByteLen, wc.EEC)
	case o.life == o.from.life && wc.SrcQP != o.from.q.Num():
		w.Fail("content", "message %d of queue pair %v is delivered as one of %v", id, o.from.q.Num(), wc.SrcQP)
	case (o.op != ib.WRSend) != (wc.Flags&ib.WCWithImm != 0), o.op != ib.WRSend && wc.ImmData != uint32(id):
		w.Fail("content", "message %d is delivered with flags %v and immediate %#x", id, wc.Flags, wc.ImmData)
	case o.over && o.status != ib.WCGeneralErr && o.status != ib.WCWRFlushErr && o.status != ib.WCLocEECOpErr:
		w.Fail("twice", "message %d is delivered after its request completed with %v", id, o.status)
	}
	want := make([]byte, o.n)
	o.fill(want)
	if wc.Opcode == ib.WCRecv && !bytes.Equal(want, b[:o.n]) {
		w.Fail("content", "message %d differs from the sent one", id)
	}
	o.got = true
	from := met{o.from, o.life}
	if int(o.seq) <= p.met[from] {
		w.Fail("order", "message %d of queue pair %v comes after a later one", id, wc.SrcQP)
	}
	p.met[from] = int(o.seq)
}

// settleTime is how long everything may take to complete on a healed network.
const settleTime = 20 * time.Second

// settle heals the network and makes the programs behave. All posted requests
// must complete, so no queue pair starves; then the counters must be right, and
// nothing may be left.
func (w *world) settle() {
	w.Net.Heal(w.Now)
	for _, c := range w.channels {
		c.cut.until = min(c.cut.until, w.Now)
	}
	limit := w.Now.Add(settleTime)
	for w.Violation == nil {
		busy := (*work)(nil)
		for _, c := range w.channels {
			for _, e := range c.ends {
				if e.eec.State() == ib.SQD {
					_ = e.modify(&ib.QPAttr{State: ib.RTS}, ib.AttrState) // refused while it drains
				}
			}
		}
		for _, p := range w.programs {
			p.tend()
			p.receive(common)
			if len(p.queue) > 0 {
				busy = p.queue[0]
			}
		}
		w.turn()
		if busy == nil {
			break
		}
		if w.Now > limit {
			w.Fail("liveness", "request %d (%v) of queue pair %v waits since %v", busy.id, busy.op, busy.from.q.Num(), time.Duration(busy.at))
		}
		for next := w.Now.Add(200 * time.Microsecond); w.Now < next && w.Violation == nil; {
			w.step(next)
		}
		w.onTime()
	}
	if w.Violation == nil {
		w.count()
		w.tearDown()
	}
}

// count compares the counters with the FETCH&ADDs that were posted: each was
// executed once if it succeeded, otherwise at most once.
func (w *world) count() {
	for _, n := range w.nodes {
		for _, p := range w.programs {
			least, most := uint64(0), uint64(0)
			for _, o := range w.works {
				if o.op != ib.WRAtomicFetchAdd || o.to.n != n || o.from != p {
					continue
				}
				switch {
				case o.status == ib.WCSuccess:
					least, most = least+1, most+1
				case o.status == ib.WCGeneralErr || o.status == ib.WCWRFlushErr || o.status == ib.WCLocEECOpErr || o.status == ib.WCRemInvRDReqErr:
					most++
				}
			}
			if v := binary.NativeEndian.Uint64(n.buf[atCount+8*p.index:]); v < least || v > most {
				w.Fail("count", "program %d has counted to %d at adapter %d, want %d to %d", p.index, v, n.Index, least, most)
			}
		}
		c := n.HCA.Counters()
		w.MarkTimes("V18 resync", c.Resyncs)
		w.MarkTimes("V18 suspended", c.RDSuspended)
	}
}

// tearDown destroys everything: nothing may be left.
func (w *world) tearDown() {
	for _, c := range w.channels {
		for _, e := range c.ends {
			e.n.HCA.DestroyEEC(w.Now, e.eec)
		}
	}
	for _, p := range w.programs {
		p.n.HCA.DestroyQP(p.n.PD, p.q)
	}
	for _, n := range w.nodes {
		n.HCA.DestroyEEC(w.Now, n.alien)
		n.HCA.DestroyQP(n.PD, n.outsider)
		n.HCA.DestroyQP(n.PD, n.connected)
		w.Must(n.PD.DestroySRQ(n.shared.srq))
		w.Must(n.HCA.DeallocRDD(n.apart))
		if err := n.HCA.DeallocRDD(n.rdd); err != nil {
			w.Fail("leak", "adapter %d: %v", n.Index, err)
		}
		w.Must(n.PD.DeregMR(n.mr))
		w.Must(n.HCA.CQs().Destroy(n.cq))
		w.Close(n.Adapter)
		if r := n.HCA.Resources(); r.QPs+r.EECs+r.RDDs+r.CQs+r.SRQs+r.PDs+r.MRs != 0 {
			w.Fail("leak", "adapter %d still has %+v", n.Index, r)
		}
	}
}
