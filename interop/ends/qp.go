package ends

import (
	"context"
	"fmt"
	"syscall"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/verbs"
)

type ourQP struct{ q *verbs.QP }

type ourSRQ struct{ q *verbs.SRQ }

func (q ourQP) QPN() ib.QPN { return q.q.QPN() }

func (q ourQP) Modify(_ context.Context, attr *ib.QPAttr, mask ib.AttrMask) error {
	return q.q.Modify(attr, mask)
}

func (q ourQP) Query(context.Context) (ib.QPAttr, error) { return q.q.Query() }

func (q ourQP) AttachMcast(_ context.Context, group ib.GID) error { return q.q.AttachMcast(group, 0) }

func (q ourQP) Destroy(context.Context) error { return q.q.Destroy() }

func (q ourQP) PostSend(_ context.Context, wrs ...Send) error {
	var all []verbs.SendWR
	for i := range wrs {
		for n := range max(wrs[i].Count, 1) {
			wr, err := ourSend(&wrs[i], uint64(n))
			if err != nil {
				return err
			}
			all = append(all, wr)
		}
	}
	return q.q.PostSend(all...)
}

// ourSend is the nth copy of a work request.
func ourSend(w *Send, n uint64) (verbs.SendWR, error) {
	wr := verbs.SendWR{
		WRID: w.WRID + n, Opcode: w.Opcode, Flags: w.Flags, ImmData: w.ImmData, InvRKey: w.InvRKey, RKey: w.RKey, RemoteAddr: w.RemoteAddr + n*uint64(w.RemoteStride),
		CompareAdd: w.CompareAdd, Swap: w.Swap, Flush: w.Flush, RemoteQPN: w.RemoteQPN, RemoteQKey: w.RemoteQKey, Bind: w.Bind.our(w.RKey),
	}
	if w.AH != nil {
		wr.AH = w.AH.(*verbs.AH)
	}
	list := ourSGEs(w.SGList, n*uint64(w.Stride))
	if w.Flags&ib.SendInline == 0 {
		wr.SGList = list
		return wr, nil
	}
	for _, s := range w.SGList {
		m, ok := s.Memory.(*memory)
		if !ok {
			return wr, fmt.Errorf("inline data of a region that is not ours: %w", syscall.EINVAL)
		}
		b, err := m.part(s.Off+n*uint64(w.Stride), uint64(s.Length))
		if err != nil {
			return wr, err
		}
		wr.InlineData = append(wr.InlineData, b...)
	}
	return wr, nil
}

func ourSGEs(list []SGE, shift uint64) []verbs.SGE {
	all := make([]verbs.SGE, len(list))
	for i, s := range list {
		all[i] = verbs.SGE{Addr: s.Memory.Addr() + s.Off + shift, Length: s.Length, LKey: s.Memory.(*memory).mr.LKey()}
		if s.LKey != 0 {
			all[i].LKey = s.LKey
		}
	}
	return all
}

func (q ourQP) PostRecv(_ context.Context, wrs ...Recv) error { return q.q.PostRecv(ourRecvs(wrs)...) }

func (s ourSRQ) PostRecv(_ context.Context, wrs ...Recv) error {
	return s.q.PostRecv(ourRecvs(wrs)...)
}

func ourRecvs(wrs []Recv) (all []verbs.RecvWR) {
	for _, w := range wrs {
		for n := range uint64(max(w.Count, 1)) {
			all = append(all, verbs.RecvWR{WRID: w.WRID + n, SGList: ourSGEs(w.SGList, n*uint64(w.Stride))})
		}
	}
	return all
}

// peerQP is a queue pair of the test agent's.
type peerQP struct{ *testagent.QP }
type peerSRQ struct{ *testagent.SRQ }

func (q peerQP) QPN() ib.QPN { return q.QP.QPN }

func (q peerQP) PostSend(ctx context.Context, wrs ...Send) error {
	all := make([]testagent.SendWR, len(wrs))
	for i, w := range wrs {
		if w.Opcode == ib.WRFlush {
			return errNoFlush
		}
		all[i] = testagent.SendWR{
			WRID: w.WRID, Opcode: w.Opcode, Flags: w.Flags, SGList: peerSGEs(w.SGList), Copies: w.Copies, RemoteStride: w.RemoteStride, ImmData: w.ImmData, InvRKey: w.InvRKey,
			RemoteAddr: w.RemoteAddr, RKey: w.RKey, CompareAdd: w.CompareAdd, Swap: w.Swap, RemoteQPN: w.RemoteQPN, RemoteQKey: w.RemoteQKey, Bind: w.Bind.peer(),
		}
		if w.AH != nil {
			all[i].AH = w.AH.(*testagent.AH)
		}
	}
	return q.QP.PostSend(ctx, all...)
}

func (q peerQP) PostRecv(ctx context.Context, wrs ...Recv) error {
	return q.QP.PostRecv(ctx, peerRecvs(wrs)...)
}

func (s peerSRQ) PostRecv(ctx context.Context, wrs ...Recv) error {
	return s.SRQ.PostRecv(ctx, peerRecvs(wrs)...)
}

func peerRecvs(wrs []Recv) []testagent.RecvWR {
	all := make([]testagent.RecvWR, len(wrs))
	for i, w := range wrs {
		all[i] = testagent.RecvWR{WRID: w.WRID, SGList: peerSGEs(w.SGList), Copies: w.Copies}
	}
	return all
}

func peerSGEs(list []SGE) []testagent.SGE {
	all := make([]testagent.SGE, len(list))
	for i, s := range list {
		if m := s.Memory.(peerMemory).MR; s.LKey == 0 {
			all[i] = m.SGE(s.Off, s.Length)
		} else {
			all[i] = testagent.SGE{Addr: m.Addr + s.Off, LKey: s.LKey, Length: s.Length}
		}
	}
	return all
}
