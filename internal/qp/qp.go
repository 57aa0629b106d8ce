package qp

import (
	"sync"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/trace"
)

// QP is a queue pair. Posting may be done by any goroutine; everything else
// is called by the thread that holds the shard.
type QP struct {
	env    *Env
	num    ib.QPN
	typ    ib.QPType
	pd     memory.PD
	sigAll bool
	sendCQ *CQ
	recvCQ *CQ
	srq    *SRQ // nil: the QP has its own receive queue

	Links Links // the shard's

	state atomic.Uint32 // ib.QPState; written by the shard's thread only

	sendMu sync.Mutex // guards the producing side of sq
	sq     sendQueue
	recvMu sync.Mutex // guards the producing side of rq
	rq     recvQueue

	attr    ib.QPAttr   // as last set; current PSNs and states are elsewhere
	path    fabric.Path // of attr.AV (RC, UC); of attr.AV's port only (UD)
	pkey    ib.PKey
	mtu     int // bytes of attr.PathMTU
	flow    *Flow
	inFlow  flowShare
	timers  timers
	sqd     drainState
	commEst bool // COMM_EST was raised since the QP entered RTR
	onFirst func(now clock.Instant)

	prefixes prefixCache
	req      requester
	resp     responder
}

// Config says what a new QP is made of.
type Config struct {
	Num    ib.QPN
	Type   ib.QPType
	PD     memory.PD
	SendCQ *CQ
	RecvCQ *CQ
	SRQ    *SRQ     // nil for a receive queue of its own
	Cap    ib.QPCap // actual sizes are rounded up
	SigAll bool
}

// New returns a QP in RESET (Q4). The caller has checked the configuration.
func New(env *Env, c Config) *QP {
	q := &QP{
		env: env, num: c.Num, typ: c.Type, pd: c.PD, sigAll: c.SigAll,
		sendCQ: c.SendCQ, recvCQ: c.RecvCQ, srq: c.SRQ,
	}
	q.sq.init(c.Cap)
	if c.SRQ == nil {
		q.rq.init(c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE)
	} else {
		_, sge := c.SRQ.Cap()
		q.resp.srqSGE = make([]ib.SGE, sge)
	}
	q.sendCQ.Hold()
	q.recvCQ.Hold()
	if q.srq != nil {
		q.srq.Hold()
	}
	q.timers.stopAll()
	q.req.reset(0)
	return q
}

// Num returns the QPN.
func (q *QP) Num() ib.QPN { return q.num }

// Type returns the transport service.
func (q *QP) Type() ib.QPType { return q.typ }

// PD returns the protection domain.
func (q *QP) PD() memory.PD { return q.pd }

// State returns the state. Any goroutine may call it.
func (q *QP) State() ib.QPState { return ib.QPState(q.state.Load()) }

// Cap returns the actual sizes of the queues (V5).
func (q *QP) Cap() ib.QPCap {
	c := ib.QPCap{
		MaxSendWR: q.sq.Cap(), MaxSendSGE: q.sq.maxSGE, MaxInlineData: q.sq.maxInline,
	}
	if q.srq == nil {
		c.MaxRecvWR, c.MaxRecvSGE = q.rq.Cap(), q.rq.maxSGE
	}
	return c
}

// Receive processes one packet for this QP.
func (q *QP) Receive(now clock.Instant, p *Packet) {
	if d, ok := q.admit(p); !ok {
		q.drop(d, p)
		return
	}
	q.env.Counters.RcvdPkts++
	q.tracePacket(p)
	switch q.typ {
	case ib.RC:
		if p.Info.Flags&flagResponse != 0 {
			q.receiveResponse(now, p)
		} else {
			q.receiveRequest(now, p)
		}
	case ib.UC:
		q.receiveUC(now, p)
	default:
		q.receiveUD(now, p)
	}
}

// Transmit appends what the QP has to send and may send, up to a quantum. It
// reports whether there is more that could go at once.
func (q *QP) Transmit(now clock.Instant, b *fabric.Batch) (more bool) {
	if !behaviourOf(q.State()).sends() {
		return false
	}
	if q.resp.first {
		// The last batch had no room for responses: they go first now.
		if q.resp.first = q.sendResponses(now, b); q.resp.first {
			return true
		}
	}
	more = q.sendRequests(now, b)
	if q.resp.owes() {
		q.resp.first = q.sendResponses(now, b)
		more = more || q.resp.first
	}
	if q.flow != nil && !q.inFlow.waiting {
		q.flow.wake(q.env.Wake) // room that this QP leaves is the next one's
	}
	return more
}

// Advance fires the timers that are due.
func (q *QP) Advance(now clock.Instant) {
	for t := range numTimers {
		if q.timers[t] > now {
			continue
		}
		q.timers[t] = clock.Never
		switch t {
		case timerAck:
			q.ackTimeout(now)
		case timerRNR:
			q.rnrTimeout(now)
		case timerFlow:
			q.flowTimeout(now)
		}
	}
}

// Deadline returns when Advance is next needed.
func (q *QP) Deadline() clock.Instant { return q.timers.next() }

// Kick is called after work was posted: it flushes what the state does not
// process (Q15, Q19) or puts the QP on the list of senders.
func (q *QP) Kick(now clock.Instant) {
	b := behaviourOf(q.State())
	if b.postSend == postFlush {
		q.flushSend(now)
	}
	if b.postRecv == postFlush {
		q.flushRecv(now)
	}
	if b.sends() {
		q.env.Wake(q)
	}
}

// Destroy takes the QP out of use, whatever its state (V13). Its work
// requests vanish, and so do its completions that nobody polled.
func (q *QP) Destroy() {
	q.sendMu.Lock()
	q.recvMu.Lock()
	q.clear()
	q.state.Store(uint32(ib.RESET))
	q.recvMu.Unlock()
	q.sendMu.Unlock()
	q.sendCQ.Release()
	q.recvCQ.Release()
	if q.srq != nil {
		q.srq.Release()
	}
}

// admit checks that a packet may reach the QP's engines: state, service,
// addresses and keys, in the order of requirement E7 and V14.
func (q *QP) admit(p *Packet) (counters.Drop, bool) {
	st := behaviourOf(q.State())
	response := p.Info.Flags&flagResponse != 0
	switch {
	case response && !st.takesResponses(), !response && !st.takesRequests():
		return counters.DropState, false
	case p.Info.Service != serviceOf(q.typ):
		return counters.DropService, false
	case q.connected() && (p.Data.Src != q.path.Dst || p.Data.Dst != q.path.Src):
		return counters.DropAddress, false
	case !q.pkeyMatches(p.BTH.PKey):
		return counters.DropPKey, false
	case !q.connected() && p.DETH.QKey != q.attr.QKey:
		return counters.DropQKey, false
	}
	return 0, true
}

// connected reports whether the service has one peer.
func (q *QP) connected() bool { return q.typ == ib.RC || q.typ == ib.UC }

// pkeyMatches checks a packet's P_Key: QP1 takes any of the port's table.
func (q *QP) pkeyMatches(k ib.PKey) bool {
	if q.typ != ib.GSI {
		return q.pkey.Matches(k)
	}
	for i := range q.env.Limits.PKeys {
		if q.env.PKey(uint16(i)).Matches(k) {
			return true
		}
	}
	return false
}

func (q *QP) drop(d counters.Drop, p *Packet) {
	q.env.Counters.Drops[d]++
	if q.env.Trace != nil {
		q.record(trace.Record{Kind: trace.Drop, PSN: p.BTH.PSN, Len: p.Size, Cause: d.String()})
	}
}

// raise posts an event about this QP.
func (q *QP) raise(t ib.EventType) {
	if q.env.Trace != nil {
		q.record(trace.Record{Kind: trace.Event, Event: t})
	}
	q.env.Raise(Event{Type: t, QPN: q.num})
}
