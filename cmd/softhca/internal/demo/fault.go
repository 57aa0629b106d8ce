package demo

import (
	"bytes"
	"context"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/verbs"
)

// wrongKey is the scene in which an error is provoked.
func (s *stage) wrongKey(ctx context.Context) error {
	const size = 64
	s.title("Provoke an error: a wrong key")
	s.text(0, "A posts two more writes and a receive. The first write has a key that B never gave: B refuses it (a NAK) and "+
		"gives up the connection. At A that write fails, and all other work is flushed.")
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
	if err := s.a.event(ctx, ib.EventQPFatal); err != nil {
		return err
	}
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
		{"RDMA_WRITE, right key", ib.WCWRFlushErr, "flushed: it was behind"},
		{"receive", ib.WCWRFlushErr, "flushed: nothing can come"},
	} {
		wc := &wcs[i]
		s.check(wc.WRID == uint64(6+i) && wc.Status == want.status, "A: wr_id %d  %-21s  %s  %s",
			wc.WRID, want.what, s.paint(red, fmt.Sprintf("%-14v", wc.Status)), want.why)
	}
	s.fallen(s.a, aSeen, ib.EventQPFatal)
	s.fallen(s.b, bSeen, ib.EventQPAccessErr)
	s.check(bytes.Equal(before, s.b.mr.Bytes()), "B's memory is untouched")
	return nil
}

// postWrong posts the receive and both writes of A's.
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

// fallen shows a queue pair's way into ERR and the event that tells of it.
func (s *stage) fallen(n *node, seen []verbs.TraceRecord, want ib.EventType) {
	cause := "no transition was recorded"
	for i := range seen {
		if r := &seen[i]; r.Kind == trace.State && r.To == ib.ERR {
			cause = r.Cause
		}
	}
	e := n.events[len(n.events)-1]
	s.check(n.qp.State() == ib.ERR && e.Type == want, "%s: %s (%s), event %s",
		n.name, s.paint(red, "RTS → ERR"), cause, s.paint(yellow, e.Type.String()))
}
