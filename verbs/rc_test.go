package verbs

import (
	"bytes"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// pattern fills b with bytes that depend on position and seed.
func pattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte((i + seed) * 7 >> 3)
	}
}

func testWrite(t *testing.T, a, b *endpoint) {
	t.Helper()
	src := a.mr.Bytes()[:1<<20]
	pattern(src, 0)
	for round := range 8 {
		wr := a.write(uint64(round), 1<<20, b)
		wr.RemoteAddr += uint64(round&1) << 20
		must.Do(t, a.qp.PostSend(wr))
	}
	a.wait(t, 8)
	b.settle(t)
	if !bytes.Equal(b.mr.Bytes()[:1<<20], src) || !bytes.Equal(b.mr.Bytes()[1<<20:2<<20], src) {
		t.Fatal("WRITE placed other bytes")
	}
}

func testRead(t *testing.T, a, b *endpoint) {
	t.Helper()
	const n = 1<<20 - 5
	remote := b.mr.Bytes()[2<<20:][:n]
	b.settle(t)
	pattern(remote, 3)
	b.settle(t)
	must.Do(t, a.qp.PostSend(SendWR{
		WRID: 1, Opcode: ib.WRRDMARead, SGList: []SGE{a.mr.SGE(2<<20, 1000), a.mr.SGE(3<<20, n-1000)},
		RemoteAddr: b.mr.Addr() + 2<<20, RKey: b.mr.RKey(),
	}))
	wc := a.wait(t, 1)[0]
	if wc.Opcode != ib.WCRDMARead || wc.ByteLen != n {
		t.Errorf("completion of the READ: %v of %d bytes", wc.Opcode, wc.ByteLen)
	}
	if !bytes.Equal(a.mr.Bytes()[2<<20:][:1000], remote[:1000]) || !bytes.Equal(a.mr.Bytes()[3<<20:][:n-1000], remote[1000:]) {
		t.Fatal("READ brought other bytes")
	}
}

// testSend sends messages with and without immediate, of sizes around the
// path MTU.
func testSend(t *testing.T, a, b *endpoint) {
	t.Helper()
	sizes := []uint32{0, 1, 3, 4095, 4096, 4097, 3*4096 + 1}
	if a.qp.Type() == ib.UD {
		sizes = sizes[:4]
	}
	var ah *AH
	if a.qp.Type() == ib.UD {
		h, err := a.pd.CreateAH(a.attrs(b).AV)
		must.Do(t, err)
		ah = h
	}
	const area = 64 << 10
	for i := range sizes {
		must.Do(t, b.qp.PostRecv(b.recv(uint64(i), uint64(i)*area, area)))
	}
	for i, n := range sizes {
		wr := a.send(uint64(i), n)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.qp.QPN(), testQKey
		if i%2 == 1 {
			wr.Opcode, wr.ImmData = ib.WRSendWithImm, 0xcafe0000+uint32(i)
		}
		must.Do(t, a.qp.PostSend(wr))
	}
	a.wait(t, len(sizes))
	for i, wc := range b.wait(t, len(sizes)) {
		skip := uint32(0)
		if a.qp.Type() == ib.UD {
			skip = 40 // the GRH area
		}
		if wc.WRID != uint64(i) || wc.Opcode != ib.WCRecv || wc.ByteLen != sizes[i]+skip {
			t.Errorf("receive %d of %d bytes: %+v", i, sizes[i], wc)
		}
		if imm := wc.Flags&ib.WCWithImm != 0; imm != (i%2 == 1) || imm && wc.ImmData != 0xcafe0000+uint32(i) {
			t.Errorf("receive %d: flags %#x, immediate %#x", i, wc.Flags, wc.ImmData)
		}
		if got := b.mr.Bytes()[i*area:][skip:wc.ByteLen]; !bytes.Equal(got, a.mr.Bytes()[:sizes[i]]) {
			t.Errorf("receive %d of %d bytes holds other bytes", i, sizes[i])
		}
	}
}

func testAtomics(t *testing.T, a, b *endpoint) {
	t.Helper()
	word := b.mr.Bytes()[:8]
	b.settle(t)
	copy(word, []byte{5, 0, 0, 0, 0, 0, 0, 0})
	b.settle(t)
	wr := SendWR{
		WRID: 1, Opcode: ib.WRAtomicFetchAdd, SGList: []SGE{a.mr.SGE(0, 8)}, CompareAdd: 3,
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}
	swap := wr
	swap.WRID, swap.Opcode, swap.SGList = 2, ib.WRAtomicCmpAndSwp, []SGE{a.mr.SGE(8, 8)}
	swap.CompareAdd, swap.Swap = 8, 9
	must.Do(t, a.qp.PostSend(wr, swap))
	a.wait(t, 2)
	b.settle(t)
	if a.mr.Bytes()[0] != 5 || a.mr.Bytes()[8] != 8 || word[0] != 9 {
		t.Errorf("fetch&add brought %d, compare&swap %d, the word is %d; want 5, 8, 9", a.mr.Bytes()[0], a.mr.Bytes()[8], word[0])
	}
}

// testAtomicWrite stores 8 bytes from memory and inline, and flushes them.
func testAtomicWrite(t *testing.T, a, b *endpoint) {
	t.Helper()
	b.settle(t)
	must.Do(t, b.mr.ReregAccess(AccessLocalWrite|AccessRemote|AccessFlushGlobal))
	copy(a.mr.Bytes(), "listed!!")
	wr := SendWR{
		WRID: 1, Opcode: WRAtomicWrite, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey(),
	}
	inline, flush := wr, wr
	inline.WRID, inline.SGList, inline.Flags, inline.InlineData = 2, nil, SendInline, []byte("inlined!")
	inline.RemoteAddr += 8
	flush.WRID, flush.Opcode, flush.SGList, flush.Flush = 3, WRFlush, nil, Flush{Length: 16, Type: FlushGlobal}
	must.Do(t, a.qp.PostSend(wr, inline, flush))
	for i, wc := range a.wait(t, 3) {
		if want := []WCOpcode{WCAtomicWrite, WCAtomicWrite, WCFlush}[i]; wc.Opcode != want || wc.WRID != uint64(i+1) {
			t.Errorf("completion %d is %+v, want %v", i, wc, want)
		}
	}
	b.settle(t)
	if got := string(b.mr.Bytes()[64:80]); got != "listed!!inlined!" {
		t.Errorf("the peer's memory holds %q", got)
	}
	flush.Flush.Type = FlushPersistent
	must.Do(t, a.qp.PostSend(flush))
	if wc := a.take(t, 1)[0]; wc.Status != WCRemAccessErr {
		t.Errorf("FLUSH for persistence of a region without it: %v", wc.Status)
	}
}

func TestRCInProcess(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	testWrite(t, a, b)
	testRead(t, a, b)
	testSend(t, a, b)
	testAtomics(t, a, b)
	testAtomicWrite(t, a, b)
}
