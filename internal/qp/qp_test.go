package qp_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// statusFlow provokes a status between two adapters.
type statusFlow struct {
	typ      ib.QPType
	attr     func(i int, a *ib.QPAttr)
	recvs    []int // bytes of side 1's receives; negative: with a bad lkey
	wr       func(a, b *rig.Side) ib.SendWR
	lose     bool
	sent     ib.WCStatus // of the first work request at side 0
	received ib.WCStatus // of the first receive at side 1, if there are receives
	state    [2]ib.QPState
}

// TestE30_EveryStatus shows for every status that this adapter has a flow
// between two adapters that provokes it, and its effect on both sides.
// BAD_RESP_ERR needs a peer that violates the protocol: e24_bad_response.qp.
func TestE30_EveryStatus(t *testing.T) {
	write := func(change func(*ib.SendWR)) func(a, b *rig.Side) ib.SendWR {
		return func(a, b *rig.Side) ib.SendWR {
			wr := ib.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.SGE(0, 100)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()}
			change(&wr)
			return wr
		}
	}
	send := write(func(wr *ib.SendWR) { wr.Opcode = ib.WRSend })
	badKey := func(wr *ib.SendWR) { wr.RKey++ }
	dead := [2]ib.QPState{ib.ERR, ib.ERR}
	flows := map[string]statusFlow{
		"success":                    {ib.RC, nil, []int{100}, send, false, ib.WCSuccess, ib.WCSuccess, [2]ib.QPState{ib.RTS, ib.RTS}},
		"SEND longer than receive":   {ib.RC, nil, []int{99}, send, false, ib.WCRemInvReqErr, ib.WCLocLenErr, dead},
		"bad receive lkey":           {ib.RC, nil, []int{-100}, send, false, ib.WCRemOpErr, ib.WCLocProtErr, dead},
		"bad rkey":                   {ib.RC, nil, []int{1}, write(badKey), false, ib.WCRemAccessErr, ib.WCWRFlushErr, dead},
		"bad rkey, WRITE with imm":   {ib.RC, nil, []int{1}, write(func(wr *ib.SendWR) { wr.Opcode = ib.WRRDMAWriteWithImm; wr.RKey++ }), false, ib.WCRemAccessErr, ib.WCLocAccessErr, dead},
		"bad gather lkey":            {ib.RC, nil, nil, write(func(wr *ib.SendWR) { wr.SGList[0].LKey++ }), false, ib.WCLocProtErr, 0, [2]ib.QPState{ib.ERR, ib.RTS}},
		"no receive":                 {ib.RC, func(_ int, a *ib.QPAttr) { a.RNRRetry = 1 }, nil, send, false, ib.WCRNRRetryExcErr, 0, [2]ib.QPState{ib.ERR, ib.RTS}},
		"no answer":                  {ib.RC, nil, []int{1}, send, true, ib.WCRetryExcErr, 0, [2]ib.QPState{ib.ERR, ib.RTS}},
		"QP does not allow":          {ib.RC, func(_ int, a *ib.QPAttr) { a.AccessFlags = 0 }, []int{1}, write(func(*ib.SendWR) {}), false, ib.WCRemInvReqErr, ib.WCWRFlushErr, dead},
		"UD handle that is gone":     {ib.UD, nil, nil, write(func(wr *ib.SendWR) { wr.Opcode, wr.AH = ib.WRSend, 12345 }), false, ib.WCLocQPOpErr, 0, [2]ib.QPState{ib.SQE, ib.RTS}},
		"UC bad lkey is an SQE":      {ib.UC, nil, nil, write(func(wr *ib.SendWR) { wr.SGList[0].LKey++ }), false, ib.WCLocProtErr, 0, [2]ib.QPState{ib.SQE, ib.RTS}},
		"UC bad rkey goes unnoticed": {ib.UC, nil, nil, write(badKey), false, ib.WCSuccess, 0, [2]ib.QPState{ib.RTS, ib.RTS}},
		"UC no receive is unnoticed": {ib.UC, nil, nil, send, false, ib.WCSuccess, 0, [2]ib.QPState{ib.RTS, ib.RTS}},
	}
	seen := map[ib.WCStatus]bool{ib.WCBadRespErr: true}
	for what, f := range flows {
		t.Run(what, func(t *testing.T) { f.run(t, seen) })
	}
	for _, st := range []ib.WCStatus{
		ib.WCSuccess, ib.WCLocLenErr, ib.WCLocQPOpErr, ib.WCLocProtErr, ib.WCWRFlushErr, ib.WCBadRespErr, ib.WCLocAccessErr,
		ib.WCRemInvReqErr, ib.WCRemAccessErr, ib.WCRemOpErr, ib.WCRetryExcErr, ib.WCRNRRetryExcErr,
	} {
		if !seen[st] {
			t.Errorf("no flow provokes %v", st)
		}
	}
}

func (f *statusFlow) run(t *testing.T, seen map[ib.WCStatus]bool) {
	t.Helper()
	r := rig.New(t, f.typ, rig.Cap)
	for i := range r.Sides {
		a := r.Attrs(i, ib.MTU1024)
		if f.attr != nil {
			f.attr(i, &a)
		}
		r.Walk(i, a, ib.RTS)
	}
	if f.lose {
		r.Drop = func(int, *roce.Packet) bool { return true }
	}
	a, b := r.Sides[0], r.Sides[1]
	for _, n := range f.recvs {
		sge := b.SGE(1<<20, max(n, -n))
		if n < 0 {
			sge.LKey++
		}
		r.Recv(1, ib.RecvWR{SGList: []ib.SGE{sge}})
	}
	r.Post(0, f.wr(a, b))
	r.Run(time.Hour, func() bool { return false })
	sent, got := r.Poll(0), r.Poll(1)
	if len(sent) != 1 || sent[0].Status != f.sent {
		t.Errorf("the sender sees %+v, want %v", sent, f.sent)
	}
	if want := len(f.recvs); !f.lose && (len(got) != want || want > 0 && got[0].Status != f.received) {
		t.Errorf("the receiver sees %+v, want %v", got, f.received)
	}
	if st := [2]ib.QPState{a.QP.State(), b.QP.State()}; st != f.state {
		t.Errorf("the states are %v, want %v", st, f.state)
	}
	for _, wc := range append(sent, got...) {
		seen[wc.Status] = true
	}
	for i, s := range r.Sides {
		if slices.ContainsFunc(s.Events, func(e qp.Event) bool { return e.Type == ib.EventQPFatal }) {
			t.Errorf("side %d in %v has QP_FATAL for what a completion reports", i, f.state[i])
		}
	}
}

// TestE21_BothDirectionsUnderLoss runs every operation in both directions at once with
// packets lost, duplicated and reordered, and compares the memory: acknowledgement and
// retransmission work on the same queue without conflict.
func TestE21_BothDirectionsUnderLoss(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		r := rig.New(t, ib.RC, rig.Cap).Connect(ib.MTU(1 + seed%5))
		src := seed*0x9e3779b97f4a7c15 + 1
		r.Drop = func(int, *roce.Packet) bool {
			src ^= src << 13
			src ^= src >> 7
			src ^= src << 17
			return src%100 < 5
		}
		n := 1 + int(src%50_000)
		for i, s := range r.Sides {
			rig.Fill(s.Buf[:n], seed+uint64(i))
			peer := r.Sides[1-i]
			for k := range 4 {
				r.Recv(i, ib.RecvWR{WRID: uint64(100 + k), SGList: []ib.SGE{s.SGE(1<<20, n)}})
				r.Post(i, ib.SendWR{Opcode: ib.WRSend, WRID: uint64(3 * k), SGList: []ib.SGE{s.SGE(0, n)}},
					ib.SendWR{Opcode: ib.WRAtomicFetchAdd, WRID: uint64(3*k + 1), SGList: []ib.SGE{s.SGE(3<<20, 8)}, CompareAdd: 5, RemoteAddr: peer.MR.Addr() + 3<<20 + 64, RKey: peer.MR.RKey()},
					ib.SendWR{Opcode: ib.WRRDMARead, WRID: uint64(3*k + 2), SGList: []ib.SGE{s.SGE(2<<20, n)}, RemoteAddr: peer.MR.Addr(), RKey: peer.MR.RKey()})
			}
		}
		done := [2]int{}
		r.Run(time.Hour, func() bool {
			for i := range done {
				for _, wc := range r.Poll(i) {
					if wc.Status != ib.WCSuccess {
						t.Fatalf("seed %d: side %d: %+v", seed, i, wc)
					}
					done[i]++
				}
			}
			return done == [2]int{16, 16}
		})
		if done != [2]int{16, 16} {
			t.Fatalf("seed %d: %v of 16 work requests completed", seed, done)
		}
		for i, s := range r.Sides {
			peer := r.Sides[1-i]
			if !bytes.Equal(s.Buf[1<<20:1<<20+n], peer.Buf[:n]) || !bytes.Equal(s.Buf[2<<20:2<<20+n], peer.Buf[:n]) {
				t.Errorf("seed %d: side %d has other bytes", seed, i)
			}
			if v := s.Buf[3<<20+64]; v != 20 {
				t.Errorf("seed %d: 4 additions of 5 make %d", seed, v)
			}
		}
	}
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
	r := rig.New(t, ib.RC, rig.Cap).Connect(mtu)
	r.Drop = drop
	a, b := r.Sides[0], r.Sides[1]
	rig.Fill(a.Buf[:n], uint64(n)+1)
	for i := range 3 {
		r.Recv(1, ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{b.SGE(1<<20, n/2), b.SGE(1<<20+n/2, n-n/2)}})
	}
	wrs := transfers(r, n)
	for _, wr := range wrs {
		r.Post(0, wr)
	}
	var sent, got []ib.WC
	r.Run(time.Minute, func() bool {
		sent = append(sent, r.Poll(0)...)
		got = append(got, r.Poll(1)...)
		return len(sent) == len(wrs) && len(got) == 3
	})
	if len(sent) != len(wrs) || len(got) != 3 {
		t.Fatalf("mtu %d, %d bytes: %d of %d sends and %d of 3 receives completed; states %v %v",
			mtu.Bytes(), n, len(sent), len(wrs), len(got), a.QP.State(), b.QP.State())
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
	want := a.Buf[:n]
	for what, have := range map[string][]byte{"WRITE": b.Buf[:n], "SEND": b.Buf[1<<20 : 1<<20+n], "READ": a.Buf[2<<20 : 2<<20+n]} {
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

// TestQ8_UCTransfers moves messages of every operation between two adapters.
func TestQ8_UCTransfers(t *testing.T) {
	r := rig.New(t, ib.UC, rig.Cap).Connect(ib.MTU1024)
	a, b := r.Sides[0], r.Sides[1]
	for _, n := range []int{0, 1, 1024, 1025, 100_000} {
		rig.Fill(a.Buf[:n], uint64(n))
		clear(b.Buf)
		for i := range 3 {
			r.Recv(1, ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{b.SGE(1<<20, n)}})
		}
		wrs := transfers(r, n)[:4] // no READ
		for _, wr := range wrs {
			r.Post(0, wr)
		}
		var sent, got int
		r.Run(1e9, func() bool { sent += len(r.Poll(0)); got += len(r.Poll(1)); return sent == 4 && got == 3 })
		if sent != 4 || got != 3 || !bytes.Equal(b.Buf[:n], a.Buf[:n]) || !bytes.Equal(b.Buf[1<<20:1<<20+n], a.Buf[:n]) {
			t.Errorf("%d bytes: %d sent, %d received, or other bytes", n, sent, got)
		}
	}
}

// transfers are one work request of each kind, of n bytes.
func transfers(r *rig.Rig, n int) []ib.SendWR {
	a, b := r.Sides[0], r.Sides[1]
	base := ib.SendWR{SGList: []ib.SGE{a.SGE(0, n)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()}
	var wrs []ib.SendWR
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRSend, ib.WRRDMAWriteWithImm, ib.WRSendWithImm, ib.WRRDMARead} {
		wr := base
		wr.Opcode, wr.WRID, wr.ImmData = op, uint64(len(wrs)), 0xcafe0000+uint32(op)
		if op == ib.WRRDMARead {
			wr.SGList = []ib.SGE{a.SGE(2<<20, n)}
		}
		wrs = append(wrs, wr)
	}
	return wrs
}
