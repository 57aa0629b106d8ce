package hca_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// wildKinds are the victims: every service, with receives of its own and
// shared.
var wildKinds = []struct {
	typ    ib.QPType
	shared bool
}{{ib.RC, false}, {ib.UC, false}, {ib.UD, false}, {ib.RC, true}, {ib.UC, true}, {ib.UD, true}}

// TestWildQueues writes entries that are legal but for some field, and
// indices, into the queues of a victim. It must meet every way in which that
// can end.
func TestWildQueues(t *testing.T) {
	const each = 350
	met := map[string]int{}
	for k, kind := range wildKinds {
		g := newWildWriter(t, kind.typ, kind.shared, uint64(k))
		t.Logf("seed %d", k)
		for n := range each {
			in := g.input(kind.typ, kind.shared)
			if !t.Run(fmt.Sprintf("%v/shared=%v/%d", kind.typ, kind.shared, n), func(t *testing.T) {
				out := in.attack(t)
				met[fmt.Sprintf("%v ends in %v", kind.typ, out.state)]++
				for _, wc := range out.wcs {
					what := "send"
					if wc.WRID&wildReceive != 0 {
						what = "receive"
					}
					met[fmt.Sprintf("%v %s %v", kind.typ, what, wc.Status)]++
				}
			}) {
				return
			}
		}
	}
	t.Log(met)
	for _, want := range []string{
		"RC ends in RTS", "RC ends in ERR", "UC ends in RTS", "UC ends in ERR", "UC ends in SQE", "UD ends in RTS", "UD ends in ERR",
		"UD ends in SQE", "RC send SUCCESS", "UC send SUCCESS", "UD send SUCCESS", "RC receive SUCCESS", "UC receive SUCCESS",
		"UD receive SUCCESS", "RC send LOC_QP_OP_ERR", "UC send LOC_QP_OP_ERR", "UD send LOC_QP_OP_ERR", "RC send LOC_PROT_ERR",
		"UC send LOC_PROT_ERR", "UD send LOC_PROT_ERR", "RC receive LOC_PROT_ERR", "UC receive LOC_PROT_ERR", "UD receive LOC_PROT_ERR",
	} {
		if met[want] == 0 {
			t.Errorf("no input had the outcome %q", want)
		}
	}
}

// FuzzQueues writes any bytes into the queues of a victim, behind two indices.
func FuzzQueues(f *testing.F) {
	for k, kind := range wildKinds {
		g := newWildWriter(f, kind.typ, kind.shared, uint64(k))
		for range 10 {
			in := g.input(kind.typ, kind.shared)
			f.Add(byte(k+len(wildKinds)*g.IntN(2)), uint64(in.sendProd)<<32|uint64(in.recvProd), in.send, in.recv)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, indices uint64, send, recv []byte) {
		k := wildKinds[int(kind)%len(wildKinds)]
		in := wildInput{
			typ: k.typ, shared: k.shared, send: send, recv: recv, sendProd: uint32(indices >> 32), recvProd: uint32(indices),
			restless: int(kind)/len(wildKinds)%2 == 1,
		}
		in.attack(t)
	})
}

// wildSend is an entry of a send queue with all that stands in it.
type wildSend struct {
	ring.SendWQE
	sge ib.SGE
	to  ring.SendTo
}

// writeSend writes a legal work request and what change makes of it behind
// the victim's index, and moves the index.
func (w *wild) writeSend(wr ib.SendWR, change func(*wildSend)) {
	h := (*ring.Header)(unsafe.Pointer(&w.send[0]))
	at := ring.HeaderSize + (h.Prod.Load()&h.Mask)*h.Stride
	b := w.send[at:][:h.Stride]
	e := wildSend{sge: wr.SGList[0], to: ring.SendTo{AH: uint64(wr.AH), QPN: wr.RemoteQPN, QKey: wr.RemoteQKey}}
	e.SendWQE = ring.SendWQE{
		WRID: wr.WRID, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey, Opcode: wr.Opcode, Flags: wr.Flags,
		Length: e.sge.Length, NumSGE: 1,
	}
	change(&e)
	put(b, e.SendWQE)
	put(b[48:], e.sge)
	if w.Sides[0].QP.Type() == ib.UD {
		put(b[h.Stride-16:], e.to)
	}
	h.Prod.Add(1)
}

// TestWildSends writes entries that are wild in one way each behind a legal
// one and before another: the first succeeds, the wild one ends in
// LOC_QP_OP_ERR, and what follows is flushed.
func TestWildSends(t *testing.T) {
	all, rc := []ib.QPType{ib.RC, ib.UC, ib.UD}, []ib.QPType{ib.RC}
	for _, c := range []struct {
		what   string
		types  []ib.QPType
		change func(*wildSend)
	}{
		{"an opcode that is none", all, func(e *wildSend) { e.Opcode = 255 }},
		{"the first opcode that is not provided", all, func(e *wildSend) { e.Opcode = ib.WRTSO }},
		{"a LOCAL_INV of another service", []ib.QPType{ib.UD}, func(e *wildSend) { e.Opcode = ib.WRLocalInv }},
		{"a BIND_MW with bytes", []ib.QPType{ib.RC, ib.UC}, func(e *wildSend) { e.Opcode = ib.WRBindMW }},
		{"a READ of another service", []ib.QPType{ib.UC, ib.UD}, func(e *wildSend) { e.Opcode = ib.WRRDMARead }},
		{"a WRITE of another service", []ib.QPType{ib.UD}, func(e *wildSend) { e.Opcode = ib.WRRDMAWrite }},
		{"a SEND with invalidate of another service", []ib.QPType{ib.UC, ib.UD}, func(e *wildSend) { e.Opcode = ib.WRSendWithInv }},
		{"one element too many", all, func(e *wildSend) { e.NumSGE = uint8(rig.Cap.MaxSendSGE) + 1 }},
		{"the most elements", all, func(e *wildSend) { e.NumSGE = 255 }},
		{"fewer bytes than its elements", all, func(e *wildSend) { e.Length-- }},
		{"more bytes than its elements", all, func(e *wildSend) { e.Length++ }},
		{"more bytes than a message", all, func(e *wildSend) { e.Length, e.sge.Length = 1<<31+1, 1<<31+1 }},
		{"more inline bytes than there is room for", all, func(e *wildSend) {
			e.Flags, e.NumSGE, e.Length = ib.SendInline, 0, rig.Cap.MaxInlineData+1
		}},
		{"the most inline bytes", all, func(e *wildSend) { e.Flags, e.NumSGE, e.Length = ib.SendInline, 0, 1<<32-1 }},
		{"inline bytes and an element", all, func(e *wildSend) { e.Flags |= ib.SendInline }},
		{"an inline READ", rc, func(e *wildSend) { e.Opcode, e.Flags, e.NumSGE = ib.WRRDMARead, ib.SendInline, 0 }},
		{"an atomic of fewer than 8 bytes", rc, func(e *wildSend) {
			e.Opcode, e.Length, e.sge.Length = ib.WRAtomicFetchAdd, 7, 7
		}},
		{"an atomic of more than a message", rc, func(e *wildSend) {
			e.Opcode, e.Length, e.sge.Length = ib.WRAtomicFetchAdd, 1<<31+1, 1<<31+1
		}},
		{"an ATOMIC WRITE of more than 8 bytes", rc, func(e *wildSend) { e.Opcode = ib.WRAtomicWrite }},
		{"an inline ATOMIC WRITE of 4 bytes", rc, func(e *wildSend) { e.Opcode, e.Flags, e.NumSGE, e.Length = ib.WRAtomicWrite, ib.SendInline, 0, 4 }},
		{"an ATOMIC WRITE of another service", []ib.QPType{ib.UC, ib.UD}, func(e *wildSend) { e.Opcode = ib.WRAtomicWrite }},
		{"a FLUSH with elements", rc, func(e *wildSend) { e.Opcode = ib.WRFlush }},
		{"a FLUSH with inline bytes", rc, func(e *wildSend) { e.Opcode, e.Flags, e.NumSGE, e.Length = ib.WRFlush, ib.SendInline, 0, 8 }},
		{"a FLUSH of another service", []ib.QPType{ib.UC, ib.UD}, func(e *wildSend) { e.Opcode, e.NumSGE, e.Length = ib.WRFlush, 0, 0 }},
		{"an address handle that is none", []ib.QPType{ib.UD}, func(e *wildSend) { e.to.AH = 0 }},
		{"an address handle that never was", []ib.QPType{ib.UD}, func(e *wildSend) { e.to.AH = 1<<64 - 1 }},
	} {
		for _, typ := range c.types {
			rec := &recorder{t: t}
			w := newWild(t, typ, false, rec.allocator(), rec)
			w.nurse()
			legal := w.message(0, ib.WRSend, 32)
			keep := func(*wildSend) {}
			for k, change := range []func(*wildSend){keep, c.change, keep} {
				legal.WRID = uint64(k)
				w.writeSend(legal, change)
			}
			w.Sides[0].HCA.Single().RingDoorbell(w.Sides[0].QP)
			w.settle()
			w.expect(c.what, ib.WCSuccess, ib.WCLocQPOpErr, ib.WCWRFlushErr)
			want := ib.SQE
			if typ == ib.RC {
				want = ib.ERR
			}
			if st := w.Sides[0].QP.State(); st != want {
				t.Errorf("%v: %s leaves the queue pair in %v, want %v", typ, c.what, st, want)
			}
			if got := w.polled(1); len(got) != 1 || got[0].Status != ib.WCSuccess {
				t.Errorf("%v: %s: the peer has %+v, want the one message before", typ, c.what, got)
			}
			w.healthyAll()
			w.recover()
		}
	}
}

// TestWildAtomicList shows that an atomic whose list is longer than its answer is executed, as on
// Linux: the first 8 bytes get the value, the others stay as they are.
func TestWildAtomicList(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRAtomicFetchAdd, ib.WRAtomicCmpAndSwp} {
		rec := &recorder{t: t}
		w := newWild(t, ib.RC, false, rec.allocator(), rec)
		w.nurse()
		page := w.mem[0].buf[wildPage:]
		want := slices.Clone(page[:64])
		copy(want, w.mem[1].buf[wildPage:][:8])
		w.writeSend(w.message(0, op, 32), func(*wildSend) {})
		w.Sides[0].HCA.Single().RingDoorbell(w.Sides[0].QP)
		w.settle()
		if wcs := w.polled(0); len(wcs) != 1 || wcs[0].Status != ib.WCSuccess || wcs[0].ByteLen != 8 {
			t.Errorf("%v with a list of 32 bytes completes with %+v, want SUCCESS and 8 bytes", op, wcs)
		}
		if got := page[:64]; !bytes.Equal(got, want) {
			t.Errorf("%v with a list of 32 bytes leaves %x, want only the first 8 bytes changed: %x", op, got, want)
		}
		w.healthyAll()
	}
}

// expect fails the test unless the victim's work requests 0, 1, ... ended so.
func (w *wild) expect(what string, want ...ib.WCStatus) {
	w.T.Helper()
	wcs := w.polled(0)
	for k, wc := range wcs {
		if len(wcs) != len(want) || wc.WRID != uint64(k) || wc.Status != want[k] {
			w.T.Fatalf("%v: %s: %+v, want statuses %v", w.Sides[0].QP.Type(), what, wcs, want)
		}
	}
	if len(wcs) != len(want) {
		w.T.Fatalf("%v: %s: %+v, want statuses %v", w.Sides[0].QP.Type(), what, wcs, want)
	}
}

// TestWildReceives writes receives that are wild in one way each behind a legal
// one: the first serves a message, the wild one ends in LOC_PROT_ERR with the
// queue pair.
func TestWildReceives(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*ring.RecvWQE)
	}{
		{"one element too many", func(e *ring.RecvWQE) { e.NumSGE = rig.Cap.MaxRecvSGE + 1 }},
		{"the most elements", func(e *ring.RecvWQE) { e.NumSGE = 1<<32 - 1 }},
		{"elements beyond 2^32 bytes", func(e *ring.RecvWQE) { e.NumSGE = 1 << 28 }},
		{"more bytes than its elements", func(e *ring.RecvWQE) { e.Length = 1<<32 - 1 }},
	} {
		for _, kind := range wildKinds {
			rec := &recorder{t: t}
			w := newWild(t, kind.typ, kind.shared, rec.allocator(), rec)
			w.nurse()
			h := (*ring.Header)(unsafe.Pointer(&w.recv[0]))
			for k := range uint64(2) {
				e := ring.RecvWQE{WRID: k, Length: 100, NumSGE: 1}
				if k == 1 {
					c.change(&e)
				}
				b := w.recv[ring.HeaderSize+h.Prod.Load()*h.Stride:]
				put(b, e)
				put(b[16:], w.mem[0].sge(0, 100))
				h.Prod.Add(1)
				w.Post(1, w.message(1, ib.WRSend, 60+41*uint32(k))) // the second is longer than the element
			}
			w.settle()
			w.expect(c.what, ib.WCSuccess, ib.WCLocProtErr)
			if st := w.Sides[0].QP.State(); st != ib.ERR {
				t.Errorf("%v: a receive with %s leaves the queue pair in %v", kind.typ, c.what, st)
			}
			w.healthyAll()
			w.recover()
		}
	}
}

// TestWildIndices gives a queue an index that no posting can lead to, also
// one that takes back what is on its way: the queue pair goes to ERR and its
// queue is not read any further.
func TestWildIndices(t *testing.T) {
	for _, kind := range wildKinds[:3] {
		for _, prod := range []uint32{1, 3 + 17, 1 << 31, 1<<32 - 1} {
			rec := &recorder{t: t}
			w := newWild(t, kind.typ, false, rec.allocator(), rec)
			w.nurse()
			sent := 0
			w.Drop = func(from int, p *roce.Packet) bool {
				if p.BTH.DestQP != w.Sides[1].QP.Num() {
					return false
				}
				sent++
				return kind.typ == ib.RC // so that the first three stay on their way
			}
			for range 3 {
				w.Post(0, w.message(0, ib.WRSend, 32))
			}
			w.Transmit(0)
			h := (*ring.Header)(unsafe.Pointer(&w.send[0]))
			h.Prod.Store(prod)
			w.Sides[0].HCA.Single().RingDoorbell(w.Sides[0].QP)
			w.settle()
			if st := w.Sides[0].QP.State(); st != ib.ERR || sent != 3 {
				t.Errorf("%v: after 3 messages an index of %d leaves the queue pair in %v, %d messages sent", kind.typ, prod, st, sent)
			}
			if n := len(w.polled(0)); n > 3+int(h.Mask)+1 {
				t.Errorf("%v: an index of %d completes %d work requests", kind.typ, prod, n)
			}
			w.Drop = nil
			w.healthyAll()
			w.recover()
		}
	}
}

// TestReceiveIndexWild gives a receive queue an index that makes no sense: the
// message that takes from it ends the queue pair.
func TestReceiveIndexWild(t *testing.T) {
	for _, kind := range wildKinds {
		rec := &recorder{t: t}
		w := newWild(t, kind.typ, kind.shared, rec.allocator(), rec)
		w.nurse()
		(*ring.Header)(unsafe.Pointer(&w.recv[0])).Prod.Store(1 << 31)
		binary.NativeEndian.PutUint64(w.recv[ring.HeaderSize:], 0) // the WRID that is expected
		w.Post(1, w.message(1, ib.WRSend, 10))
		w.settle()
		wcs := w.polled(0)
		if len(wcs) == 0 || wcs[0].Status != ib.WCLocProtErr || w.Sides[0].QP.State() != ib.ERR {
			t.Errorf("%v: a receive queue without an end: %+v in %v", kind.typ, wcs, w.Sides[0].QP.State())
		}
		w.healthyAll()
		w.recover()
	}
}

// TestWildReader gives a completion queue a reader's index that makes no
// sense: it overflows and takes its queue pair along, and nothing else.
func TestWildReader(t *testing.T) {
	for _, kind := range wildKinds {
		for _, cons := range []uint32{1, 5, 1 << 31, 1<<32 - 1000} {
			rec := &recorder{t: t}
			w := newWild(t, kind.typ, kind.shared, rec.allocator(), rec)
			w.nurse()
			h := w.cq[0].Header()
			h.Cons.Store(cons)
			w.Post(0, w.message(0, ib.WRSend, 32), w.message(0, ib.WRSend, 32))
			w.settle()
			if st := w.Sides[0].QP.State(); st != ib.ERR || h.Flags.Load() != ring.FlagOverflow {
				t.Errorf("%v: a reader at index %d of an empty queue leaves its queue pair in %v, flags %d", kind.typ, cons, st, h.Flags.Load())
			}
			w.polled(0)
			w.healthyAll()
			rig.Must(t, w.Sides[0].QP.Modify(w.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
			rig.Must(t, w.Sides[0].HCA.CQs().Resize(w.cq[0], 512))
			rec.check()
		}
	}
}
