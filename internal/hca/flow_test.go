package hca

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

var rigCap = ib.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64}

// transfers are one work request of each kind, of n bytes.
func transfers(r *rig, n int) []ib.SendWR {
	a, b := r.side[0], r.side[1]
	base := ib.SendWR{SGList: []ib.SGE{a.sge(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	var wrs []ib.SendWR
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRSend, ib.WRRDMAWriteWithImm, ib.WRSendWithImm, ib.WRRDMARead} {
		wr := base
		wr.Opcode, wr.WRID, wr.ImmData = op, uint64(len(wrs)), 0xcafe0000+uint32(op)
		if op == ib.WRRDMARead {
			wr.SGList = []ib.SGE{a.sge(2<<20, n)}
		}
		wrs = append(wrs, wr)
	}
	return wrs
}

// TestTransfers moves messages of awkward lengths with every operation at
// every path MTU and compares the memory.
func TestTransfers(t *testing.T) {
	for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
		m := mtu.Bytes()
		for _, n := range []int{0, 1, 3, 64, m - 1, m, m + 1, 2 * m, 3*m + 5, 1 << 20} {
			checkTransfers(t, mtu, n, nil)
		}
	}
}

func checkTransfers(t *testing.T, mtu ib.MTU, n int, drop func(int, *roce.Packet) bool) {
	t.Helper()
	r := newRig(t, ib.RC, rigCap).connect(mtu)
	r.drop = drop
	a, b := r.side[0], r.side[1]
	fill(a.buf[:n], uint64(n)+1)
	for i := range 3 {
		r.recv(1, ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{b.sge(1<<20, n/2), b.sge(1<<20+n/2, n-n/2)}})
	}
	wrs := transfers(r, n)
	for _, wr := range wrs {
		r.post(0, wr)
	}
	var sent, got []ib.WC
	r.run(time.Minute, func() bool {
		sent = append(sent, r.poll(0)...)
		got = append(got, r.poll(1)...)
		return len(sent) == len(wrs) && len(got) == 3
	})
	if len(sent) != len(wrs) || len(got) != 3 {
		t.Fatalf("mtu %d, %d bytes: %d of %d sends and %d of 3 receives completed; states %v %v",
			mtu.Bytes(), n, len(sent), len(wrs), len(got), a.qp.State(), b.qp.State())
	}
	for i, wc := range sent {
		if wc.Status != ib.WCSuccess || wc.WRID != uint64(i) {
			t.Fatalf("mtu %d, %d bytes: send completion %d: %+v", mtu.Bytes(), n, i, wc)
		}
	}
	for i, wc := range got {
		if wc.Status != ib.WCSuccess || wc.WRID != uint64(i) || wc.ByteLen != uint32(n) {
			t.Fatalf("mtu %d, %d bytes: receive completion %d: %+v", mtu.Bytes(), n, i, wc)
		}
	}
	want := a.buf[:n]
	for what, have := range map[string][]byte{"WRITE": b.buf[:n], "SEND": b.buf[1<<20 : 1<<20+n], "READ": a.buf[2<<20 : 2<<20+n]} {
		if !bytes.Equal(have, want) {
			t.Fatalf("mtu %d, %d bytes: %s placed other bytes", mtu.Bytes(), n, what)
		}
	}
}

// TestTransfersUnderLoss does the same while packets are lost both ways.
func TestTransfersUnderLoss(t *testing.T) {
	for seed := uint64(1); seed <= 60; seed++ {
		src := rand.New(rand.NewPCG(seed, seed))
		t.Logf("seed %d", seed)
		drop := func(int, *roce.Packet) bool { return src.IntN(100) < 4 }
		checkTransfers(t, ib.MTU(1+seed%5), 1+src.IntN(100_000), drop)
	}
}

// deepRig returns two adapters with a connection that has so many READs and
// atomics outstanding, and that many bytes of window; 0 for the usual window.
func deepRig(t testing.TB, depth uint8, window int) *rig {
	r := &rig{t: t}
	for i := range r.side {
		c := rigConfig{typ: ib.RC, cap: ib.QPCap{MaxSendWR: 512, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}, bytes: 64 << 10}
		c.hca.Settings.WindowBytes = window
		r.side[i] = c.newSide(t, byte(i+1))
	}
	for i := range r.side {
		a := r.attrs(i, ib.MTU4096)
		a.MaxRDAtomic, a.MaxDestRDAtomic = depth, depth
		r.walk(i, a, ib.RTS)
	}
	return r
}

// TestReadsFillTheWindow counts the requests of 8 bytes that leave before
// anything is answered: a READ asks the window for what its answer takes, as a
// WRITE does for itself, so as many are in flight, up to the depth of the
// connection; and all of them arrive.
func TestReadsFillTheWindow(t *testing.T) {
	const posted, maxDepth = 300, 128
	inFlight := func(op ib.WROpcode, depth uint8, window int) int {
		f := newFlightOn(deepRig(t, depth, window), op, 8)
		for range posted {
			f.post(0, f.wr)
		}
		n := 0
		f.side[0].hca.Shard().Transmit(f.now, f.side[0].batch)
		for _, run := range f.side[0].batch.Pending() {
			n += int(run.Count)
		}
		f.arrive(0)
		done := 0
		f.run(time.Minute, func() bool {
			for _, wc := range f.poll(0) {
				if done++; wc.Status != ib.WCSuccess {
					t.Fatalf("%v ended with %v", op, wc.Status)
				}
			}
			return done == posted
		})
		if done != posted {
			t.Fatalf("%d of %d messages are complete", done, posted)
		}
		return n
	}
	for _, window := range []int{8 << 10, 20 << 10, 64 << 10, 0} {
		writes := inFlight(ib.WRRDMAWrite, maxDepth, window)
		for _, depth := range []uint8{1, 31, 32, maxDepth} {
			want := min(writes, int(depth))
			for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAdd} {
				if got := inFlight(op, depth, window); got != want {
					t.Errorf("window %d, depth %d: %d %v in flight, want %d where %d WRITEs are", window, depth, got, op, want, writes)
				}
			}
		}
	}
	if n := inFlight(ib.WRRDMARead, maxDepth, 0); n != maxDepth {
		t.Errorf("the usual window lets %d READs of 8 bytes out, want the depth of %d", n, maxDepth)
	}
}
