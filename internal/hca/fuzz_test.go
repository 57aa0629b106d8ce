package hca

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// The input of FuzzShard is a choice of a queue pair and a list of packets,
// each behind its length. A packet that parses is aimed at that queue pair,
// or the fuzzer would never get past a 24-bit number and a 32-bit key: its
// destination is set, its PSN counts from what is expected, and fuzzKey and
// low addresses stand for the region. Every packet gets the right ICRC.
const fuzzKey ib.RKey = 0x66757a7a

// Sizes and counts of a fuzzed adapter.
const (
	fuzzBytes  = 4096
	fuzzGuard  = 512
	fuzzCanary = 0xc5
	fuzzSends  = 4
	fuzzRecvs  = 4
)

// fuzzed is an adapter under attack.
type fuzzed struct {
	*solo
	memory   []byte // guard, region, guard
	readOnly []byte // a region that peers may read
	private  []byte // a region of the program alone
	posted   map[uint64]bool
}

func newFuzzed(t *testing.T, choice byte) *fuzzed {
	typ := userTypes[int(choice)%len(userTypes)]
	states := reachable(typ)
	s := inState(t, typ, states[int(choice>>2)%len(states)])
	f := &fuzzed{solo: s, posted: map[uint64]bool{}}
	f.memory = bytes.Repeat([]byte{fuzzCanary}, fuzzBytes+2*fuzzGuard)
	f.readOnly = bytes.Repeat([]byte{fuzzCanary}, 256)
	f.private = bytes.Repeat([]byte{fuzzCanary}, 256)
	must(t, s.pd.DeregMR(s.mr))
	var err error
	for _, c := range []memory.RegionConfig{
		{Buf: f.readOnly, IOVA: 1 << 33, Access: ib.AccessRemoteRead},
		{Buf: f.private, IOVA: 1 << 34, Access: ib.AccessLocalWrite},
		{Buf: f.memory[fuzzGuard:][:fuzzBytes], IOVA: 1 << 32, Access: anyAccess, Invalidatable: true},
	} {
		s.mr, err = s.pd.RegMR(c)
		must(t, err)
	}
	for i := range uint64(fuzzRecvs) {
		if _, err := s.qp.PostRecv(ib.RecvWR{WRID: i, SGList: []ib.SGE{s.sge(0, 300)}}); err == nil {
			f.posted[i] = false
		}
	}
	ops := []ib.WROpcode{ib.WRSend, ib.WRRDMARead, ib.WRAtomicFetchAdd, ib.WRRDMAWrite}
	for i, op := range ops[:fuzzSends] {
		n := 600
		if op == ib.WRAtomicFetchAdd {
			n = 8
		}
		id := uint64(100 + i)
		if _, err := s.qp.PostSend(s.wr(op, id, 1024, n)); err == nil {
			f.posted[id] = false
		}
	}
	s.hca.Shard().Ring(s.qp)
	s.out()
	return f
}

// aim makes a packet of the input one for the queue pair.
func (f *fuzzed) aim(b []byte) []byte {
	b = append(bytes.Clone(b), 0, 0, 0, 0) // room for the ICRC
	var p roce.Packet
	if p.Parse(b) != roce.FaultNone {
		return b
	}
	base := uint32(soloPeerPSN)
	if p.Info.Flags&roce.FlagResponse != 0 {
		base = soloPSN
	}
	p.BTH.DestQP = f.qp.Num()
	p.BTH.PSN = p.BTH.PSN.Add(base)
	if p.BTH.PKey&1 == 1 {
		p.BTH.PKey = ib.PKeyDefault
	}
	if p.DETH.QKey == soloQKey {
		p.DETH.QKey = f.attr.QKey
	}
	for _, key := range []*ib.RKey{&p.RETH.RKey, &p.AtomicETH.RKey, &p.InvRKey} {
		if *key == fuzzKey {
			*key = f.mr.RKey()
		}
	}
	for _, va := range []*uint64{&p.RETH.VA, &p.AtomicETH.VA} {
		if *va < 1<<16 {
			*va += f.mr.Addr()
		}
	}
	pad := p.BTH.PadCnt
	out := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(out)
	out[1] = out[1]&^0x30 | pad<<4 // a wrong pad count is worth a try
	return out
}

// check looks at what must hold after every packet.
func (f *fuzzed) check(t *testing.T, before ib.QPState) {
	after := f.qp.State()
	if after != before && (after != ib.ERR || before < ib.RTR) {
		t.Fatalf("a packet moved a %v queue pair from %v to %v", f.qp.Type(), before, after)
	}
	outside := [][]byte{f.memory[:fuzzGuard], f.memory[fuzzGuard+fuzzBytes:], f.readOnly, f.private}
	for i, b := range outside {
		if bytes.Count(b, []byte{fuzzCanary}) != len(b) {
			t.Fatalf("memory that no peer may write (%d) has changed", i)
		}
	}
	f.reap(t)
}

// reap takes the completions: each is of something posted, and the only one.
func (f *fuzzed) reap(t *testing.T) {
	for _, wc := range f.poll() {
		done, posted := f.posted[wc.WRID]
		if done || !posted || wc.QPN != f.qp.Num() {
			t.Fatalf("completion %+v of what was posted %v, complete before %v", wc, posted, done)
		}
		f.posted[wc.WRID] = true
	}
}

// FuzzShard hands arbitrary packets to a live queue pair of every type and
// state: it must not panic, nor change memory outside the regions that a peer
// may write, nor move but to ERR, nor complete anything twice; what it sends
// must be packets. When the peer falls silent every send completes.
func FuzzShard(f *testing.F) {
	for i, seed := range fuzzSeeds(f) {
		f.Add(byte(i), seed)
		f.Add(byte(12), seed)    // RC in RTS
		f.Add(byte(8+i&3), seed) // RTR, RTS and others
	}
	f.Fuzz(func(t *testing.T, choice byte, in []byte) {
		s := newFuzzed(t, choice)
		for n := 0; len(in) > 2 && n < 64; n++ {
			size := min(int(binary.BigEndian.Uint16(in)), len(in)-2)
			b := s.aim(in[2 : 2+size])
			in = in[2+size:]
			before := s.qp.State()
			if len(b) < roce.MinSize {
				d := s.sealed(make([]byte, roce.MinSize))
				d.Bytes = d.Bytes[:len(b)]
				s.deliver(d)
			} else {
				s.deliver(s.sealed(b))
			}
			s.out()
			s.check(t, before)
		}
		s.pass(time.Hour)
		s.reap(t)
		for id, done := range s.posted {
			if st := s.qp.State(); id >= 100 && !done && (st == ib.RTS || st >= ib.SQE) {
				t.Fatalf("send %d never completes in %v", id, st)
			}
		}
	})
}

// fuzzSeeds returns inputs of real packets: of every opcode and flow the
// first few, and whole short conversations.
func fuzzSeeds(f *testing.F) (seeds [][]byte) {
	names, err := filepath.Glob(capturesGlob)
	must(f, err)
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

// fuzzPacket turns a captured packet into an element of the input, with PSNs
// that count from first.
func fuzzPacket(p *roce.Packet, first ib.PSN) []byte {
	q := *p
	q.BTH.PSN = ib.NewPSN(q.BTH.PSN.Distance(first))
	q.RETH.RKey, q.AtomicETH.RKey, q.InvRKey = fuzzKey, fuzzKey, fuzzKey
	q.RETH.VA &= 0xff8
	q.AtomicETH.VA &= 0xff8
	q.DETH.QKey = soloQKey
	b := make([]byte, roce.Size(q.BTH.Opcode, len(q.Payload)))
	q.Build(b)
	b = b[:len(b)-roce.ICRCLen]
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}
