package conformance

import (
	"context"

	"github.com/softhca/softhca/ib"
)

// connected lists the messages of RC and UC: each operation in each size, from
// the beginning of a page, from an odd address, and gathered.
func connected(typ ib.QPType, mtu uint64) (all []operation) {
	opcodes := []ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm}
	largest := uint64(1 << 20)
	if typ == ib.RC {
		opcodes = append(opcodes, ib.WRRDMARead)
	} else {
		largest = 1 << 15 // UC and UD do not repeat what a full queue on the way drops of a burst
	}
	for _, op := range opcodes {
		for _, n := range []uint64{0, 1, mtu - 1, mtu, mtu + 1, largest} {
			all = append(all, operation{opcode: op, size: n})
			if n > 0 {
				all = append(all, operation{opcode: op, size: n, layout: unaligned})
			}
			if n > 4 {
				all = append(all, operation{opcode: op, size: n, layout: gathered})
			}
		}
		if op != ib.WRRDMARead {
			all = append(all, operation{opcode: op, size: 1, flags: ib.SendInline}, operation{opcode: op, size: 64, layout: gathered, flags: ib.SendInline})
		}
	}
	return all
}

func datagrams(mtu uint64) (all []operation) {
	for _, op := range []ib.WROpcode{ib.WRSend, ib.WRSendWithImm} {
		for _, n := range []uint64{0, 1, mtu - 1, mtu} {
			all = append(all, operation{opcode: op, size: n})
		}
		all = append(all, operation{opcode: op, size: mtu - 1, layout: unaligned}, operation{opcode: op, size: 63, layout: gathered},
			operation{opcode: op, size: 64, flags: ib.SendInline})
	}
	return all
}

// OperationGroups names the parts of Operations: the messages of each service,
// and cases of several operations.
func OperationGroups() []string { return []string{"RC", "UC", "UD", "together"} }

// Operations plays a group of operations between two ends.
func Operations(ctx context.Context, p Pair, group string) (all []Result) {
	mtu := uint64(p.MTU.Bytes())
	switch group {
	case "RC":
		return p.series(ctx, ib.RC, connected(ib.RC, mtu))
	case "UC":
		return p.series(ctx, ib.UC, connected(ib.UC, mtu))
	case "UD":
		return p.series(ctx, ib.UD, datagrams(mtu))
	default:
		for _, q := range sequences() {
			all = append(all, p.sequence(ctx, q))
		}
		return all
	}
}

// series plays messages over one connection. After one that breaks it, the rest
// uses a new connection.
func (p Pair) series(ctx context.Context, typ ib.QPType, list []operation) (all []Result) {
	var s *stand
	for _, o := range list {
		t := &steps{stand: s, judge: &judge{}, ctx: ctx}
		if s == nil {
			t = p.begin(ctx, p.plan(typ))
		}
		if t.err == nil {
			t.run(typ, o)
		}
		r := p.evidence(t.result(o.name(typ), t.err))
		if s = t.stand; r.Verdict == Fail {
			s = nil
		}
		all = append(all, r)
		if ctx.Err() != nil {
			return all
		}
	}
	return all
}
