package top

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/observe"
)

// Model is what is shown: the adapters as of the last read, and what they did since the one before.
type Model struct {
	Warning string // why some adapters are missing; empty: none are

	at       time.Time
	adapters []*adapter
	tracks   map[string]*track // by the paths of tables
	total    total
}

// total sums up all adapters.
type total struct {
	processes, dead           int
	qps, cqs, mrs, cms        int
	known                     bool // there are rates
	sentMessages, sentBits    float64
	rcvdMessages, rcvdBits    float64
	retransmitted, timeouts   float64 // per second
	rnr, drops                float64 // per second
	errors                    uint64  // completions with an error, since the adapters were opened
	sentHistory, rcvdHistory  history
	mostSentBits, mostRcvdBit float64 // since the program started
}

// adapter is an adapter with its changes.
type adapter struct {
	*observe.Adapter
	known   bool // change is valid
	change  observe.AdapterChange
	history *history

	sentMessages, sentBits, rcvdMessages, rcvdBits float64 // sums over its queue pairs, per second

	connections []connection
	queues      []queue
}

// connection is a queue pair with its changes.
type connection struct {
	*observe.QP
	known   bool // change is valid
	change  observe.QPChange
	history *history
}

// queue is a completion queue with its changes.
type queue struct {
	*observe.CQ
	known    bool
	produced float64 // completions per second
}

// qpKey identifies a queue pair or an EE context of an adapter.
type qpKey struct {
	num ib.QPN
	eec bool
}

func keyOf(q *observe.QP) qpKey { return qpKey{q.Num, q.Type == ib.EEC} }

// track is what the model keeps of an adapter from one read to the next.
type track struct {
	last    *observe.Adapter
	history history
	qps     map[qpKey]*qpTrack
	cqs     map[uint32]*observe.CQ
	round   uint64
}

// qpTrack is what it keeps of a queue pair.
type qpTrack struct {
	last    *observe.QP
	history history
	round   uint64 // of the track, when the queue pair was last there
}

// NewModel returns a model without adapters.
func NewModel() *Model { return &Model{tracks: make(map[string]*track)} }

// Update replaces the adapters by those of another read at the time now. The model keeps them.
func (m *Model) Update(all []*observe.Adapter, now time.Time) {
	before := m.at
	m.at = now
	m.adapters = m.adapters[:0:0]
	t := total{sentHistory: m.total.sentHistory, rcvdHistory: m.total.rcvdHistory, mostSentBits: m.total.mostSentBits, mostRcvdBit: m.total.mostRcvdBit}
	processes := make(map[[2]uint64]bool)
	there := make(map[string]bool, len(all))
	for _, o := range all {
		there[o.Path] = true
		k := m.tracks[o.Path]
		if k == nil || !o.Same(k.last) {
			k = &track{qps: make(map[qpKey]*qpTrack)}
			m.tracks[o.Path] = k
		}
		a := k.update(o)
		m.adapters = append(m.adapters, a)
		t.add(a)
		processes[[2]uint64{o.PIDNS, uint64(o.PID)}] = processes[[2]uint64{o.PIDNS, uint64(o.PID)}] || o.Running
	}
	for path := range m.tracks {
		if !there[path] {
			delete(m.tracks, path)
		}
	}
	for _, running := range processes {
		t.processes++
		if !running {
			t.dead++
		}
	}
	if t.known && !before.IsZero() {
		t.sentHistory.add(before, now, t.sentBits)
		t.rcvdHistory.add(before, now, t.rcvdBits)
		t.mostSentBits, t.mostRcvdBit = max(t.mostSentBits, t.sentBits), max(t.mostRcvdBit, t.rcvdBits)
	}
	m.total = t
}

// update takes a read of the adapter.
func (k *track) update(o *observe.Adapter) *adapter {
	a := &adapter{Adapter: o, history: &k.history, connections: make([]connection, len(o.QPs)), queues: make([]queue, len(o.CQs))}
	was := k.last
	if was != nil && o.At.After(was.At) {
		a.known, a.change = true, o.Change(was)
	}
	k.round++
	for i := range o.QPs {
		q := &o.QPs[i]
		c := &a.connections[i]
		c.QP = q
		t := k.qps[keyOf(q)]
		if t == nil {
			t = &qpTrack{}
			k.qps[keyOf(q)] = t
		}
		if c.history = &t.history; a.known {
			c.known, c.change = true, q.Change(t.last, a.change.Elapsed)
			t.history.add(was.At, o.At, c.change.SentBits()+c.change.RcvdBits())
			a.sentMessages += c.change.SentRate()
			a.rcvdMessages += c.change.RcvdRate()
			a.sentBits += c.change.SentBits()
			a.rcvdBits += c.change.RcvdBits()
		}
		t.last, t.round = q, k.round
	}
	for key, t := range k.qps {
		if t.round != k.round {
			delete(k.qps, key)
		}
	}
	k.queues(a)
	if a.known {
		k.history.add(was.At, o.At, a.sentBits+a.rcvdBits)
	}
	k.last = o
	return a
}

// queues takes the completion queues.
func (k *track) queues(a *adapter) {
	now := make(map[uint32]*observe.CQ, len(a.CQs))
	for i := range a.CQs {
		q := &a.CQs[i]
		a.queues[i] = queue{CQ: q, known: a.known}
		var before uint64
		if was := k.cqs[q.Num]; was != nil {
			before = was.Produced
		}
		if a.known {
			a.queues[i].produced = observe.PerSecond(observe.Increase(q.Produced, before), a.change.Elapsed)
		}
		now[q.Num] = q
	}
	k.cqs = now
}

// add adds an adapter.
func (t *total) add(a *adapter) {
	t.qps += len(a.QPs)
	t.cqs += len(a.CQs)
	t.mrs += len(a.MRs)
	t.cms += len(a.CMIDs)
	t.errors += a.Counters.ReqCQEError + a.Counters.RespCQEError
	if !a.known {
		return
	}
	t.known = true
	t.sentMessages += a.sentMessages
	t.sentBits += a.sentBits
	t.rcvdMessages += a.rcvdMessages
	t.rcvdBits += a.rcvdBits
	c, d := &a.change.Counters, a.change.Elapsed
	t.retransmitted += observe.PerSecond(c.RetransPkts, d)
	t.timeouts += observe.PerSecond(c.LocalAckTimeoutErr, d)
	t.rnr += observe.PerSecond(c.RcvdRNRErr, d) + observe.PerSecond(c.SendRNRErr, d)
	for _, n := range c.Drops {
		t.drops += observe.PerSecond(n, d)
	}
}

// drops returns the dropped packets of all reasons.
func (a *adapter) drops() (n uint64) {
	for _, v := range a.Counters.Drops {
		n += v
	}
	return n
}

// peer returns the other end of a connection, if its adapter is shown.
func (m *Model) peer(c *connection) (*adapter, *connection) {
	if c.Peer == 0 || !c.Remote.IsValid() {
		return nil, nil
	}
	for _, a := range m.adapters {
		for i := range a.connections {
			p := &a.connections[i]
			if p != c && p.Num == c.Peer && (p.Type == ib.EEC) == (c.Type == ib.EEC) && p.Local == c.Remote && p.Remote == c.Local && p.Peer == c.Num {
				return a, p
			}
		}
	}
	return nil, nil
}
