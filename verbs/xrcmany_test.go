package verbs

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// xrcRun sends messages over several connections to the two shared receive queues of a target's
// side, through a network that loses, repeats and delays packets. A message begins with its
// connection, its number among those of the connection to the same queue, and the queue.
type xrcRun struct {
	t       *testing.T
	a       *endpoint
	b       *xrcTarget
	inis    []*QP
	conns   map[QPN]int // connection of a target
	sent    [4][2]uint32
	arrived [4][2]uint32
}

// TestM4_ManyConnectionsToFewQueues sends at random over four connections to two queues. Each
// message arrives once, whole, in the queue that it names, and those of one connection in order.
func TestM4_ManyConnectionsToFewQueues(t *testing.T) {
	for seed := range uint64(4) {
		a, b := newXRCAt(t, Faults{Rules: "drop p=0.02\ndup p=0.02\ndelay 1ms p=0.02", Seed: seed + 1})
		w := &xrcRun{t: t, a: a, b: b, conns: map[QPN]int{b.target.QPN(): 0}, inis: []*QP{a.qp}}
		for i := range 3 {
			init := &QPInitAttr{Type: XRCIni, SendCQ: a.cq, SQSig: ib.SigAll, Cap: QPCap{MaxSendWR: 8, MaxSendSGE: 1}}
			ini, err := a.pd.CreateQP(init)
			must.Do(t, err)
			tgt, err := b.domain.CreateQP()
			must.Do(t, err)
			joinXRC(t, a, b, ini, tgt)
			w.inis, w.conns[tgt.QPN()] = append(w.inis, ini), i+1
		}
		w.run(rand.New(rand.NewPCG(seed, 4)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// run sends and receives one message at a time of each connection, 200 times.
func (w *xrcRun) run(r *rand.Rand) {
	const size = 3000
	for range 200 {
		var want [2]int
		for c, ini := range w.inis {
			k := r.IntN(2)
			w.b.receiveAt(w.t, k, uint64(want[k]*4096), size)
			n := uint32(12 + r.IntN(size-12))
			w.fill(c, k, n)
			wr := SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []SGE{w.a.mr.SGE(uint64(c*size), n)}, RemoteSRQN: w.b.srqs[k].Number()}
			must.Do(w.t, ini.PostSend(wr))
			want[k]++
		}
		for k, n := range want {
			for range n {
				w.check(k, w.b.took(w.t, k))
			}
		}
		w.a.wait(w.t, len(w.inis))
	}
}

// fill writes the next message of connection c to queue k, of n bytes.
func (w *xrcRun) fill(c, k int, n uint32) {
	m := w.a.mr.Bytes()[c*3000:][:n]
	for i := range m {
		m[i] = byte(c + k + i + int(w.sent[c][k]))
	}
	binary.LittleEndian.PutUint32(m, uint32(c))
	binary.LittleEndian.PutUint32(m[4:], w.sent[c][k])
	binary.LittleEndian.PutUint32(m[8:], uint32(k))
	w.sent[c][k]++
}

// check checks a received message of queue k.
func (w *xrcRun) check(k int, wc WC) {
	w.t.Helper()
	w.b.settle(w.t)
	m := w.b.mrs[k].Bytes()[wc.WRID:][:wc.ByteLen]
	c, number, queue := int(binary.LittleEndian.Uint32(m)), binary.LittleEndian.Uint32(m[4:]), binary.LittleEndian.Uint32(m[8:])
	if wc.Status != ib.WCSuccess || c != w.conns[wc.QPN] || queue != uint32(k) || number != w.arrived[c][k] {
		w.t.Fatalf("queue %d: %+v has message %d of connection %d to queue %d, want number %d", k, wc, number, c, queue, w.arrived[c][k])
	}
	for i := 12; i < len(m); i++ {
		if m[i] != byte(c+k+i+int(number)) {
			w.t.Fatalf("message %d of connection %d is damaged at byte %d", number, c, i)
		}
	}
	w.arrived[c][k]++
}
