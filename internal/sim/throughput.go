package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/ib"
)

// LossRatio is the throughput of one reliable connection with and without
// loss, in virtual time.
type LossRatio struct {
	Loss     float64 `json:"loss"`           // share of packets, in both directions
	Lossless float64 `json:"lossless_gbps"`  // Gb/s of payload
	Lossy    float64 `json:"lossy_gbps"`     // likewise
	Ratio    float64 `json:"ratio"`          // of the two
	Timeouts float64 `json:"timeouts_share"` // share of the retries that a timer began
}

// String returns one line.
func (r LossRatio) String() string {
	return fmt.Sprintf("WRITE 64 KiB, path MTU 1024, round trip 20 µs, virtual time, a network without a limit of its own: %.3f Gb/s without loss, %.3f Gb/s with %.2g %% of packets lost: ratio %.4f (%.0f %% of the retries began with a timeout)",
		r.Lossless, r.Lossy, r.Loss*100, r.Ratio, r.Timeouts*100)
}

// The measurement.
const (
	measureBytes = 64 << 20
	measureDepth = 16 // WRITEs outstanding
	measureSize  = 64 << 10
	measureLimit = time.Hour // virtual
)

// MeasureLoss measures WRITEs of 64 KiB, 16 outstanding, with the usual
// timeout of 67 ms, without loss and with.
func MeasureLoss(loss float64) (LossRatio, error) {
	clean, _, err := measureWrites(0)
	if err != nil {
		return LossRatio{}, err
	}
	lossy, timeouts, err := measureWrites(loss)
	if err != nil {
		return LossRatio{}, err
	}
	return LossRatio{Loss: loss, Lossless: clean, Lossy: lossy, Ratio: lossy / clean, Timeouts: timeouts}, nil
}

func measureWrites(share float64) (gbps, timeouts float64, err error) {
	w := newWorld(Config{Seed: 1, Ops: 0, Profile: "clean", Ladder: 16})
	w.plan.nodes, w.plan.slot, w.plan.inOrder = 2, measureSize, 0
	w.plan.net = faults{loss: share, latency: 10 * time.Microsecond, buffer: 1 << 20}
	if share > 0 {
		w.plan.has = loss
	}
	w.text = newText(measureSize)
	w.net.init(w.plan.net, 1)
	w.plan.pairs = 0
	w.setUp()
	p := &pair{typ: ib.RC, mtu: ib.MTU1024, at: [2]*node{w.nodes[0], w.nodes[1]}}
	w.pairs = []*pair{p}
	r := rand.New(rand.NewPCG(1, 1))
	w.connect(p, r, false)
	e := p.ends[0]
	e.modify(&ib.QPAttr{State: ib.SQD}, ib.AttrState)
	e.terms.timeout, e.terms.retryCnt = 14, 7
	a := e.attr()
	e.modify(&ib.QPAttr{State: ib.SQD, Timeout: a.Timeout, RetryCnt: a.RetryCnt}, ib.AttrState|ib.AttrTimeout|ib.AttrRetryCnt)
	e.modify(&ib.QPAttr{State: ib.RTS}, ib.AttrState)
	begin, bytes := w.now, 0
	for w.violation == nil && bytes < measureBytes {
		for e.state == ib.RTS && len(e.sq) < measureDepth {
			e.writeWhole()
		}
		if e.state != ib.RTS { // what is posted now would be flushed, for ever
			return 0, 0, fmt.Errorf("sim: with %v of the packets lost the retries do not suffice", share)
		}
		before := w.completions
		for w.completions == before && w.step(begin.Add(measureLimit)) {
		}
		if w.completions == before {
			return 0, 0, fmt.Errorf("sim: WRITEs do not complete within %v", measureLimit)
		}
		bytes += int(w.completions-before) * measureSize
		e.node.poll(e.sendQ, len(w.wcs))
	}
	if w.violation != nil {
		return 0, 0, w.violation
	}
	c := e.node.hca.Counters()
	if c.CompleterRetryErr > 0 {
		timeouts = float64(c.LocalAckTimeoutErr) / float64(c.CompleterRetryErr)
	}
	return float64(bytes) * 8 / w.now.Sub(begin).Seconds() / 1e9, timeouts, nil
}

// writeWhole posts a WRITE of a whole slot.
func (e *end) writeWhole() {
	o := &op{end: e, id: e.w.nextID(false), code: ib.WRRDMAWrite, length: measureSize, signaled: true}
	o.target = &e.peer.space.remote.slots[int(o.id>>1)%len(e.peer.space.remote.slots)]
	o.data = e.w.pattern(0, measureSize)
	s := &e.space.local.slots[0]
	s.fill(o.data)
	e.post(o, &ib.SendWR{
		WRID: o.id, Opcode: o.code, Flags: ib.SendSignaled, SGList: pieces(s, measureSize, 1),
		RemoteAddr: o.target.addr(), RKey: o.target.area.mr.RKey(),
	})
	e.node.wake(e)
}
