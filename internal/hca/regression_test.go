package hca

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// The flaws that adapters in software are known to have had, as far as they
// need more than one adapter or more packets than a script can show; the
// others are scripts.

// TestE7_E10_UnassignedOpcodes shows that each of the opcodes that nobody
// assigned is dropped as malformed, whatever follows it, by every service.
func TestE7_E10_UnassignedOpcodes(t *testing.T) {
	for _, typ := range userTypes {
		s := newSolo(t, soloConfig{typ: typ, hca: Config{Privileged: true}})
		s.recv(1, 600)
		dropped := uint64(0)
		for op := range 256 {
			if roce.Opcode(op).Info().Known {
				continue
			}
			for _, n := range []int{0, 4, 28, 256} {
				b := make([]byte, roce.BTHLen+n+roce.ICRCLen)
				p := s.packet(roce.Opcode(op), soloPeerPSN, nil)
				p.PutHeaders(b)
				s.deliver(s.sealed(b))
				dropped++
			}
		}
		s.wantSilence("opcodes that nobody assigned", s.out(), ib.RTS)
		if n := s.counters().Drops[counters.DropMalformed]; n != dropped || n == 0 {
			t.Errorf("%v: %d of %d packets with unassigned opcodes are counted as malformed", typ, n, dropped)
		}
	}
}

// TestE7_ShortPackets shows that a packet that ends inside its headers, or
// whose pad count is more than there is to pad, is dropped as malformed, for
// every opcode and length.
func TestE7_ShortPackets(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.recv(1, 600)
	sent := uint64(0)
	for op := range 256 {
		info := roce.Opcode(op).Info()
		if !info.Known {
			continue
		}
		p := s.packet(roce.Opcode(op), soloPeerPSN, nil)
		whole := make([]byte, roce.Size(roce.Opcode(op), 0))
		p.Build(whole)
		for n := 1; n < len(whole); n++ {
			d := fabric.Datagram{Bytes: bytes.Clone(whole[:n]), Src: s.peer, Dst: s.addr, DstPort: fabric.RoCEPort, IDKnown: true}
			if n >= roce.MinSize { // shorter ones have no ICRC
				d = s.sealed(d.Bytes)
			}
			s.deliver(d)
			sent++
		}
		for pad := byte(1); pad < 4; pad++ { // pads a payload that is not there
			b := bytes.Clone(whole)
			b[1] |= pad << 4
			s.deliver(s.sealed(b))
			sent++
		}
	}
	s.wantSilence("packets cut inside their headers", s.out(), ib.RTS)
	if n := s.counters().Drops[counters.DropMalformed]; n != sent {
		t.Errorf("%d of %d short packets are counted as malformed", n, sent)
	}
}

// TestE14_TopOfTheAddressSpace shows that address and length that wrap at
// 2^64 reach nothing, for a region that ends there: neither by WRITE, READ and
// atomic nor by a duplicate READ, whose address is compared with the original.
func TestE14_TopOfTheAddressSpace(t *testing.T) {
	const size = 4096
	top := func(t *testing.T) (s *solo, mem []byte, start uint64) {
		s = newSolo(t, soloConfig{})
		mem = make([]byte, size)
		start = 1<<64 - size
		mr, err := s.pd.RegMR(memory.RegionConfig{Buf: mem, IOVA: start, Access: ib.AccessLocalWrite | ib.AccessRemote})
		must(t, err)
		s.mr = mr
		return s, mem, start
	}
	for _, c := range []struct {
		op     roce.Opcode
		va     uint64 // from the start of the region
		length uint32
		ok     bool
	}{
		{roce.RCRDMAReadRequest, size - 8, 8, true},
		{roce.RCRDMAReadRequest, size - 8, 9, false},
		{roce.RCRDMAReadRequest, size - 1, 1 << 31, false},
		{roce.RCRDMAReadRequest, size, 1, false}, // address 0
		{roce.RCRDMAReadRequest, 1<<64 - 1, 8, false},
		{roce.RCRDMAWriteOnly, size - 8, 8, true},
		{roce.RCRDMAWriteOnly, size - 7, 8, false},
		{roce.RCRDMAWriteFirst, size - 256, 512, false},
		{roce.RCFetchAdd, size - 8, 8, true},
		{roce.RCFetchAdd, size, 8, false},
	} {
		s, mem, start := top(t)
		p := s.packet(c.op, soloPeerPSN, nil)
		if p.BTH.Opcode.Info().Kind == roce.KindWrite {
			p.Payload = bytes.Repeat([]byte{7}, int(min(c.length, 256)))
		}
		p.RETH = roce.RETH{VA: start + c.va, RKey: s.mr.RKey(), Length: c.length}
		p.AtomicETH = roce.AtomicETH{VA: start + c.va, RKey: s.mr.RKey(), SwapAdd: 7}
		got := s.inject(p)
		refused := len(got) == 1 && sigOf(&got[0]) == ack(roce.NAKRemoteAccess, soloPeerPSN)
		if refused == c.ok || len(got) != 1 {
			t.Errorf("%v of %d bytes at the region's start + %#x: answered by %v", c.op, c.length, c.va, got)
		}
		if !c.ok && !bytes.Equal(mem, make([]byte, size)) {
			t.Errorf("%v of %d bytes at the region's start + %#x changed memory", c.op, c.length, c.va)
		}
	}
	s, _, start := top(t)
	read := s.packet(roce.RCRDMAReadRequest, soloPeerPSN, nil)
	read.RETH = roce.RETH{VA: start + size - 600, RKey: s.mr.RKey(), Length: 600}
	s.inject(read)
	for _, c := range []struct {
		psn, length uint32
		va          uint64
	}{
		{0x101, 345, start + size - 344}, {0x101, 1<<32 - 1, start + size - 344}, {0x102, 89, start + size - 88},
		{0x102, 88, start + size - 88 - 1}, {0x102, 1<<32 - 512, start + size - 88}, {0x101, 344, start + size - 344 - 1<<32},
	} {
		p := read
		p.BTH.PSN, p.RETH.VA, p.RETH.Length = ib.NewPSN(c.psn), c.va, c.length
		s.wantSilence("a duplicate READ past the top", s.inject(p), ib.RTS)
	}
}

// TestE11_ResourcesChangeUnderReads shows that the depth of the responder may
// be changed, as software may in SQD, while READs are answered: all of them
// are answered in full, in order, and afterwards as many are kept as agreed.
func TestE11_ResourcesChangeUnderReads(t *testing.T) {
	for _, depth := range []uint8{1, 2, 4, 16} {
		s := newSolo(t, soloConfig{batch: maxPacket})
		fill(s.buf, 11)
		const reads, n = 4, 32 << 8 // each of 32 packets: two batches at least
		for i := range uint32(reads) {
			p := s.read(soloPeerPSN+32*i, n)
			p.RETH.VA += uint64(i) * n
			s.deliver(s.datagram(p))
		}
		s.hca.Shard().Transmit(s.now, s.batch) // some of the first
		got := s.packets()
		s.batch.Reset()
		s.modify(ib.SQD)
		must(t, s.qp.Modify(s.now, &ib.QPAttr{MaxDestRDAtomic: depth}, ib.AttrMaxDestRDAtomic))
		s.modify(ib.RTS)
		s.deliver(s.datagram(s.fetchAdd(soloPeerPSN+reads*32, soloBytes-8, 1))) // needs a place too
		rest := s.out()
		if got == 0 || got+len(rest) != reads*32+1 {
			t.Fatalf("depth %d: %d responses before the change and %d after, want %d in all", depth, got, len(rest), reads*32+1)
		}
		for i, p := range rest[:len(rest)-1] {
			k := got + i
			if p.BTH.PSN != ib.NewPSN(uint32(soloPeerPSN+k)) || !bytes.Equal(p.Payload, s.buf[k<<8:(k+1)<<8]) {
				t.Fatalf("depth %d: response %d has PSN %v or other bytes", depth, k, p.BTH.PSN)
			}
		}
		s.inject(s.fetchAdd(soloPeerPSN+reads*32+1, 0, 1))
		for back := range uint32(reads) { // of the READs, the newest first
			p := s.read(soloPeerPSN+32*(reads-1-back), n)
			p.RETH.VA += uint64(reads-1-back) * n
			kept := back+2 < uint32(depth) // two atomics came after
			if answered := len(s.inject(p)) != 0; answered != kept {
				t.Errorf("depth %d: the READ %d back is answered again: %v", depth, back+1, answered)
			}
		}
	}
}

// TestE2_TooManyElements shows that a work request with more elements than the
// queue has room for is refused before anything is written, on both queues and
// on an SRQ, and that those before it in the list stay posted.
func TestE2_TooManyElements(t *testing.T) {
	s := newSolo(t, soloConfig{})
	srq, err := s.pd.CreateSRQ(4, 2, 0)
	must(t, err)
	for _, n := range []int{3, 4, 255, 256, 258, 1 << 16} { // 2 fit; some wrap a byte
		list := make([]ib.SGE, n)
		for i := range list {
			list[i] = s.sge(i%soloBytes, 1)
		}
		bad := ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: list}
		if k, err := s.qp.PostSend(s.wr(ib.WRSend, 1, 0, 1), bad); k != 1 || !errors.Is(err, ib.EINVAL) {
			t.Errorf("a send of %d elements: %d posted, %v", n, k, err)
		}
		if k, err := s.qp.PostRecv(ib.RecvWR{WRID: 3}, ib.RecvWR{WRID: 4, SGList: list}); k != 1 || !errors.Is(err, ib.EINVAL) {
			t.Errorf("a receive of %d elements: %d posted, %v", n, k, err)
		}
		if err := srq.PostRecv(&ib.RecvWR{SGList: list}); !errors.Is(err, ib.EINVAL) {
			t.Errorf("a receive of %d elements into an SRQ: %v", n, err)
		}
	}
	s.hca.Shard().RingDoorbell(s.qp)
	if got := s.out(); len(got) != 6 {
		t.Errorf("%d packets are sent, want the 6 requests that were posted", len(got))
	}
}

// crowd is how many pairs of queue pairs TestQ8_ManyQPs connects.
const crowd = 200

// TestQ8_ManyQPs shows that the queue pairs of an adapter do not get into each
// other's way: a crowd of them between two adapters, over a network that loses
// packets, with every operation; each completes its own, in order and once.
func TestQ8_ManyQPs(t *testing.T) {
	const seed = 8
	t.Logf("seed %d", seed)
	r, pairs := newCrowd(t, crowd)
	src := rand.New(rand.NewPCG(seed, seed))
	r.drop = func(int, *roce.Packet) bool { return src.IntN(100) < 2 }
	a, b := r.side[0], r.side[1]
	fill(a.buf[:crowd*1024], seed)
	for i := range crowd {
		a.qp, b.qp = pairs[0][i], pairs[1][i]
		r.recv(1, ib.RecvWR{WRID: 9, SGList: []ib.SGE{b.sge(1<<20+i*1024, 1024)}})
		remote := b.mr.Addr() + uint64(i)*1024
		data := []ib.SGE{a.sge(i*1024, 1024)}
		r.post(0,
			ib.SendWR{WRID: 0, Opcode: ib.WRRDMAWrite, SGList: data, RemoteAddr: remote, RKey: b.mr.RKey()},
			ib.SendWR{WRID: 1, Opcode: ib.WRSend, SGList: data},
			ib.SendWR{WRID: 2, Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.sge(1<<20+i*1024, 1024)}, RemoteAddr: remote, RKey: b.mr.RKey()},
			ib.SendWR{WRID: 3, Opcode: ib.WRAtomicFetchAdd, SGList: []ib.SGE{a.sge(2<<20+i*8, 8)}, RemoteAddr: b.mr.Addr() + 3<<20, RKey: b.mr.RKey(), CompareAdd: 1})
	}
	next := map[ib.QPN]uint64{}
	sent, received := 0, 0
	r.run(time.Minute, func() bool {
		for _, wc := range r.poll(0) {
			if wc.Status != ib.WCSuccess || wc.WRID != next[wc.QPN] {
				t.Fatalf("QP %v completes %d with %v, want %d with SUCCESS", wc.QPN, wc.WRID, wc.Status, next[wc.QPN])
			}
			next[wc.QPN]++
			sent++
		}
		received += len(r.poll(1))
		return sent == 4*crowd && received == crowd
	})
	if sent != 4*crowd || received != crowd {
		t.Fatalf("%d of %d sends and %d of %d receives complete", sent, 4*crowd, received, crowd)
	}
	for what, have := range map[string][]byte{"WRITE": b.buf[:crowd*1024], "SEND": b.buf[1<<20:][:crowd*1024], "READ": a.buf[1<<20:][:crowd*1024]} {
		if !bytes.Equal(have, a.buf[:crowd*1024]) {
			t.Errorf("%s placed other bytes", what)
		}
	}
	checkTickets(t, a.buf[2<<20:], binary.NativeEndian.Uint64(b.buf[3<<20:]))
	if c := a.hca.Counters(); c.RetransPkts == 0 {
		t.Error("nothing was sent again: the test shows nothing about loss")
	}
}

// newCrowd connects n pairs of queue pairs between two adapters.
func newCrowd(t *testing.T, n int) (r *rig, pairs [2][]*qp.QP) {
	t.Helper()
	r = newRig(t, ib.RC, rigCap)
	for i, s := range r.side {
		var err error
		s.cq, err = s.hca.CreateCQ(8*uint32(n), nil)
		must(t, err)
		for range n {
			q, err := s.hca.CreateQP(s.pd, QPConfig{Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, Cap: rigCap, SigAll: true})
			must(t, err)
			pairs[i] = append(pairs[i], q)
		}
	}
	for k := range n {
		r.side[0].qp, r.side[1].qp = pairs[0][k], pairs[1][k]
		r.connect(ib.MTU256)
	}
	return r, pairs
}

// checkTickets checks the results of the crowd's FETCH_ADDs of 1 to one word:
// every number from 0 on was given out once.
func checkTickets(t *testing.T, results []byte, total uint64) {
	t.Helper()
	if total != crowd {
		t.Errorf("%d additions of 1 make %d", crowd, total)
	}
	var seen [crowd]bool
	for i := range crowd {
		v := binary.NativeEndian.Uint64(results[i*8:])
		if v >= crowd || seen[v] {
			t.Errorf("an addition returned %d, which is too much or a second time", v)
			continue
		}
		seen[v] = true
	}
}
