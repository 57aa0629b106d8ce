package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/virtual"
)

// LossRatio is the throughput of one reliable connection with and without
// loss, in virtual time.
type LossRatio struct {
	Loss     float64 `json:"loss"`           // share of packets, in both directions
	Lossless float64 `json:"lossless_gbps"`  // Gb/s of payload
	Lossy    float64 `json:"lossy_gbps"`     // likewise
	Ratio    float64 `json:"ratio"`          // of the two
	Timeouts float64 `json:"timeouts_share"` // share of the retries caused by a timer
}

// String returns one line.
func (r LossRatio) String() string {
	return fmt.Sprintf("WRITE 64 KiB, path MTU 4096, a path of 10 Gb/s and a round trip of 100 µs, virtual time: %.3f Gb/s without loss, %.3f Gb/s with %.2g %% of packets lost: ratio %.4f (%.0f %% of the retries began with a timeout)",
		r.Lossless, r.Lossy, r.Loss*100, r.Ratio, r.Timeouts*100)
}

// The measurement.
const (
	measureBytes  = 64 << 20
	measureDepth  = 16 // requests outstanding
	measureSize   = 64 << 10
	measureLimit  = time.Hour // virtual
	measureOneWay = 50 * time.Microsecond
	measureRate   = 10e9 // bit/s
)

// MeasureLoss measures WRITEs of 64 KiB, 16 outstanding, with the usual
// timeout of 67 ms, on a long and fast path, without loss and with.
func MeasureLoss(loss float64) (LossRatio, error) {
	m := measurement{code: ib.WRRDMAWrite, mtu: ib.MTU4096, bytes: measureBytes}
	clean, err := m.run()
	if err != nil {
		return LossRatio{}, err
	}
	m.loss = loss
	lossy, err := m.run()
	if err != nil {
		return LossRatio{}, err
	}
	r := LossRatio{Loss: loss, Lossless: clean.gbps, Lossy: lossy.gbps, Ratio: lossy.gbps / clean.gbps}
	if lossy.retries > 0 {
		r.Timeouts = float64(lossy.timeouts) / float64(lossy.retries)
	}
	return r, nil
}

// measurement is a stream of requests of one kind from one adapter to another.
type measurement struct {
	code  ib.WROpcode
	mtu   ib.MTU
	loss  float64 // share of packets, in both directions
	bytes int
}

// measured is the result of a measurement.
type measured struct {
	gbps              float64
	packets           uint64 // sent by both
	retries, timeouts uint64 // of the requester
}

// start connects the two.
func (m *measurement) start() (*world, *end) {
	w := newWorld(Config{Seed: 1, Profile: "clean"}, virtual.Config{Seed: 1})
	w.plan.nodes, w.plan.slot, w.plan.inOrder = 2, measureSize, 0
	w.plan.net.Latency, w.plan.net.rate = measureOneWay, measureRate
	if m.loss > 0 {
		w.plan.has = loss
		w.plan.net.Odds[0].Share = m.loss
	}
	w.text = newText(measureSize)
	w.Net.Faults, w.ports = w.plan.net.Faults, w.plan.net.ports
	w.plan.pairs = 0
	w.setUp()
	p := &pair{types: [2]ib.QPType{ib.RC, ib.RC}, mtu: m.mtu, at: [2]*node{w.nodes[0], w.nodes[1]}}
	w.pairs = []*pair{p}
	r := rand.New(rand.NewPCG(1, 1))
	w.connect(p, r, false)
	for _, e := range p.ends {
		e.resume()
		e.modify(&ib.QPAttr{State: ib.SQD}, ib.AttrState)
		e.terms.timeout, e.terms.retryCnt, e.terms.depth = 14, 7, measureDepth
		a := e.attr()
		a.State = ib.SQD
		e.modify(&a, ib.AttrState|ib.AttrTimeout|ib.AttrRetryCnt|ib.AttrMaxRDAtomic|ib.AttrMaxDestRDAtomic)
		e.modify(&ib.QPAttr{State: ib.RTS}, ib.AttrState)
	}
	return w, p.ends[0]
}

func (m *measurement) run() (measured, error) {
	w, e := m.start()
	begin, bytes := w.Now, 0
	for w.Violation == nil && bytes < m.bytes {
		for e.state == ib.RTS && len(e.sq) < measureDepth && e.transfer(m.code) {
		}
		if e.state != ib.RTS { // later requests would be flushed forever
			return measured{}, fmt.Errorf("sim: with %v of the packets lost the retries do not suffice", m.loss)
		}
		before := w.Completions
		for w.Completions == before && w.Step(w, begin.Add(measureLimit)) {
		}
		if w.Completions == before {
			return measured{}, fmt.Errorf("sim: %v do not complete within %v", m.code, measureLimit)
		}
		bytes += int(w.Completions-before) * measureSize
		e.node.poll(e.sendQ, len(w.wcs))
	}
	if w.Violation != nil {
		return measured{}, w.Violation
	}
	c := e.node.HCA.Counters()
	return measured{
		gbps: float64(bytes) * 8 / w.Now.Sub(begin).Seconds() / 1e9, packets: w.Packets,
		retries: c.CompleterRetryErr, timeouts: c.LocalAckTimeoutErr,
	}, nil
}

// transfer posts a WRITE or READ of a whole slot, if one is free.
func (e *end) transfer(code ib.WROpcode) bool {
	o := &op{end: e, id: e.w.nextID(false), code: code, length: measureSize, signaled: true}
	o.target = &e.peer.space.remote.slots[int(o.id>>1)%len(e.peer.space.remote.slots)]
	s := &e.space.local.slots[0]
	if code == ib.WRRDMARead {
		if !o.land() {
			return false
		}
		s = o.destination
	} else {
		o.data = e.w.text.pattern(0, measureSize)
		s.fill(o.data)
	}
	o.wr.SGList, o.wr.RemoteAddr, o.wr.RKey = pieces(s, measureSize, 1), o.target.addr(), o.target.area.rkey()
	e.post(o)
	e.node.wake(e)
	return true
}
