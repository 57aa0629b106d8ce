package storm

import (
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
)

// plan holds the parameters that a seed draws: the size of the world, the
// timeouts of its programs, and the amount of each fault.
type plan struct {
	about string
	hosts int
	net   virtual.Faults
	loss  float64         // share of packets that are lost outside bursts and cuts
	acts  [numActions]int // weights
	gap   time.Duration   // mean time between actions

	// Codes of times, as CM messages have them.
	response uint8 // shortest response timeout of a request
	lifetime uint8 // shortest packet lifetime
	mra      uint8 // shortest service timeout of an MRA
	spread   int   // number of codes above the shortest
	retries  int   // maximum retries of a request

	limits cm.Limits
}

// One seed in calmShare has no faults except those of the programs themselves:
// there, no end may stay half open longer than its timers allow.
const calmShare = 16

// newPlan draws a plan.
func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, streamPlan))
	p := plan{hosts: 2 + r.IntN(4), response: 11, lifetime: 8, mra: 12, spread: 4, retries: 15}
	p.gap = time.Duration(1+r.IntN(12)) * time.Millisecond
	linux := r.IntN(10) == 0
	if linux { // the values of Linux's rdma_cm, and patient programs
		p.response, p.lifetime, p.mra, p.spread = cm.DefaultResponseTimeout, cm.DefaultLifetime, cm.DefaultMRATimeout, 1
		p.gap *= 200
	}
	p.drawNet(r)
	p.drawActions(r)
	if r.IntN(6) == 0 {
		p.limits = cm.Limits{MaxConns: 24 + r.IntN(40), MaxListeners: 64, MaxHalfOpen: 4 + r.IntN(12)}
	}
	p.about = "20 % loss"
	if r.IntN(calmShare) == 0 {
		p.calm()
	}
	if linux {
		p.about += ", timeouts of Linux"
	}
	if p.limits != (cm.Limits{}) {
		p.about += ", small limits"
	}
	return p
}

// loss is the share of packets that are lost outside bursts and cuts.
const loss = 0.2

func (p *plan) drawNet(r *rand.Rand) {
	p.loss = loss
	duplicated, delayed, repeated, damaged := r.Float64()*0.15, r.Float64()*0.15, r.Float64()*0.03, r.Float64()*0.03
	p.net = virtual.Faults{
		Odds: virtual.Odds{
			{Share: duplicated, Fate: virtual.Duplicated}, {Share: delayed, Fate: virtual.Delayed}, {Share: repeated, Fate: virtual.Repeated},
			{Share: 1 - duplicated - delayed - repeated - damaged, Fate: virtual.Whole}, {Share: damaged, Fate: virtual.Damaged},
		},
		Latency: time.Duration(20+r.IntN(500)) * time.Microsecond,
		Late:    virtual.Delay{Usual: p.interval() + 1},
		Again:   virtual.Delay{Usual: 6*mad.Timeout(mad.AckTimeout(ackDelay, p.lifetime+uint8(p.spread))) + 1},
		Damage:  virtual.Damage{Bits: 8},
	}
}

// interval returns the shortest time that a program waits for an answer.
func (p *plan) interval() time.Duration { return 2*mad.Timeout(p.lifetime) + mad.Timeout(p.response) }

// drawActions sets the weights of the actions.
func (p *plan) drawActions(r *rand.Rand) {
	for a := range p.acts {
		p.acts[a] = actionTable[a].least
		if m := actionTable[a].more; m > 0 {
			p.acts[a] += r.IntN(m + 1)
		}
	}
}

// calm removes all faults from the plan except those of the programs.
func (p *plan) calm() {
	p.about = "no loss"
	p.loss, p.net = 0, virtual.Faults{Latency: p.net.Latency}
	for a := range p.acts {
		if actionTable[a].fate {
			p.acts[a] = 0
		}
	}
}
