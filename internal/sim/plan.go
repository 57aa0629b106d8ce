package sim

import (
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/internal/virtual"
)

// plan holds the parameters that a seed draws for a profile: the size of the
// world and the amount of each feature.
type plan struct {
	has   feature
	nodes int
	pairs int
	net   faults
	acts  [numActions]int // weights

	gap      time.Duration // mean time between actions
	recvs    int           // number of receives that a program keeps posted
	cqe      uint32        // entries of a CQ
	batch    int           // bytes of a transmit batch
	slot     int           // bytes of the longest message
	rnrRetry uint8
	inOrder  float64 // share of go-back-N adapters
	near     hosts
}

// hosts are the parameters of runs with shared memory.
type hosts struct {
	hosts    []int   // that of each node; nodes of one host may share memory
	ring     int     // bytes of each ring
	full     bool    // threads stop more often than they meet, so that rings become full
	refusals float64 // share of invitations that are refused
	polls    float64 // share of reads that found nothing after which a thread reads again
}

// faults are the faults of the network and the limits of its ports.
type faults struct {
	virtual.Faults
	ports
}

// ports holds the limits of the adapters' ports.
type ports struct {
	jitter time.Duration // of arrivals
	rate   float64       // bit/s; 0: no limit
	buffer int           // maximum number of packets on the way to an adapter
}

// noLimit is a buffer that never overflows.
const noLimit = 1 << 20

// newPlan draws a plan.
func newPlan(c *Config) plan {
	r := rand.New(rand.NewPCG(c.Seed, streamPlan))
	profile, _ := findProfile(c.Profile)
	p := plan{has: profile.has}
	if profile.mixes {
		has := feature(r.Uint32())
		if r.IntN(2) == 0 { // fewer features act more often
			has &= feature(r.Uint32())
		}
		p.has |= has & allFeatures &^ (longMessages | ownFeatures)
	}
	if p.on(nastiness) {
		p.has &^= smallCQs // an overflow would come later
	}
	p.drawNear(rand.New(rand.NewPCG(c.Seed, streamNear)), &profile)
	p.nodes = 2 + r.IntN(3)
	p.pairs = 2 + r.IntN(4)
	p.gap = time.Duration(2+r.IntN(60)) * time.Microsecond
	p.recvs = 8 + r.IntN(24)
	p.cqe = 1024
	p.batch = 64 << 10
	p.slot = 256 << r.IntN(4)
	if p.near.full {
		p.slot = 2048
	}
	p.rnrRetry, p.inOrder = 7, 1.0/3
	p.drawNet(r)
	p.drawHost(r)
	p.drawActions(r)
	if p.on(sharedMemory) {
		p.acts[actMeet], p.acts[actGarble], p.acts[actStall] = 15, 2, 2
		if p.near.full {
			p.acts[actMeet], p.acts[actStall] = 2, 12
		}
		p.acts[actRestart] = max(p.acts[actRestart], 1)
	}
	return p
}

// drawNear draws whether processes share memory, from numbers of its own: so the rest of the plan
// is the same with and without. They do in a quarter of the runs that mix features.
func (p *plan) drawNear(r *rand.Rand, profile *Profile) {
	all := profile.Name == nearby
	if mixes := profile.mixes || profile.Name == "chaos"; !all && (!mixes || r.IntN(4) > 0) {
		return
	}
	p.has |= sharedMemory
	if all && r.IntN(4) == 0 {
		p.has = sharedMemory // nothing else can harm a packet
	}
	const mostNodes = 4
	for range mostNodes {
		p.near.hosts = append(p.near.hosts, r.IntN(4)/3)
	}
	if p.near.full = r.IntN(2) == 0; p.near.full {
		p.near.ring = 16 << 10
	} else {
		p.near.ring = 16 << 10 << r.IntN(4)
	}
	p.near.polls = [...]float64{0.25, 0.5, 0.95}[r.IntN(3)]
	if r.IntN(2) == 0 {
		p.near.refusals = r.Float64()
	}
}

// on reports whether a feature is in the plan.
func (p *plan) on(f feature) bool { return p.has&f != 0 }

func (p *plan) drawNet(r *rand.Rand) {
	share := func(f feature, most float64) float64 {
		v := r.Float64() * most
		if !p.on(f) {
			return 0
		}
		return v
	}
	p.net = faults{virtual.Faults{
		Odds: virtual.Odds{
			{Share: share(loss, 0.05), Fate: virtual.Lost}, {Share: share(duplication, 0.05), Fate: virtual.Duplicated},
			{Share: share(reordering, 0.05), Fate: virtual.Delayed}, {Share: share(corruption, 0.03), Fate: virtual.Damaged},
		},
		Latency: time.Duration(1+r.IntN(30)) * time.Microsecond,
		Late:    virtual.Delay{Usual: 200 * time.Microsecond, Long: 20 * time.Millisecond},
		Damage:  virtual.Damage{Bits: 8, Resize: true},
	}, ports{buffer: noLimit}}
	if p.on(reordering) {
		p.net.jitter = time.Duration(r.IntN(5)) * time.Microsecond
	}
	if p.on(tightBuffers) {
		p.net.buffer = 8 + r.IntN(56)
	}
}

func (p *plan) drawHost(r *rand.Rand) {
	if p.on(smallBatches) {
		p.batch = 4160 + r.IntN(8192)
	}
	if p.on(lateReceives) {
		p.recvs = 1 + r.IntN(4)
		if r.IntN(2) == 0 {
			p.rnrRetry = uint8(r.IntN(7))
		}
	}
	if p.on(smallCQs) {
		p.cqe = 8<<r.IntN(3) - 1
	}
	if p.on(longMessages) {
		p.slot, p.pairs, p.nodes, p.batch = 16<<10, 4, 2, 256<<10
		p.net.Odds[0].Share = min(p.net.Odds[0].Share, 0.01)
	}
}

// drawActions sets the weights of the actions.
func (p *plan) drawActions(r *rand.Rand) {
	p.acts[actSend], p.acts[actRecv], p.acts[actPoll] = 100, 60, 60
	some := func(f feature, most int, as ...action) {
		for _, a := range as {
			n := 1 + r.IntN(most)
			if p.on(f) {
				p.acts[a] = n
			}
		}
	}
	some(lateReceives, 1, actShortRecv)
	some(badRequests, 3, actBadSend, actBadRecv, actShortRecv)
	some(badRequests, 8, actRefused)
	some(deregistration, 3, actDeregRemote, actDeregLocal)
	some(lifecycle, 4, actToERR, actToRESET, actReconnect, actDestroy)
	some(lifecycle, 8, actRefused)
	some(draining, 8, actSQD)
	some(smallCQs, 3, actResizeCQ)
	some(restarts, 2, actRestart)
	some(partitions, 2, actPartition)
	some(clockJumps, 2, actJump)
	some(forgery, 20, actForge)
	some(migration, 20, actRearm)
	some(migration, 3, actMigrate, actCutPath, actLoseAddress)
	// Broken connections are repaired eventually.
	p.acts[actMend] = 20
	if p.on(lateReceives) {
		p.acts[actRecv] = 25
	}
	if p.on(xrc | windows) {
		p.acts[actBadSend] *= 4
	}
	if p.on(moderation) {
		p.acts[actArm], p.acts[actModerate] = 60, 6+r.IntN(20)
	}
	if p.on(xrc) && p.on(lifecycle) {
		p.acts[actDestroySRQ] = 1 + r.IntN(4)
	}
}
