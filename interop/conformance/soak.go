package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/ib"
)

// Soaking configures Soak.
type Soaking struct {
	Messages int // in total, of both directions
	Seed     uint64
	Rules    string         // fault rules; "" is one fault of each kind in 500 packets
	Progress func(done int) // may be nil
}

const usualSoak = "drop p=0.002 dir=both; dup p=0.002 dir=both; reorder p=0.002 dir=both; corrupt xor=1 p=0.002 dir=both"

// Soak sends messages of every kind over one connection, both directions at
// once, through a network with faults, and verifies each.
func Soak(ctx context.Context, open Open, how Soaking) Result {
	if how.Rules == "" {
		how.Rules = usualSoak
	}
	name := fmt.Sprintf("RC soak, %d messages", how.Messages)
	p, err := open(ctx, how.Rules)
	if err != nil {
		return (&judge{}).result(name, err)
	}
	at := time.Now()
	done := 0
	t := p.begin(ctx, p.hardy("soak"))
	if t.err == nil {
		done = t.soak(how)
	}
	if t.err != nil {
		t.err = fmt.Errorf("after %d messages, seed %d: %w", done, how.Seed, t.err)
	}
	t.note("seed %d", how.Seed)
	t.measure("%d messages in %s", done, time.Since(at).Round(time.Second))
	checkFaults(t.judge, p, Faulty{Rules: how.Rules})
	return p.closed(p.evidence(t.result(name, t.err)))
}

// soak sends batches until there are enough, or one is wrong.
func (t *steps) soak(how Soaking) (done int) {
	lanes := t.lanes()
	rng := rand.New(rand.NewPCG(how.Seed, 0))
	for seed := uint64(1); done < how.Messages && len(t.problems) == 0; seed += 2 {
		batches := [2]batch{draw(rng), draw(rng)}
		for i, l := range lanes {
			t.prepare(l, batches[i], seed+uint64(i))
		}
		for i, l := range lanes {
			t.start(l, batches[i])
		}
		for i, l := range lanes {
			t.collect(l.from.End, l.posted, lanes[1-i].received)
		}
		for i, l := range lanes {
			t.verifyBatch(l, batches[i])
		}
		if t.err != nil {
			t.err = fmt.Errorf("%s here, %s there: %w", batches[0], batches[1], t.err)
			return done
		}
		done += int(batches[0].count + batches[1].count)
		if how.Progress != nil {
			how.Progress(done)
		}
	}
	return done
}

// draw chooses a batch: mostly many small messages, now and then large ones.
func draw(rng *rand.Rand) batch {
	opcodes := [...]ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead}
	b := batch{opcode: opcodes[rng.IntN(len(opcodes))]}
	switch rng.IntN(10) {
	case 0:
		b.size = uint32(rng.IntN(60000))
	case 1, 2:
		b.size = uint32(rng.IntN(6000))
	default:
		b.size = uint32(rng.IntN(1300))
	}
	b.count = min(queueSizes.MaxSendWR, share/max(b.size, 1))
	return b
}
