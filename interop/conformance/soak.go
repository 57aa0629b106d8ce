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
	j := &judge{}
	at := time.Now()
	done, err := p.soak(ctx, j, how)
	if err != nil {
		err = fmt.Errorf("after %d messages, seed %d: %w", done, how.Seed, err)
	}
	j.note("seed %d", how.Seed)
	j.measure("%d messages in %s", done, time.Since(at).Round(time.Second))
	checkFaults(j, p, Faulty{Rules: how.Rules})
	return p.closed(p.evidence(j.result(name, err)))
}

func (p Pair) soak(ctx context.Context, j *judge, how Soaking) (done int, err error) {
	s, _, err := p.build(ctx, p.hardy("soak"))
	if err != nil {
		return 0, err
	}
	lanes := s.lanes()
	rng := rand.New(rand.NewPCG(how.Seed, 0))
	for seed := uint64(1); done < how.Messages && len(j.problems) == 0; seed += 2 {
		batches := [2]batch{draw(rng), draw(rng)}
		for i, l := range lanes {
			if err := l.prepare(ctx, batches[i], seed+uint64(i)); err != nil {
				return done, err
			}
		}
		for i, l := range lanes {
			if err := l.start(ctx, batches[i]); err != nil {
				return done, err
			}
		}
		for i, l := range lanes {
			if err := collect(ctx, j, l.from.End, l.posted, lanes[1-i].received); err != nil {
				return done, fmt.Errorf("%s here, %s there: %w", batches[0], batches[1], err)
			}
		}
		for i, l := range lanes {
			if err := l.verify(ctx, j, batches[i]); err != nil {
				return done, err
			}
			done += int(batches[i].count)
		}
		if how.Progress != nil {
			how.Progress(done)
		}
	}
	return done, nil
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
