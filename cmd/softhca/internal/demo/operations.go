package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// The offsets in both memories.
const (
	source  = 0     // data that A sends and writes, and that A reads from B
	landing = 16384 // destination of SEND and READ
	target  = 32768 // destination of WRITE
	cell    = 49152 // eight bytes for atomics
	result  = 49216 // value before the atomic
)

// post posts a request of A on the connection, waits for its completion and shows it.
func (s *stage) post(ctx context.Context, wr verbs.SendWR) error { return s.postOn(ctx, s.a.qp, wr) }

// postOn is post for another queue pair of A.
func (s *stage) postOn(ctx context.Context, q *verbs.QP, wr verbs.SendWR) error {
	wr.Flags |= ib.SendSignaled
	if err := s.b.settle(); err != nil {
		return err
	}
	if err := q.PostSend(wr); err != nil {
		return err
	}
	wc, err := s.a.next(ctx)
	if err != nil {
		return err
	}
	if wc.WRID != wr.WRID || wc.Status != ib.WCSuccess {
		return fmt.Errorf("%v: wr_id %d completed with %v", wr.Opcode, wc.WRID, wc.Status)
	}
	s.draw()
	return s.b.settle()
}

// send is the scene of SEND and receive.
func (s *stage) send(ctx context.Context) error {
	size := uint32(2*s.mtu.Bytes() + 452)
	s.title("Send and receive")
	s.text(0, "B posts a receive buffer, and A sends %d bytes to it: both programs take part. The path MTU is %d bytes, so the message "+
		"takes several packets.", size, s.mtu.Bytes())
	if err := s.b.qp.PostRecv(verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{s.b.mr.SGE(landing, target-landing)}}); err != nil {
		return err
	}
	err := s.post(ctx, verbs.SendWR{WRID: 1, Opcode: ib.WRSend, SGList: []verbs.SGE{s.a.mr.SGE(source, size)}})
	if err != nil {
		return err
	}
	wc, err := s.b.next(ctx)
	if err != nil {
		return err
	}
	s.check(wc.Status == ib.WCSuccess && wc.Opcode == ib.WCRecv && wc.ByteLen == size,
		"A: SEND completed.  B: %v completed, %d bytes", wc.Opcode, wc.ByteLen)
	s.check(bytes.Equal(s.a.part(source, int(size)), s.b.part(landing, int(size))), "B's buffer has the data that A sent")
	return nil
}

// write is the scene of RDMA WRITE.
func (s *stage) write(ctx context.Context) error {
	const size = 600
	s.title("RDMA write")
	s.text(0, "A writes %d bytes directly into B's memory, at an address and with a key from B. B's program does nothing, and gets no "+
		"completion.", size)
	behind := s.b.mr.Bytes()[target+size]
	err := s.post(ctx, verbs.SendWR{
		WRID: 2, Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{s.a.mr.SGE(source, size)},
		RemoteAddr: s.b.mr.Addr() + target, RKey: s.b.mr.RKey(),
	})
	if err != nil {
		return err
	}
	var none [1]verbs.WC
	s.check(bytes.Equal(s.a.part(source, size), s.b.part(target, size)) && s.b.mr.Bytes()[target+size] == behind,
		"B's memory has the data of A, and no other byte changed")
	n, err := s.b.cq.Poll(none[:])
	s.check(err == nil && n == 0, "B has no completion")
	return nil
}

// read is the scene of RDMA READ.
func (s *stage) read(ctx context.Context) error {
	size := uint32(s.mtu.Bytes() + 476)
	s.title("RDMA read")
	s.text(0, "A reads %d bytes of B's memory. The response uses one PSN for each packet.", size)
	err := s.post(ctx, verbs.SendWR{
		WRID: 3, Opcode: ib.WRRDMARead, SGList: []verbs.SGE{s.a.mr.SGE(landing, size)},
		RemoteAddr: s.b.mr.Addr() + source, RKey: s.b.mr.RKey(),
	})
	if err != nil {
		return err
	}
	s.check(bytes.Equal(s.a.part(landing, int(size)), s.b.part(source, int(size))), "A's memory has the data of B")
	return nil
}

// atomics is the scene of COMPARE&SWAP and FETCH&ADD.
func (s *stage) atomics(ctx context.Context) error {
	s.title("Atomic operations")
	s.text(0, "A changes a 64-bit number in B's memory and gets the old value, atomically.")
	number := func(n *node, off int) uint64 { return binary.NativeEndian.Uint64(n.part(off, 8)) }
	binary.NativeEndian.PutUint64(s.b.part(cell, 8), 41)
	wr := verbs.SendWR{
		WRID: 4, Opcode: ib.WRAtomicCmpAndSwp, SGList: []verbs.SGE{s.a.mr.SGE(result, 8)},
		RemoteAddr: s.b.mr.Addr() + cell, RKey: s.b.mr.RKey(), CompareAdd: 41, Swap: 1000,
	}
	if err := s.post(ctx, wr); err != nil {
		return err
	}
	s.check(number(s.a, result) == 41 && number(s.b, cell) == 1000,
		"COMPARE&SWAP: A got %d, B has %d", number(s.a, result), number(s.b, cell))
	wr.WRID, wr.Opcode, wr.CompareAdd, wr.Swap = 5, ib.WRAtomicFetchAdd, 7, 0
	if err := s.post(ctx, wr); err != nil {
		return err
	}
	s.check(number(s.a, result) == 1000 && number(s.b, cell) == 1007,
		"FETCH&ADD: A got %d, B has %d", number(s.a, result), number(s.b, cell))
	return nil
}

// wrongKey is the scene that provokes an error.
func (s *stage) wrongKey(ctx context.Context) error {
	const size = 64
	s.title("Provoke an error: a wrong key")
	s.text(0, "A posts two more writes and a receive. The first write has a wrong key: B refuses it by a NAK, and its queue pair goes to "+
		"ERR. Any program on B's host could have sent the NAK, so A asks three times whether B still answers. B does not answer: "+
		"the write fails, and all other work requests of A are flushed.")
	before := bytes.Clone(s.b.mr.Bytes())
	if err := s.postWrong(size); err != nil {
		return err
	}
	var wcs [3]verbs.WC
	for i := range wcs {
		wc, err := s.a.next(ctx)
		if err != nil {
			return err
		}
		wcs[i] = wc
	}
	// Nothing orders the completions of the receive queue and those of the send queue.
	slices.SortFunc(wcs[:], func(x, y verbs.WC) int { return cmp.Compare(x.WRID, y.WRID) })
	if err := s.b.event(ctx, ib.EventQPAccessErr); err != nil {
		return err
	}
	if err := s.b.settle(); err != nil {
		return err
	}
	aSeen, bSeen := s.aTrace.take(), s.bTrace.take()
	s.ladder(s.a, s.b, interleave(aSeen, bSeen))
	s.end()
	for i, want := range [...]struct {
		what   string
		status ib.WCStatus
		why    string
	}{
		{"RDMA_WRITE, wrong key", ib.WCRemAccessErr, "the peer refused it"},
		{"RDMA_WRITE, right key", ib.WCWRFlushErr, "flushed: it follows the failed write"},
		{"receive", ib.WCWRFlushErr, "flushed: no message can arrive"},
	} {
		wc := &wcs[i]
		s.check(wc.WRID == uint64(6+i) && wc.Status == want.status, "A: wr_id %d  %-21s  %s  %s",
			wc.WRID, want.what, s.paint(red, fmt.Sprintf("%-14v", wc.Status)), want.why)
	}
	s.fallen(s.a, aSeen, "the completion reports it")
	s.fallen(s.b, bSeen, "event "+s.paint(yellow, ib.EventQPAccessErr.String()))
	s.check(bytes.Equal(before, s.b.mr.Bytes()), "B's memory is unchanged")
	return nil
}

// postWrong posts the receive and both writes of A.
func (s *stage) postWrong(size uint32) error {
	if err := s.a.qp.PostRecv(verbs.RecvWR{WRID: 8, SGList: []verbs.SGE{s.a.mr.SGE(landing, size)}}); err != nil {
		return err
	}
	right := verbs.SendWR{
		WRID: 7, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []verbs.SGE{s.a.mr.SGE(source, size)},
		RemoteAddr: s.b.mr.Addr() + target + 2048, RKey: s.b.mr.RKey(),
	}
	wrong := right
	wrong.WRID, wrong.RKey = 6, right.RKey^0x5a5a5a5a
	return s.a.qp.PostSend(wrong, right)
}

// fallen shows the move of a queue pair to ERR, its cause, and how the adapter
// reported it.
func (s *stage) fallen(n *node, seen []verbs.TraceRecord, reported string) {
	cause := "no transition was recorded"
	for i := range seen {
		if r := &seen[i]; r.Kind == verbs.TraceState && r.To == ib.ERR {
			cause = r.Cause
		}
	}
	s.check(n.qp.State() == ib.ERR, "%s: %s (%s), %s", n.name, s.paint(red, "RTS → ERR"), cause, reported)
}
