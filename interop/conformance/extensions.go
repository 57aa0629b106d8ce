package conformance

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/roce"
)

// The groups of Extensions.
const (
	Windows     = "windows"
	AtomicWrite = "ATOMIC WRITE"
	Flush       = "FLUSH"
)

// Extensions plays a group of cases: memory windows of each type at the responder, ATOMIC WRITE, or
// FLUSH. Not every peer has these operations.
func Extensions(ctx context.Context, p Pair, group string) (all []Result) {
	var list []sequence
	switch group {
	case Windows:
		list = windows()
	case AtomicWrite:
		list = []sequence{
			{name: "RC ATOMIC WRITE", typ: ib.RC, adapt: writesAtomically, run: atomicWrites},
			{name: "RC ATOMIC WRITE through a window", typ: ib.RC, adapt: writesAtomically, run: atomicWriteThroughWindow},
		}
	case Flush:
		list = []sequence{{name: "RC FLUSH", typ: ib.RC, adapt: func(pl *plan) { flushable(pl); failsFast(pl) }, run: flushes}}
	}
	for _, q := range list {
		all = append(all, p.sequence(ctx, q))
	}
	return all
}

func writesAtomically(pl *plan) { pl.atomicWrite = true }

// flushable gives the responder's queue pair and region the right FLUSH_GLOBAL.
func flushable(pl *plan) {
	pl.attr.Access |= ib.AccessFlushGlobal
	pl.farAccess |= ib.AccessFlushGlobal
}

// atomicWrite writes a value at an offset in the region, with a key.
func (t *steps) atomicWrite(off uint64, key ib.RKey, value uint64) {
	t.do(func() error { return t.local.Write(t.ctx, 16, binary.LittleEndian.AppendUint64(nil, value)) })
	t.post(ends.Send{WRID: off, Opcode: ib.WRAtomicWrite, Flags: ib.SendSignaled, SGList: part(t.local, 16, 8), RemoteAddr: t.far.Addr() + off, RKey: key})
	w := t.sent(1)[0]
	t.expect(w.WRID == off && w.Opcode == ib.WCAtomicWrite, "ATOMIC WRITE completed as %s of %#x", w.Opcode, w.WRID)
	got := t.word(t.far, off)
	t.expect(got == value, "the word is %#x, not %#x", got, value)
	t.blank(t.far, off-margin, 0)
	t.blank(t.far, off+8, 0)
}

// atomicWrites writes a word several times. Before each ATOMIC WRITE, a WRITE fills the word, and after
// it, a READ fetches the word.
func atomicWrites(t *steps) {
	const at = 4096 + 40
	n := 2 * uint32(t.MTU.Bytes())
	t.do(func() error { return t.local.Set(t.ctx, 64, uint64(n), blank) })
	for _, value := range []uint64{0x1122334455667788, 0, ^uint64(0), 0xdeadbeefcafef00d} {
		t.post(ends.Send{WRID: 1, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: part(t.local, 64, n), RemoteAddr: t.far.Addr() + at - margin - 8, RKey: t.far.RKey()})
		t.sent(1)
		t.atomicWrite(at, t.far.RKey(), value)
		t.post(ends.Send{WRID: 2, Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: part(t.local, fetched, 8), RemoteAddr: t.far.Addr() + at, RKey: t.far.RKey()})
		t.sent(1)
		got := t.word(t.local, fetched)
		t.expect(got == value, "a READ after it returned %#x, not %#x", got, value)
	}
	t.guards(t.far)
}

// atomicWriteThroughWindow needs REMOTE_WRITE of the window, and none of the region's rights.
func atomicWriteThroughWindow(t *steps) {
	_, key := t.newWindow(ib.AccessRemoteWrite)
	t.do(func() error { return t.far.Set(t.ctx, windowAt, windowLen, blank) })
	t.atomicWrite(windowAt+margin, key, 0x0102030405060708)
}

// flushes flushes a range and the region after WRITEs.
func flushes(t *steps) {
	n := 2 * uint32(t.MTU.Bytes())
	to := ends.Send{Flags: ib.SendSignaled, RemoteAddr: t.far.Addr() + incoming, RKey: t.far.RKey()}
	for i, f := range []ib.Flush{
		{Length: n, Type: ib.FlushGlobal},
		{Type: ib.FlushGlobal, Level: ib.FlushRegion},
		{Length: 1, Type: ib.FlushGlobal},
	} {
		written := testagent.Span{Len: uint64(n), Seed: 70 + uint64(i)}
		t.fill(t.local, written)
		write, flush := to, to
		write.WRID, write.Opcode, write.SGList = 1, ib.WRRDMAWrite, part(t.local, 0, n)
		flush.WRID, flush.Opcode, flush.Flush = 2, ib.WRFlush, f
		t.post(write, flush)
		wcs := t.poll(t.Requester, 2, caseTime)
		if !isOurs(t.Responder) && slices.Equal(statuses(wcs), []ib.WCStatus{ok, ib.WCRetryExcErr}) {
			t.isKnown("rxe drops a FLUSH with the specification's ICRC: its own covers the headers of a FLUSH twice")
			return
		}
		t.expect(slices.Equal(statuses(wcs), []ib.WCStatus{ok, ok}), "a WRITE and FLUSH %+v completed with %v", f, statuses(wcs))
		if len(wcs) < 2 {
			return
		}
		w := wcs[1]
		t.expect(w.WRID == 2 && w.Opcode == ib.WCFlush, "FLUSH %+v completed as %s of %#x", f, w.Opcode, w.WRID)
		written.Off = incoming
		t.verify(t.far, written, "the flushed bytes of %+v", f)
	}
	t.guards(t.far)
}

// flush is a FLUSH of 100 bytes.
func flush(typ ib.FlushType, level ib.FlushLevel, off uint64, key ib.RKey) func(*stand) ends.Send {
	return func(s *stand) ends.Send {
		wr := request(ib.WRFlush, 0, off, key)(s)
		wr.Flush = ib.Flush{Length: 100, Type: typ, Level: level}
		return wr
	}
}

// extensionExceptions returns the rows of the table about ATOMIC WRITE and FLUSH.
func extensionExceptions() []exception {
	inv, acc := roce.NAKInvalidRequest, roce.NAKRemoteAccess
	both := func(f, g func(*plan)) func(*plan) { return func(pl *plan) { f(pl); g(pl) } }
	without := func(pl *plan) { pl.farAccess &^= ib.AccessFlushGlobal }
	all := []exception{
		{name: "atomic_write_bad_rkey", about: "ATOMIC WRITE by a key that is none", rule: "M5", adapt: writesAtomically, post: request(ib.WRAtomicWrite, 8, 0, badKey), linux: denied(acc), ours: reported(acc)},
		{name: "atomic_write_noperm", about: "ATOMIC WRITE to a region without REMOTE_WRITE", rule: "M5", adapt: both(rights(ib.AccessRemoteRead), writesAtomically), post: request(ib.WRAtomicWrite, 8, 0, 0), linux: denied(acc), ours: reported(acc)},
		{name: "atomic_write_beyond_mr", about: "ATOMIC WRITE behind the region", rule: "M5", adapt: both(small, writesAtomically), post: request(ib.WRAtomicWrite, 8, farPart, 0), linux: denied(acc), ours: reported(acc)},
		{name: "atomic_write_misaligned", about: "ATOMIC WRITE at an address that is 4 mod 8", rule: "M5", adapt: writesAtomically, post: request(ib.WRAtomicWrite, 8, 4, 0), linux: denied(inv), ours: reported(inv)},
		{name: "qp_noperm_atomic_write", about: "ATOMIC WRITE to a queue pair without REMOTE_WRITE", rule: "M5", adapt: both(closed, writesAtomically), post: request(ib.WRAtomicWrite, 8, 0, 0), linux: denied(inv), ours: reported(inv)},
		{name: "flush_bad_rkey", about: "FLUSH by a key that is none", rule: "M6", adapt: flushable, post: flush(ib.FlushGlobal, ib.FlushRange, 0, badKey), linux: denied(acc), ours: reported(acc)},
		{name: "flush_region_bad_rkey", about: "FLUSH of a region by a key that is none", rule: "M6", adapt: flushable, post: flush(ib.FlushGlobal, ib.FlushRegion, 0, badKey), linux: denied(acc), ours: reported(acc)},
		{name: "flush_noperm", about: "FLUSH of a region without FLUSH_GLOBAL", rule: "M6", adapt: both(flushable, without), post: flush(ib.FlushGlobal, ib.FlushRange, 0, 0), linux: denied(acc), ours: reported(acc)},
		{name: "flush_persistent_noperm", about: "FLUSH for persistence of a queue pair without FLUSH_PERSISTENT", rule: "M6", adapt: flushable, post: flush(ib.FlushPersistent, ib.FlushRange, 0, 0), linux: denied(inv), ours: reported(inv)},
		{name: "flush_beyond_mr", about: "FLUSH of a range over the end of the region", rule: "M6", adapt: both(small, flushable), post: flush(ib.FlushGlobal, ib.FlushRange, farPart-96, 0), linux: denied(acc), ours: reported(acc)},
		{name: "qp_noperm_flush", about: "FLUSH to a queue pair without FLUSH_GLOBAL", rule: "M6", adapt: both(flushable, closed), post: flush(ib.FlushGlobal, ib.FlushRange, 0, 0), linux: denied(inv), ours: reported(inv)},
	}
	for i := range all {
		all[i].capture, all[i].why = none13, tells
		all[i].needs = AtomicWrite
		if all[i].rule == "M6" {
			all[i].needs = Flush
		}
	}
	return all
}
