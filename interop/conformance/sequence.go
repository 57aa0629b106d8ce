package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/interop/ends"
)

// sequence is a case of several messages that belong together.
type sequence struct {
	name  string
	typ   ib.QPType
	adapt func(*plan) // nil: the usual plan
	run   func(t *steps)
}

func sequences() []sequence {
	return []sequence{
		{name: "RC atomics", typ: ib.RC, run: atomics},
		{name: "RC a list of every operation", typ: ib.RC, run: mixed},
		{name: "RC fence", typ: ib.RC, run: fence},
		{name: "RC READs beyond max_rd_atomic", typ: ib.RC, run: manyReads, adapt: func(pl *plan) { pl.attr.MaxRDAtomic, pl.attr.MaxDestRDAtomic = 2, 2 }},
		{name: "RC unsignaled", typ: ib.RC, run: unsignaled},
		{name: "RC solicited event", typ: ib.RC, run: solicited},
		{name: "RC shared receive queue", typ: ib.RC, run: shared, adapt: func(pl *plan) { pl.srq = &testagent.SRQConfig{MaxWR: 16, MaxSGE: 2, Limit: 3} }},
		{name: "RC SEND_WITH_INV", typ: ib.RC, run: invalidate},
		{name: "UD multicast", typ: ib.UD, run: multicast},
	}
}

func (p Pair) sequence(ctx context.Context, q sequence) Result {
	pl := p.plan(q.typ)
	pl.named(q.name)
	if q.adapt != nil {
		q.adapt(&pl)
	}
	return p.play(ctx, q.name, pl, q.run)
}

// part returns n bytes of a region as the list of a work request.
func part(m ends.Memory, off uint64, n uint32) []ends.SGE {
	return []ends.SGE{{Memory: m, Off: off, Length: n}}
}

func atomics(t *steps) {
	const at, start, swapped = 64, 0x1122334455667788, 0xdeadbeefcafef00d
	t.do(func() error { return t.far.Write(t.ctx, at, binary.LittleEndian.AppendUint64(nil, start)) })
	minusOne := ^uint64(0)
	for i, a := range []struct {
		op            ib.WROpcode
		operand, swap uint64
		before        uint64
	}{
		{ib.WRAtomicFetchAdd, 0x10, 0, start},
		{ib.WRAtomicCmpAndSwp, start + 0x10, swapped, start + 0x10},
		{ib.WRAtomicCmpAndSwp, 1, 2, swapped},
		{ib.WRAtomicFetchAdd, minusOne, 0, swapped},
	} {
		t.post(ends.Send{
			WRID: uint64(i), Opcode: a.op, Flags: ib.SendSignaled, CompareAdd: a.operand, Swap: a.swap, RemoteAddr: t.far.Addr() + at, RKey: t.far.RKey(),
			SGList: part(t.local, 3, 8), // the destination may have any alignment
		})
		want := ib.WCFetchAdd
		if a.op == ib.WRAtomicCmpAndSwp {
			want = ib.WCCompSwap
		}
		wc := t.sent(1)[0]
		t.expect(wc.Opcode == want && wc.ByteLen == 8, "atomic %d completed as %s of %d bytes", i, wc.Opcode, wc.ByteLen)
		got := t.word(t.local, 3)
		t.expect(got == a.before, "atomic %d returned %#x, not %#x", i, got, a.before)
	}
	left := t.word(t.far, at)
	t.expect(left == swapped-1, "the word is %#x in the end, not %#x", left, uint64(swapped-1))
}

// mixed posts every operation in one list: they are executed in order.
func mixed(t *steps) {
	mtu := uint64(t.MTU.Bytes())
	big := uint32(3 * mtu)
	t.fill(t.local, testagent.Span{Len: 4 * mtu, Seed: 7})
	for i := range uint64(3) {
		t.receive(ends.Recv{WRID: i, SGList: part(t.far, 1<<19+i*2*mtu, uint32(2*mtu))})
	}
	at, key := t.far.Addr(), t.far.RKey()
	list := []ends.Send{
		{Opcode: ib.WRRDMAWrite, SGList: part(t.local, 0, big), RemoteAddr: at, RKey: key},
		{Opcode: ib.WRSend, SGList: part(t.local, 0, 100)},
		{Opcode: ib.WRRDMARead, SGList: part(t.local, 1<<19, big), RemoteAddr: at, RKey: key},
		{Opcode: ib.WRSendWithImm, SGList: part(t.local, 1, uint32(mtu)+7), ImmData: 0x01020304},
		{Opcode: ib.WRAtomicFetchAdd, SGList: part(t.local, 1<<18, 8), RemoteAddr: at + 1<<18, RKey: key, CompareAdd: 5},
		{Opcode: ib.WRRDMAWrite, SGList: part(t.local, 2, 9), RemoteAddr: at + 1<<17, RKey: key},
		{Opcode: ib.WRSend, SGList: part(t.local, 3, 5), Flags: ib.SendFence},
	}
	for i := range list {
		list[i].WRID = uint64(i)
		list[i].Flags |= ib.SendSignaled
	}
	t.post(list...)
	sent := ids(t.sent(len(list)))
	t.expect(slices.Equal(sent, []uint64{0, 1, 2, 3, 4, 5, 6}), "completions came in the order %v", sent)
	got := t.got(3)
	t.expect(got[0].ByteLen == 100 && uint64(got[1].ByteLen) == mtu+7 && got[2].ByteLen == 5 && got[1].ImmData == 0x01020304, "the receives are %+v", got)
	for _, v := range []struct {
		m      ends.Memory
		off, n uint64
		at     uint64
	}{{t.far, 0, 3 * mtu, 0}, {t.local, 1 << 19, 3 * mtu, 0}, {t.far, 1<<19 + 2*mtu, mtu + 7, 1}, {t.far, 1 << 17, 9, 2}, {t.far, 1<<19 + 4*mtu, 5, 3}} {
		t.verify(v.m, testagent.Span{Off: v.off, Len: v.n, Seed: 7, At: v.at}, "at %d", v.off)
	}
	sum := t.word(t.far, 1<<18)
	t.expect(sum == 5, "the atomic's word is %d, not 5", sum)
}

// fence sends the bytes of an earlier READ: without the fence the SEND would
// gather them too early.
func fence(t *steps) {
	const n = 1 << 16
	t.fill(t.far, testagent.Span{Len: n, Seed: 11})
	t.receive(ends.Recv{SGList: part(t.far, 1<<19, n)})
	here := part(t.local, 5, n)
	t.post(ends.Send{WRID: 1, Opcode: ib.WRRDMARead, SGList: here, RemoteAddr: t.far.Addr(), RKey: t.far.RKey()},
		ends.Send{WRID: 2, Opcode: ib.WRSend, Flags: ib.SendFence | ib.SendSignaled, SGList: here})
	t.sent(1)
	t.got(1)
	t.verify(t.far, testagent.Span{Off: 1 << 19, Len: n, Seed: 11}, "the fenced SEND of what the READ brought")
}

func manyReads(t *steps) {
	const count, each = 12, 10000
	t.fill(t.far, testagent.Span{Len: count * each, Seed: 13})
	t.post(ends.Send{
		Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, RemoteAddr: t.far.Addr(), RKey: t.far.RKey(), SGList: part(t.local, 0, each),
		Copies: testagent.Copies{Count: count, Stride: each}, RemoteStride: each,
	})
	t.sent(count)
	t.verify(t.local, testagent.Span{Len: count * each, Seed: 13}, "%d READs", count)
}

// unsignaled posts requests of which only the last is signaled, more in two
// turns than the send queue holds.
func unsignaled(t *steps) {
	const count, each = 100, 3000
	for turn := range uint64(6) {
		written := testagent.Span{Len: count * each, Seed: 20 + turn}
		t.fill(t.local, written)
		t.post(ends.Send{
			Opcode: ib.WRRDMAWrite, RemoteAddr: t.far.Addr(), RKey: t.far.RKey(), SGList: part(t.local, 0, each),
			Copies: testagent.Copies{Count: count, Stride: each}, RemoteStride: each,
		}, ends.Send{WRID: 1000 + turn, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled})
		sent := ids(t.sent(1))
		t.expect(slices.Equal(sent, []uint64{1000 + turn}), "turn %d completed with %v", turn, sent)
		t.verify(t.far, written, "turn %d", turn)
	}
	t.none(t.Requester)
}

// solicited checks that only a SEND with the solicited flag wakes a
// solicited-only waiter.
func solicited(t *steps) {
	t.receive(ends.Recv{SGList: part(t.far, 0, 64), Copies: testagent.Copies{Count: 2, Stride: 64}})
	t.do(func() error { return t.Responder.Arm(t.ctx, true) })
	for _, flag := range []ib.SendFlags{0, ib.SendSolicited} {
		t.post(ends.Send{Opcode: ib.WRSend, Flags: ib.SendSignaled | flag, SGList: part(t.local, 0, 8)})
		t.sent(1) // acknowledged: the receive is completed
		wait := caseTime
		if flag == 0 {
			wait = 0
		}
		woken := take(t, func() (bool, error) { return t.Responder.Notified(t.ctx, wait) })
		t.expect(woken == (flag != 0), "with flags %#x the event came: %v", flag, woken)
	}
	t.got(2)
}

// shared receives from a shared receive queue, whose limit event must come.
func shared(t *steps) {
	const count, each = 8, 3000
	copies := testagent.Copies{Count: count, Stride: each}
	t.do(func() error {
		return t.srq.PostRecv(t.ctx, ends.Recv{WRID: 50, SGList: part(t.far, 0, each), Copies: copies})
	})
	t.fill(t.local, testagent.Span{Len: count * each, Seed: 31})
	t.post(ends.Send{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: part(t.local, 0, each), Copies: copies})
	t.sent(count)
	t.got(count)
	t.verify(t.far, testagent.Span{Len: count * each, Seed: 31}, "the messages")
	t.events(t.Responder, ib.EventSRQLimitReached)
}

// invalidate writes with a key, invalidates it by a SEND, and checks that the
// next write is refused.
func invalidate(t *steps) {
	key := take(t, func() (ib.RKey, error) { return t.Responder.Window(t.ctx, t.resp, t.far, 4096, 4096) })
	if t.err != nil {
		t.err = fmt.Errorf("a key that can be invalidated, at %s: %w", t.Responder.Name(), t.err)
	}
	t.fill(t.local, testagent.Span{Len: 200, Seed: 41})
	t.receive(ends.Recv{WRID: 5, SGList: part(t.far, 0, 64)})
	write := ends.Send{WRID: 1, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: part(t.local, 0, 100), RemoteAddr: t.far.Addr() + 4100, RKey: key}
	t.post(write, ends.Send{WRID: 2, Opcode: ib.WRSendWithInv, Flags: ib.SendSignaled, SGList: part(t.local, 100, 33), InvRKey: key})
	t.sent(2)
	t.checkInvalidated(t.got(1)[0], key)
	write.WRID = 3
	t.post(write)
	refused := statuses(t.poll(t.Requester, 1, caseTime))
	t.expect(slices.Equal(refused, []ib.WCStatus{ib.WCRemAccessErr}), "a WRITE by the key that ended completed with %v", refused)
}

func (t *steps) checkInvalidated(w ib.WC, key ib.RKey) {
	t.expect(w.ByteLen == 33 && w.Opcode == ib.WCRecv, "the receive is %s of %d bytes", w.Opcode, w.ByteLen)
	if !isOurs(t.Responder) && w.Flags&ib.WCIPCsumOK != 0 && (ib.RKey(w.ImmData) == key || ib.RKey(bits.ReverseBytes32(w.ImmData)) == key) {
		t.isKnown("rxe hands its consumer the kernel's flag for an invalidated key, 4, which in user space is IP_CSUM_OK (WITH_INV is 8); the key itself is right")
		return
	}
	t.expect(w.Flags&ib.WCWithInv != 0 && w.InvRKey == key, "the receive has flags %#x and key %#x, not WITH_INV and %#x", w.Flags, w.InvRKey, key)
}

// multicast sends to a group that the responder has joined.
func multicast(t *steps) {
	group := ib.GIDFromAddr(netip.MustParseAddr("239.77.0.9"))
	if t.Responder.Path().Addr().Is6() {
		group = ib.GIDFromAddr(netip.MustParseAddr("ff0e::77:9"))
	}
	t.do(func() error { return t.resp.AttachMcast(t.ctx, group) })
	if errors.Is(t.err, syscall.EOPNOTSUPP) {
		t.err = nil
		t.note("no multicast at %s here", t.Responder.Name())
		return
	}
	ah := take(t, func() (ends.AH, error) { return t.Requester.CreateAH(t.ctx, ends.Path{GID: group}) })
	t.fill(t.local, testagent.Span{Len: 500, Seed: 51})
	t.receive(ends.Recv{SGList: part(t.far, 0, 600)})
	t.post(ends.Send{
		Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: part(t.local, 0, 500), AH: ah, RemoteQPN: ib.QPNMulticast, RemoteQKey: ends.QKey,
	})
	t.sent(1)
	if !isOurs(t.Responder) {
		if got := t.poll(t.Responder, 1, time.Second); len(got) == 0 {
			t.isKnown("rxe's ibv_attach_mcast makes the host join no group, so nothing arrives, as between two Linux peers (captures errs_ud_mcast, errs6_ud_mcast); with rdma_cm, which joins, it does")
		}
		return
	}
	got := t.got(1)[0]
	t.expect(got.ByteLen == 540 && got.SrcQP == t.req.QPN(), "the receive says %d bytes from the queue pair %s", got.ByteLen, got.SrcQP)
	t.verify(t.far, testagent.Span{Off: grh, Len: 500, Seed: 51}, "the message")
}
