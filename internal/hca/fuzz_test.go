package hca_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

// fuzzKey represents the key of the open region in a seed.
const fuzzKey ib.RKey = 0x66757a7a

// attack runs a program and lets what it started come to an end. It returns
// how many packets arrived.
func attack(t testing.TB, b []byte) int { return attackOn(t, b).arrivals }

// attackOn runs an attack and returns the victim.
func attackOn(t testing.TB, b []byte) *victim {
	p := &program{b: b}
	v := newVictim(t, p)
	v.check()
	p.run(v)
	v.finish()
	return v
}

// FuzzShard lets arbitrary programs attack a live queue pair of every type, and an
// EE context, in every state: packets of any content in any order, mixed with time, posts, modify
// calls and regions that come and go. The adapter must not panic, nor touch
// memory that the peer has no right to, nor give it away, nor move but where
// the rules lead, nor complete anything twice or out of order, nor grow; what
// it sends must be packets for the peer, and when the peer falls silent every
// send completes.
func FuzzShard(f *testing.F) {
	for i, seed := range programSeeds(f) {
		f.Add(append([]byte{byte(i), byte(i / 5), byte(i * 7), byte(i * 5)}, seed...))
		f.Add(append([]byte{byte(i), 3, 0, 0}, seed...)) // in RTS
	}
	f.Fuzz(func(t *testing.T, b []byte) { attack(t, b) })
}

// FuzzReceive hands datagrams to a live queue pair as they stand, ICRC and all,
// merged or not: the seeds are intact packets, so what the fuzzer makes of them
// was changed on the way. Every segment is counted once, as received or as
// dropped, and nothing that is wrong gets further than that.
func FuzzReceive(f *testing.F) {
	for choice := range byte(len(victimTypes)) {
		for op := range 256 {
			if !roce.Opcode(op).Info().Known {
				continue
			}
			v := newVictim(f, &program{b: []byte{choice, 3}})
			packet := v.Packet(roce.Opcode(op), rig.PeerPSN, bytes.Repeat([]byte{1}, 8))
			one, two := v.Datagram(packet), v.Datagram(packet)
			f.Add(choice, uint16(0), one.Bytes)
			f.Add(choice, uint16(len(one.Bytes)), slices.Concat(one.Bytes, two.Bytes))
			if v.Deliver(one); roce.Opcode(op).Service() == services[v.QP.Type()] && v.Counters().RcvdPkts != 1 {
				f.Fatalf("the seed for %v does not arrive: %+v", roce.Opcode(op), v.Counters())
			}
		}
	}
	f.Fuzz(func(t *testing.T, choice byte, stride uint16, b []byte) {
		if len(b) > 1<<12 || stride != 0 && len(b)/int(stride) > 64 {
			return // more segments than a port delivers
		}
		v := newVictim(t, &program{b: []byte{choice, 3, choice & 1, choice & 128}})
		d := v.Sealed(make([]byte, roce.MinSize))
		d.Bytes, d.Stride, d.ID = bytes.Clone(b), int(stride), 0
		d.IDKnown = !v.hidden
		segments := uint64(0)
		for off := 0; off < len(b); segments++ {
			_, off = d.Segment(off)
		}
		v.Deliver(d)
		c := v.Counters()
		counted := c.RcvdPkts
		for _, drop := range []counters.Drop{
			counters.DropMalformed, counters.DropICRC, counters.DropAddress, counters.DropNoQP, counters.DropNoEEC, counters.DropService, counters.DropPKey, counters.DropQKey,
		} {
			counted += c.Drops[drop]
		}
		// Requests after a refused one are received and dropped because of the state.
		if counted > segments || counted+c.Drops[counters.DropState] < segments {
			t.Fatalf("%d segments arrived, %d are counted: %+v", segments, counted, c)
		}
		v.flush()
		v.check()
		v.finish()
	})
}

var (
	attackSeed    = flag.Uint64("attack-seed", 1, "first seed of TestAttacks")
	attackPackets = flag.Int("attack-packets", 200_000, "packets of TestAttacks")
)

// TestAttacks runs FuzzShard's programs as a seeded source makes them: seeds
// that are cut, spliced and changed, and bytes without a plan.
func TestAttacks(t *testing.T) {
	seeds := programSeeds(t)
	packets, n := 0, *attackSeed
	defer func() {
		if packets < *attackPackets {
			t.Logf("to run it again: -attack-seed=%d -attack-packets=1", n)
		}
	}()
	for ; packets < *attackPackets; n++ {
		packets += attack(t, randomProgram(rand.New(rand.NewPCG(n, 3)), seeds))
	}
}

// TestV15_MigrationAttacks runs programs that flip MigReq, from the primary path,
// the alternate one and elsewhere, while queue pairs arm and migrate.
func TestV15_MigrationAttacks(t *testing.T) {
	seeds := migrationSeeds()
	packets, migrated, failed, n := 0, 0, 0, *attackSeed
	for ; packets < *attackPackets/4; n++ {
		v := attackOn(t, randomProgram(rand.New(rand.NewPCG(n, 15)), seeds))
		packets, migrated, failed = packets+v.arrivals, migrated+v.migrated, failed+v.told(ib.EventPathMigErr)
	}
	t.Logf("%d packets, %d migrations, %d times PATH_MIG_ERR", packets, migrated, failed)
	if *attackPackets >= 100_000 && (migrated == 0 || failed == 0) {
		t.Error("the attacks show nothing")
	}
}

// TestV18_ChannelAttacks runs such programs against an EE context and its queue pair:
// numbers that are guessed, other queue pairs' numbers, RESYNCs by the dozen, from
// the right path and wrong ones, while it is reset, drained, and migrates.
func TestV18_ChannelAttacks(t *testing.T) {
	seeds := slices.Concat(migrationSeeds(), channelSeeds())
	packets, migrated, resynced, n := 0, 0, uint64(0), *attackSeed
	for ; packets < *attackPackets/4; n++ {
		b := randomProgram(rand.New(rand.NewPCG(n, 18)), seeds)
		b[0] = byte(slices.Index(victimTypes, ib.RD))
		v := attackOn(t, b)
		packets, migrated, resynced = packets+v.arrivals, migrated+v.migrated, resynced+v.counts.Resyncs
	}
	t.Logf("%d packets, %d migrations, %d RESYNCs of the victim", packets, migrated, resynced)
	if *attackPackets >= 100_000 && (migrated == 0 || resynced == 0) {
		t.Error("the attacks show nothing")
	}
}

// channelSeeds returns instructions against an EE context: every opcode, valid,
// for another EE context, for another queue pair, and from elsewhere; RESYNCs at
// PSNs around the expected one, and in the middle of messages; and messages of
// its own that are refused.
func channelSeeds() (seeds [][]byte) {
	packet := func(op roce.Opcode, dpsn, size, how byte) []byte {
		return []byte{byte(stepPacket), byte(op), dpsn, 0x10, size, 1, byte(roce.ACKUnlimited), 1, how}
	}
	recv := []byte{byte(stepRecv), 0, byte(stepRecv), 1}
	for op := roce.RDSendFirst; op <= roce.RDResync; op++ {
		for _, how := range []byte{0, 6, 7, 8} {
			seeds = append(seeds, slices.Concat(recv, packet(op, 0, 0, how), packet(op, 0xff, 0, how)))
		}
	}
	for _, dpsn := range []byte{0, 1, 100, 0xff} {
		resync := packet(roce.RDResync, dpsn, 0, 0)
		seeds = append(seeds, slices.Concat(recv, packet(roce.RDSendFirst, 0, 0, 0), resync, resync, packet(roce.RDSendOnly, 0, 4, 0)))
		seeds = append(seeds, bytes.Repeat(resync, 12), slices.Concat(packet(roce.RDRDMAReadRequest, 0, 0xb0, 0), resync))
	}
	for _, nak := range []roce.Syndrome{roce.RNRNAK(1), roce.NAKInvalidRequest, roce.NAKRemoteAccess, roce.NAKInvalidRD, roce.NAKSequence} {
		seeds = append(seeds, []byte{
			byte(stepSend), 1, 5, 1, 2, byte(stepSend), 0, 5, 1, 2, byte(stepAnswer), 1, 0, byte(nak), 1, byte(stepTimer), byte(stepAnswer), 0, 0, byte(roce.ACKUnlimited), 2,
			byte(stepModify), byte(ib.RTS), 16, 0, 0, 0, 1,
		})
	}
	armed := []byte{byte(stepMove), byte(ib.RTS), 0, 0, 4, 0x40, 0}
	return append(seeds, slices.Concat(armed, []byte{byte(stepPacket), byte(roce.RDResync), 0, 0, 0, 1, 0, 0, 0}, []byte{byte(stepPacket), byte(roce.RDResync), 0, 0, 0, 5, 0, 0, 5}))
}

// randomProgram makes a program of parts of the seeds and of random bytes.
func randomProgram(r *rand.Rand, seeds [][]byte) []byte {
	b := []byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}
	if r.IntN(2) == 0 {
		b[1] = b[1]&^31 | 3 // in RTS
	}
	for len(b) < 600 {
		part := append([]byte(nil), seeds[r.IntN(len(seeds))]...)
		if r.IntN(3) == 0 {
			part = make([]byte, 40)
			for i := range part {
				part[i] = byte(r.Uint32())
			}
		}
		for range r.IntN(4) {
			if len(part) > 0 {
				part[r.IntN(len(part))] = byte(r.Uint32())
			}
		}
		b = append(b, part...)
	}
	return b
}

// programSeeds returns instructions to begin with: every opcode at the
// expected PSN and around it, whole messages with every accident, the life of
// work requests, and what Linux sent.
func programSeeds(f testing.TB) (seeds [][]byte) {
	post := []byte{byte(stepRecv), 0, byte(stepRecv), 1, byte(stepRecv), 4}
	for op := range 256 {
		if !roce.Opcode(op).Info().Known {
			continue
		}
		packet := func(dpsn, where, size byte) []byte {
			return []byte{byte(stepPacket), byte(op), dpsn, where, size, 1, byte(roce.ACKUnlimited), 1, 0}
		}
		seeds = append(seeds, append(append(append([]byte(nil), post...), packet(0, 0x10, 0)...), packet(0xff, 0x10, 0x24)...))
	}
	for kind := range byte(4) {
		for accident := range byte(6) {
			seeds = append(seeds, append(append([]byte(nil), post...), byte(stepMessage), kind, 4, 0, accident|8, byte(stepMessage), kind, 0, 0, 0))
		}
	}
	for op := range byte(8) {
		size := byte(5)
		if op == 3 || op == 4 {
			size = 0
		}
		life := []byte{byte(stepSend), op, size, 1, 2, byte(stepSend), op, size, 2, 3}
		for _, syndrome := range []roce.Syndrome{roce.ACKUnlimited, 0, roce.RNRNAK(1), roce.NAKSequence, roce.NAKRemoteAccess} {
			answered := append(append([]byte(nil), life...), byte(stepAnswer), 1, 0, byte(syndrome), 1, byte(stepTimer), byte(stepAnswer), 0, 0, byte(roce.ACKUnlimited), 2)
			seeds = append(seeds, answered)
		}
		for wrong := byte(0); wrong < 128; wrong += 16 {
			seeds = append(seeds, append(append([]byte(nil), life...), byte(stepAnswer), wrong|1, 0, 0, 1, byte(stepAnswer), wrong, 0, 0, 2))
		}
		seeds = append(seeds, []byte{byte(stepSend), op, size | 0xf8, 1, 2, byte(stepAnswer), 0, 0, 0, 1}) // a bad lkey
		seeds = append(seeds, append(life, byte(stepMove), byte(ib.SQD), 9, 0, 0, 0, 0, byte(stepTimer), byte(stepMove), byte(ib.RTS), 4|32, 0, 0, 1, 0))
	}
	seeds = append(seeds,
		bytes.Repeat([]byte{byte(stepSend), 1, 5, 1, 2}, 20),                                            // more than a window
		bytes.Repeat([]byte{byte(stepPacket), byte(roce.RCRDMAReadRequest), 0, 0, 0xb0, 1, 0, 0, 0}, 4), // more than a batch
		[]byte{byte(stepMove), byte(ib.RESET), 0, 0, 0, 0, 0, byte(stepMove), byte(ib.INIT), 0, 0, 0, 0, 0, byte(stepMove), byte(ib.RTR), 1, 0, 0, 0, 0, byte(stepMove), byte(ib.RTS), 1, 0, 0, 0, 0},
		[]byte{byte(stepModify), byte(ib.ERR), 0, 0, 0, 0, 1, byte(stepPoll), 0, byte(stepRegion), byte(stepWait), 12, byte(stepHold), 1, byte(stepHold), 2},
		[]byte{byte(stepDamaged), 0, 9, 1},
	)
	return slices.Concat(seeds, migrationSeeds(), windowSeeds(), capturedSeeds(f))
}

// migrationSeeds returns instructions that arm a queue pair, and packets that say
// that the peer has moved: from the alternate path and from the primary one, at
// the expected PSN and beside it.
func migrationSeeds() (seeds [][]byte) {
	rearm := []byte{byte(stepMove), byte(ib.RTS), 0, 0, 4, 0x40, 0} // PATH_MIG_STATE and ALT_PATH
	for _, op := range []roce.Opcode{roce.RCRDMAWriteOnly, roce.UCRDMAWriteOnly} {
		packet := func(dpsn, flags, how byte) []byte {
			return []byte{byte(stepPacket), byte(op), dpsn, 0x10, 4, flags, 0, 1, how}
		}
		armed := slices.Concat(rearm, packet(0, 1, 0))
		for _, dpsn := range []byte{0, 1, 0xff} {
			for _, how := range []byte{0, 5} {
				seeds = append(seeds, slices.Concat(armed, packet(dpsn, 5, how), packet(0, 1, 0), packet(0, 5, 5)))
			}
		}
	}
	return seeds
}

// capturedSeeds returns instructions that deliver what Linux sent: of every
// opcode and flow the first few, and whole short conversations.
func capturedSeeds(f testing.TB) (seeds [][]byte) {
	names, err := filepath.Glob(capturesGlob)
	rig.Must(f, err)
	seen := map[roce.Opcode]int{}
	for _, name := range names {
		for _, flow := range loadFlows(f, name) {
			var talk []byte
			for _, list := range [][]captured{flow.requests, flow.replies} {
				for i := range list {
					p := list[i].p
					if len(p.Payload) > 256 || len(talk) > 1500 {
						continue
					}
					b := fuzzPacket(&p, list[0].p.BTH.PSN)
					talk = append(talk, b...)
					if seen[p.BTH.Opcode]++; seen[p.BTH.Opcode] <= 2 {
						seeds = append(seeds, b)
					}
				}
			}
			if len(talk) < 700 {
				seeds = append(seeds, talk)
			}
		}
	}
	if len(seeds) < 50 {
		f.Fatalf("the captures give %d seeds", len(seeds))
	}
	return seeds
}

// fuzzPacket turns a captured packet into an instruction, with PSNs that count
// from first.
func fuzzPacket(p *roce.Packet, first ib.PSN) []byte {
	q := *p
	q.BTH.PSN = ib.NewPSN(q.BTH.PSN.Distance(first))
	q.RETH.RKey, q.AtomicETH.RKey, q.InvRKey = fuzzKey, fuzzKey, fuzzKey
	q.RETH.VA &= 0xff8
	q.AtomicETH.VA &= 0xff8
	q.DETH.QKey = rig.QKey
	b := make([]byte, roce.Size(q.BTH.Opcode, len(q.Payload)))
	q.Build(b)
	b = b[:len(b)-roce.ICRCLen]
	return append(binary.BigEndian.AppendUint16([]byte{byte(stepRaw)}, uint16(len(b))), b...)
}
