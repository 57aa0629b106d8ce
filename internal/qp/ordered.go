package qp

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// Atomics, ATOMIC WRITE and FLUSH take effect at the responder in the order of their PSNs, and
// each once. An atomic is executed when it arrives, and so is an ATOMIC WRITE that finds no READ
// unanswered. Otherwise, and behind a FLUSH whose memory is still being written back, it is
// executed when its answer is due. As behind a READ, a later SEND or WRITE may then be executed
// first: a requester that does not want that sets the fence.

func executeCompareSwap(r *responder, p *Packet) fault {
	a := &p.AtomicETH
	return executeWord(r, p, &resource{va: a.VA, rkey: a.RKey, value: a.SwapAdd, compare: a.Compare})
}

func executeFetchAdd(r *responder, p *Packet) fault {
	a := &p.AtomicETH
	return executeWord(r, p, &resource{va: a.VA, rkey: a.RKey, value: a.SwapAdd})
}

// executeAtomicWrite stores the payload as it is, without regard to its byte order.
func executeAtomicWrite(r *responder, p *Packet) fault {
	return executeWord(r, p, &resource{va: p.RETH.VA, rkey: p.RETH.RKey, value: binary.NativeEndian.Uint64(p.Payload)})
}

// executeWord executes an operation on 8 bytes once, at once or when its answer is due, and
// keeps its result for duplicates (E9, E11).
func executeWord(r *responder, p *Packet, w *resource) fault {
	w.kind, w.qp, w.pd = p.Info.Kind, r.in.qp, r.in.via().PD
	if w.todo = r.kept.delay(w.kind); !w.todo {
		if f := w.change(r.ep.env.Mem); f != memory.FaultNone {
			return r.ep.env.badKey("rkey", f)
		}
		w.qp = nil // the answer needs none
	}
	e := r.kept.add(p, r.msn.Next(), 1)
	e.src, e.qp, e.pd, e.todo = r.in.src, w.qp, w.pd, w.todo
	e.va, e.rkey, e.value, e.compare = w.va, w.rkey, w.value, w.compare
	if w.todo {
		r.kept.todo = r.kept.n
	}
	return fault{}
}

// change does to the memory what an operation on 8 bytes asks for. The value, until then the
// number to store or to add, becomes the original value of an atomic.
func (e *resource) change(t *memory.Table) memory.Fault {
	right := ib.AccessRemoteAtomic
	if e.kind == roce.KindAtomicWrite {
		right = ib.AccessRemoteWrite
	}
	mem, f := t.Remote(e.via(), e.rkey, e.va, atomicSize, right)
	if f != memory.FaultNone {
		return f
	}
	return t.Touch(func() {
		switch e.kind {
		case roce.KindCompareSwap:
			e.value = memory.CompareSwap(mem, e.compare, e.value)
		case roce.KindFetchAdd:
			e.value = memory.FetchAdd(mem, e.value)
		default:
			memory.Store(mem, e.value)
		}
	})
}

// perform executes an operation on 8 bytes whose answer is due, unless that has happened.
func (e *resource) perform(t *memory.Table) memory.Fault {
	if !e.todo {
		return memory.FaultNone
	}
	f := e.change(t)
	e.todo = f != memory.FaultNone
	return f
}

// delay reports whether an operation on 8 bytes must not be executed before the unanswered
// requests.
func (s *resources) delay(k roce.Kind) bool {
	end := s.todo
	if k == roce.KindAtomicWrite {
		end = max(end, s.reads)
	}
	for i := s.out; i < end; i++ {
		e := s.at(i)
		if e.pending && (e.todo || k == roce.KindAtomicWrite && e.kind == roce.KindReadRequest) {
			return true
		}
	}
	return false
}

// answerAtomicWrite appends the answer to an ATOMIC WRITE.
func answerAtomicWrite(r *responder, b *fabric.Batch, e *resource) (progress, memory.Fault) {
	if f := e.perform(r.ep.env.Mem); f != memory.FaultNone {
		return responseLate, f
	}
	return sendEmptyResponse(r, b, e), memory.FaultNone
}

// sendEmptyResponse appends a READ response without payload, which answers an ATOMIC WRITE or
// a FLUSH.
func sendEmptyResponse(r *responder, b *fabric.Batch, e *resource) progress {
	p := r.header(roce.RCRDMAReadResponseOnly, e.first, e.src)
	p.AETH = roce.AETH{Syndrome: r.syndrome(), MSN: e.msn}
	if r.ep.appendBare(b) == nil {
		return batchFull
	}
	e.pending = false
	return responseSent
}

// checkFlush checks the header of a FLUSH, and its rights and key, which depend on the header.
func (r *receiver) checkFlush(p *Packet) fault {
	right, ok := ib.FlushRights(ib.FlushType(p.FETH.Placement))
	switch {
	case !ok || p.FETH.Selectivity > roce.SelectRegion:
		return invalidRequest(ib.WCRemInvReqErr, "FLUSH of an unknown type or level")
	case !r.allows(right):
		return invalidRequest(ib.WCRemInvReqErr, "QP does not allow "+right.String())
	}
	if _, f := flushOf(p.FETH).memory(r.ep.env.Mem, r.via(), p.RETH); f != memory.FaultNone {
		return r.ep.env.badKey("rkey", f)
	}
	return fault{}
}

// flushed is what a FLUSH asks for: its type, and whether it names a whole region.
type flushed struct {
	typ    ib.FlushType
	region bool
}

func flushOf(h roce.FETH) flushed {
	return flushed{ib.FlushType(h.Placement), h.Selectivity == roce.SelectRegion}
}

// memory returns the memory that a FLUSH names: a range, or the whole region.
func (f flushed) memory(t *memory.Table, via memory.Via, to roce.RETH) ([]byte, memory.Fault) {
	right, _ := ib.FlushRights(f.typ)
	if f.region {
		return t.RemoteRegion(via, to.RKey, right)
	}
	return t.Remote(via, to.RKey, to.VA, uint64(to.Length), right)
}

// executeFlush has a FLUSH answered when its turn comes. Earlier WRITEs are visible to every
// reader already: memory is coherent.
func executeFlush(r *responder, p *Packet) fault {
	e := r.kept.add(p, r.msn.Next(), 1)
	e.qp, e.pd, e.src = r.in.qp, r.in.via().PD, r.in.src
	e.va, e.rkey, e.length, e.what = p.RETH.VA, p.RETH.RKey, p.RETH.Length, flushOf(p.FETH)
	e.todo = p.FETH.Placement&roce.PlacementPersistence != 0
	if e.todo {
		r.kept.todo = r.kept.n
	}
	return fault{}
}

// answerFlush appends the answer to a FLUSH. One for persistence first has its memory written
// back, of which each queue pair has one under way.
func answerFlush(r *responder, b *fabric.Batch, e *resource) (progress, memory.Fault) {
	if e.todo {
		if f := e.writeBack(r.in); f != memory.FaultNone {
			return responseLate, f
		}
		if e.todo {
			return responseLate, memory.FaultNone
		}
	}
	return sendEmptyResponse(r, b, e), memory.FaultNone
}

// writeBack has the memory of a FLUSH written back to storage, unless that has begun. The key
// is checked again: the region may have gone.
func (e *resource) writeBack(in *receiver) memory.Fault {
	switch {
	case e.failed:
		return memory.FaultWriteBack
	case e.job != 0:
		return memory.FaultNone
	}
	mem, f := e.what.memory(in.ep.env.Mem, e.via(), roce.RETH{VA: e.va, RKey: e.rkey, Length: e.length})
	if f != memory.FaultNone {
		return f
	}
	env := in.ep.env
	if env.WriteBack == nil || len(mem) == 0 {
		e.todo = false
		return memory.FaultNone
	}
	env.jobs++
	e.job = env.jobs
	env.WriteBack(WriteBack{in.ep.num, e.job, mem})
	return memory.FaultNone
}

// WriteBack is memory that a FLUSH has written back to storage.
type WriteBack struct {
	QPN ib.QPN
	Job uint64 // never used again
	Mem []byte // may be unmapped, or mapped to something else, at any time
}

// WrittenBack reports the end of a job of WriteBack, and whether it succeeded. One of a
// connection that has ended meanwhile has no effect.
func (e *End) WrittenBack(job uint64, ok bool) {
	if e.resp.writtenBack(job, ok) {
		e.sendOn()
	}
}

func (r *responder) writtenBack(job uint64, ok bool) bool { return r.kept.writtenBack(job, ok) }

// cancel cancels the job that a FLUSH of the connection waits for. Otherwise a peer that connects
// again and again could queue any number of jobs.
func (s *resources) cancel(env *Env) {
	for i := range s.n {
		if e := s.at(i); e.job != 0 && e.todo && env.CancelWriteBack != nil {
			env.CancelWriteBack(e.job)
		}
	}
}

// writtenBack notes the end of a job, and reports whether a FLUSH waits for it.
func (s *resources) writtenBack(job uint64, ok bool) bool {
	for i := range s.n {
		if e := s.at(i); e.job == job {
			e.todo, e.failed = !ok, !ok
			return true
		}
	}
	return false
}
