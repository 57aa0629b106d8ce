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
	run   func(ctx context.Context, j *judge, s *stand, srq ends.SRQ) error
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
	j := &judge{}
	s, srq, err := p.build(ctx, pl)
	if err == nil {
		err = q.run(ctx, j, s, srq)
	}
	return p.evidence(j.result(q.name, err))
}

// word reads 8 bytes of a region as the host of the region has them: little
// endian, as on every machine that runs these tests.
func word(ctx context.Context, m ends.Memory, off uint64) (uint64, error) {
	b, err := m.Read(ctx, off, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func atomics(ctx context.Context, j *judge, s *stand, _ ends.SRQ) error {
	const at, start, swapped = 64, 0x1122334455667788, 0xdeadbeefcafef00d
	if err := s.far.Write(ctx, at, binary.LittleEndian.AppendUint64(nil, start)); err != nil {
		return err
	}
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
		err := s.req.PostSend(ctx, ends.Send{
			WRID: uint64(i), Opcode: a.op, Flags: ib.SendSignaled, CompareAdd: a.operand, Swap: a.swap, RemoteAddr: s.far.Addr() + at, RKey: s.far.RKey(),
			SGList: []ends.SGE{{Memory: s.local, Off: 3, Length: 8}}, // the destination may have any alignment
		})
		if err != nil {
			return err
		}
		wcs, err := succeeded(ctx, j, s.Requester, 1)
		if err != nil || len(wcs) != 1 {
			return err
		}
		want := ib.WCFetchAdd
		if a.op == ib.WRAtomicCmpAndSwp {
			want = ib.WCCompSwap
		}
		j.expect(wcs[0].Opcode == want && wcs[0].ByteLen == 8, "atomic %d completed as %s of %d bytes", i, wcs[0].Opcode, wcs[0].ByteLen)
		got, err := word(ctx, s.local, 3)
		if err != nil {
			return err
		}
		j.expect(got == a.before, "atomic %d returned %#x, not %#x", i, got, a.before)
	}
	left, err := word(ctx, s.far, at)
	j.expect(left == swapped-1, "the word is %#x in the end, not %#x", left, uint64(swapped-1))
	return err
}

// mixed posts every operation in one list: they are executed in order.
func mixed(ctx context.Context, j *judge, s *stand, _ ends.SRQ) error {
	mtu := uint64(s.MTU.Bytes())
	big := uint32(3 * mtu)
	if err := s.local.Fill(ctx, testagent.Span{Len: 4 * mtu, Seed: 7}); err != nil {
		return err
	}
	for i := range uint64(3) {
		if err := s.resp.PostRecv(ctx, ends.Recv{WRID: i, SGList: []ends.SGE{{Memory: s.far, Off: 1<<19 + i*2*mtu, Length: uint32(2 * mtu)}}}); err != nil {
			return err
		}
	}
	part := func(off uint64, n uint32) []ends.SGE { return []ends.SGE{{Memory: s.local, Off: off, Length: n}} }
	at, key := s.far.Addr(), s.far.RKey()
	list := []ends.Send{
		{Opcode: ib.WRRDMAWrite, SGList: part(0, big), RemoteAddr: at, RKey: key},
		{Opcode: ib.WRSend, SGList: part(0, 100)},
		{Opcode: ib.WRRDMARead, SGList: part(1<<19, big), RemoteAddr: at, RKey: key},
		{Opcode: ib.WRSendWithImm, SGList: part(1, uint32(mtu)+7), ImmData: 0x01020304},
		{Opcode: ib.WRAtomicFetchAdd, SGList: part(1<<18, 8), RemoteAddr: at + 1<<18, RKey: key, CompareAdd: 5},
		{Opcode: ib.WRRDMAWrite, SGList: part(2, 9), RemoteAddr: at + 1<<17, RKey: key},
		{Opcode: ib.WRSend, SGList: part(3, 5), Flags: ib.SendFence},
	}
	for i := range list {
		list[i].WRID = uint64(i)
		list[i].Flags |= ib.SendSignaled
	}
	if err := s.req.PostSend(ctx, list...); err != nil {
		return err
	}
	sent, err := succeeded(ctx, j, s.Requester, len(list))
	if err != nil {
		return err
	}
	j.expect(slices.Equal(ids(sent), []uint64{0, 1, 2, 3, 4, 5, 6}), "completions came in the order %v", ids(sent))
	got, err := succeeded(ctx, j, s.Responder, 3)
	if err != nil || len(got) != 3 {
		return err
	}
	j.expect(got[0].ByteLen == 100 && uint64(got[1].ByteLen) == mtu+7 && got[2].ByteLen == 5 && got[1].ImmData == 0x01020304, "the receives are %+v", got)
	for _, v := range []struct {
		m      ends.Memory
		off, n uint64
		at     uint64
	}{{s.far, 0, 3 * mtu, 0}, {s.local, 1 << 19, 3 * mtu, 0}, {s.far, 1<<19 + 2*mtu, mtu + 7, 1}, {s.far, 1 << 17, 9, 2}, {s.far, 1<<19 + 4*mtu, 5, 3}} {
		mm, err := v.m.Verify(ctx, testagent.Span{Off: v.off, Len: v.n, Seed: 7, At: v.at})
		if err != nil {
			return err
		}
		j.expect(mm.Bytes == 0, "%d bytes at %d: %d are wrong", v.n, v.off, mm.Bytes)
	}
	sum, err := word(ctx, s.far, 1<<18)
	j.expect(sum == 5, "the atomic's word is %d, not 5", sum)
	return err
}

// fence sends the bytes of an earlier READ: without the fence the SEND would
// gather them too early.
func fence(ctx context.Context, j *judge, s *stand, _ ends.SRQ) error {
	const n = 1 << 16
	if err := s.far.Fill(ctx, testagent.Span{Len: n, Seed: 11}); err != nil {
		return err
	}
	if err := s.resp.PostRecv(ctx, ends.Recv{SGList: []ends.SGE{{Memory: s.far, Off: 1 << 19, Length: n}}}); err != nil {
		return err
	}
	here := []ends.SGE{{Memory: s.local, Off: 5, Length: n}}
	err := s.req.PostSend(ctx,
		ends.Send{WRID: 1, Opcode: ib.WRRDMARead, SGList: here, RemoteAddr: s.far.Addr(), RKey: s.far.RKey()},
		ends.Send{WRID: 2, Opcode: ib.WRSend, Flags: ib.SendFence | ib.SendSignaled, SGList: here})
	if err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Requester, 1); err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Responder, 1); err != nil {
		return err
	}
	mm, err := s.far.Verify(ctx, testagent.Span{Off: 1 << 19, Len: n, Seed: 11})
	j.expect(mm.Bytes == 0, "%d bytes of the fenced SEND are not what the READ brought", mm.Bytes)
	return err
}

func manyReads(ctx context.Context, j *judge, s *stand, _ ends.SRQ) error {
	const count, each = 12, 10000
	if err := s.far.Fill(ctx, testagent.Span{Len: count * each, Seed: 13}); err != nil {
		return err
	}
	err := s.req.PostSend(ctx, ends.Send{
		Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, RemoteAddr: s.far.Addr(), RKey: s.far.RKey(), SGList: []ends.SGE{{Memory: s.local, Length: each}},
		Copies: testagent.Copies{Count: count, Stride: each}, RemoteStride: each,
	})
	if err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Requester, count); err != nil {
		return err
	}
	mm, err := s.local.Verify(ctx, testagent.Span{Len: count * each, Seed: 13})
	j.expect(mm.Bytes == 0, "%d bytes of %d READs are wrong", mm.Bytes, count)
	return err
}

// unsignaled posts requests of which only the last is signaled, more in two
// turns than the send queue holds.
func unsignaled(ctx context.Context, j *judge, s *stand, _ ends.SRQ) error {
	const count, each = 100, 3000
	for turn := range uint64(6) {
		if err := s.local.Fill(ctx, testagent.Span{Len: count * each, Seed: 20 + turn}); err != nil {
			return err
		}
		wr := ends.Send{
			Opcode: ib.WRRDMAWrite, RemoteAddr: s.far.Addr(), RKey: s.far.RKey(), SGList: []ends.SGE{{Memory: s.local, Length: each}},
			Copies: testagent.Copies{Count: count, Stride: each}, RemoteStride: each,
		}
		last := ends.Send{WRID: 1000 + turn, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled}
		if err := s.req.PostSend(ctx, wr, last); err != nil {
			return err
		}
		wcs, err := succeeded(ctx, j, s.Requester, 1)
		if err != nil {
			return err
		}
		j.expect(slices.Equal(ids(wcs), []uint64{1000 + turn}), "turn %d completed with %v", turn, ids(wcs))
		mm, err := s.far.Verify(ctx, testagent.Span{Len: count * each, Seed: 20 + turn})
		if err != nil {
			return err
		}
		j.expect(mm.Bytes == 0, "turn %d: %d bytes are wrong", turn, mm.Bytes)
	}
	return none(ctx, j, s.Requester)
}

// solicited checks that only a SEND with the solicited flag wakes a
// solicited-only waiter.
func solicited(ctx context.Context, j *judge, s *stand, _ ends.SRQ) error {
	if err := s.resp.PostRecv(ctx, ends.Recv{SGList: []ends.SGE{{Memory: s.far, Length: 64}}, Copies: testagent.Copies{Count: 2, Stride: 64}}); err != nil {
		return err
	}
	if err := s.Responder.Arm(ctx, true); err != nil {
		return err
	}
	for _, flag := range []ib.SendFlags{0, ib.SendSolicited} {
		err := s.req.PostSend(ctx, ends.Send{Opcode: ib.WRSend, Flags: ib.SendSignaled | flag, SGList: []ends.SGE{{Memory: s.local, Length: 8}}})
		if err != nil {
			return err
		}
		if _, err := succeeded(ctx, j, s.Requester, 1); err != nil { // acknowledged: the receive is completed
			return err
		}
		wait := patience
		if flag == 0 {
			wait = 0
		}
		woken, err := s.Responder.Notified(ctx, wait)
		if err != nil {
			return err
		}
		j.expect(woken == (flag != 0), "with flags %#x the event came: %v", flag, woken)
	}
	_, err := succeeded(ctx, j, s.Responder, 2)
	return err
}

// shared receives from a shared receive queue, whose limit event must come.
func shared(ctx context.Context, j *judge, s *stand, srq ends.SRQ) error {
	const count, each = 8, 3000
	err := srq.PostRecv(ctx, ends.Recv{WRID: 50, SGList: []ends.SGE{{Memory: s.far, Length: each}}, Copies: testagent.Copies{Count: count, Stride: each}})
	if err != nil {
		return err
	}
	if err := s.local.Fill(ctx, testagent.Span{Len: count * each, Seed: 31}); err != nil {
		return err
	}
	err = s.req.PostSend(ctx, ends.Send{
		Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.local, Length: each}}, Copies: testagent.Copies{Count: count, Stride: each},
	})
	if err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Requester, count); err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Responder, count); err != nil {
		return err
	}
	mm, err := s.far.Verify(ctx, testagent.Span{Len: count * each, Seed: 31})
	if err != nil {
		return err
	}
	j.expect(mm.Bytes == 0, "%d bytes are wrong", mm.Bytes)
	events, err := s.Responder.Events(ctx, patience)
	j.expect(slices.Equal(events, []ends.Event{{Type: ib.EventSRQLimitReached}}), "events %v, not SRQ_LIMIT_REACHED once", events)
	return err
}

// invalidate writes with a key, invalidates it by a SEND, and checks that the
// next write is refused.
func invalidate(ctx context.Context, j *judge, s *stand, _ ends.SRQ) error {
	key, err := s.Responder.Window(ctx, s.resp, s.far, 4096, 4096)
	if err != nil {
		return fmt.Errorf("a key that can be invalidated, at %s: %w", s.Responder.Name(), err)
	}
	if err := s.local.Fill(ctx, testagent.Span{Len: 200, Seed: 41}); err != nil {
		return err
	}
	if err := s.resp.PostRecv(ctx, ends.Recv{WRID: 5, SGList: []ends.SGE{{Memory: s.far, Length: 64}}}); err != nil {
		return err
	}
	write := ends.Send{WRID: 1, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.local, Length: 100}}, RemoteAddr: s.far.Addr() + 4100, RKey: key}
	end := ends.Send{WRID: 2, Opcode: ib.WRSendWithInv, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.local, Off: 100, Length: 33}}, InvRKey: key}
	if err := s.req.PostSend(ctx, write, end); err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Requester, 2); err != nil {
		return err
	}
	got, err := succeeded(ctx, j, s.Responder, 1)
	if err != nil || len(got) != 1 {
		return err
	}
	s.checkInvalidated(j, got[0], key)
	write.WRID = 3
	if err := s.req.PostSend(ctx, write); err != nil {
		return err
	}
	refused, err := s.Requester.Poll(ctx, 1, patience)
	j.expect(slices.Equal(statuses(refused), []ib.WCStatus{ib.WCRemAccessErr}), "a WRITE by the key that ended completed with %v", statuses(refused))
	return err
}

func (s *stand) checkInvalidated(j *judge, w ib.WC, key ib.RKey) {
	j.expect(w.ByteLen == 33 && w.Opcode == ib.WCRecv, "the receive is %s of %d bytes", w.Opcode, w.ByteLen)
	if !isOurs(s.Responder) && w.Flags&ib.WCIPCsumOK != 0 && (ib.RKey(w.ImmData) == key || ib.RKey(bits.ReverseBytes32(w.ImmData)) == key) {
		j.isKnown("rxe hands its consumer the kernel's flag for an invalidated key, 4, which in user space is IP_CSUM_OK (WITH_INV is 8); the key itself is right")
		return
	}
	j.expect(w.Flags&ib.WCWithInv != 0 && w.InvRKey == key, "the receive has flags %#x and key %#x, not WITH_INV and %#x", w.Flags, w.InvRKey, key)
}

// multicast sends to a group that the responder has joined.
func multicast(ctx context.Context, j *judge, s *stand, _ ends.SRQ) error {
	group := ib.GIDFromAddr(netip.MustParseAddr("239.77.0.9"))
	if s.Responder.Path().Addr().Is6() {
		group = ib.GIDFromAddr(netip.MustParseAddr("ff0e::77:9"))
	}
	err := s.resp.AttachMcast(ctx, group)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		j.note("no multicast at %s here", s.Responder.Name())
		return nil
	}
	if err != nil {
		return err
	}
	ah, err := s.Requester.CreateAH(ctx, ends.Path{GID: group})
	if err != nil {
		return err
	}
	if err := s.local.Fill(ctx, testagent.Span{Len: 500, Seed: 51}); err != nil {
		return err
	}
	if err := s.resp.PostRecv(ctx, ends.Recv{SGList: []ends.SGE{{Memory: s.far, Length: 600}}}); err != nil {
		return err
	}
	err = s.req.PostSend(ctx, ends.Send{
		Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.local, Length: 500}}, AH: ah, RemoteQPN: ib.QPNMulticast, RemoteQKey: ends.QKey,
	})
	if err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Requester, 1); err != nil {
		return err
	}
	if !isOurs(s.Responder) {
		got, err := s.Responder.Poll(ctx, 1, time.Second)
		if len(got) == 0 {
			j.isKnown("rxe's ibv_attach_mcast makes the host join no group, so nothing arrives, as between two Linux peers (captures errs_ud_mcast, errs6_ud_mcast); with rdma_cm, which joins, it does")
		}
		return err
	}
	got, err := succeeded(ctx, j, s.Responder, 1)
	if err != nil || len(got) != 1 {
		return err
	}
	j.expect(got[0].ByteLen == 540 && got[0].SrcQP == s.req.QPN(), "the receive says %d bytes from the queue pair %s", got[0].ByteLen, got[0].SrcQP)
	mm, err := s.far.Verify(ctx, testagent.Span{Off: grh, Len: 500, Seed: 51})
	j.expect(mm.Bytes == 0, "%d bytes are wrong", mm.Bytes)
	return err
}
