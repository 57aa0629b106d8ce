package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
)

// QPConfig configures a new QP (V4).
type QPConfig struct {
	Type   ib.QPType
	SendCQ *qp.CQ
	RecvCQ *qp.CQ
	SRQ    *qp.SRQ  // nil for a receive queue of its own
	RDD    *qp.RDD  // RD only
	XRCD   *qp.XRCD // XRC targets only
	Cap    ib.QPCap
	SigAll bool
	Flags  ib.QPCreateFlags
	Queues ring.Allocator // of the memory of its queues; zero: that of the adapter
}

// CreateQP returns a QP in RESET with a QPN of its own (V5, V6). An XRC target has no
// protection domain: p is nil.
func (h *HCA) CreateQP(p *PD, c QPConfig) (*qp.QP, error) {
	if err := h.checkQP(p, &c); err != nil {
		return nil, err
	}
	num := uint32(ib.QPNGSI)
	if c.Type == ib.GSI {
		exists := false
		if h.look(func() { exists = h.shard.QP(ib.QPNGSI) != nil }); exists {
			return nil, fmt.Errorf("QP1 exists: %w", ib.EINVAL)
		}
	} else {
		var ok bool
		if num, ok = h.qpns.Draw(h.cfg.Rand); !ok || h.use.QPs >= h.cfg.Limits.MaxQP {
			return nil, ib.ErrInsufficientResources
		}
	}
	qc := qp.Config{
		Num: ib.QPN(num), Type: c.Type, Via: memory.Via{QP: h.nextVia()}, SendCQ: c.SendCQ, RecvCQ: c.RecvCQ,
		SRQ: c.SRQ, RDD: c.RDD, XRCD: c.XRCD, Cap: c.Cap, SigAll: c.SigAll, Flags: c.Flags, Queues: c.Queues,
	}
	if c.Queues.Alloc == nil {
		h.cfg.enlarge(&qc.Cap)
	}
	if p != nil {
		qc.Via.PD = p.ID
	}
	q, err := qp.New(&h.env, qc)
	if err != nil {
		return nil, err
	}
	if q.Num() != ib.QPNGSI {
		h.qpns.Take(num)
	}
	if err := h.Enter(func() error {
		h.shard.Add(q)
		return nil
	}); err != nil {
		return nil, err
	}
	h.use.QPs++
	if p != nil {
		p.use(1)
	}
	return q, nil
}

// enlarge chooses the sizes of a queue pair's queues: those in q, or larger ones (nasty.Sizes). The
// caller does not enlarge queues in memory of the program, which has allocated the sizes in q.
func (c *Config) enlarge(q *ib.QPCap) {
	l := &c.Limits
	q.MaxSendWR, q.MaxRecvWR = c.larger(q.MaxSendWR, l.MaxQPWR), c.larger(q.MaxRecvWR, l.MaxQPWR)
	q.MaxSendSGE, q.MaxRecvSGE = c.larger(q.MaxSendSGE, l.MaxSGE), c.larger(q.MaxRecvSGE, l.MaxSGE)
	q.MaxInlineData = c.larger(q.MaxInlineData, l.MaxInlineData)
}

// larger returns the size of a queue for n entries: n, or with nasty.Sizes twice as many, at most
// most.
func (c *Config) larger(n, most uint32) uint32 {
	if c.Nasty.OneIn(nasty.Sizes, 2) {
		return min(2*n, most)
	}
	return n
}

// nextVia returns the serial number of a new queue pair.
func (h *HCA) nextVia() memory.Serial {
	h.serial++
	return h.serial
}

func (h *HCA) checkQP(p *PD, c *QPConfig) error {
	l := &h.cfg.Limits
	switch {
	case c.Type == ib.XRCTgt:
		return h.checkTarget(p, c)
	case !h.valid(p):
		return ib.ErrInvalidPD
	case c.Type != ib.RC && c.Type != ib.UC && c.Type != ib.UD && c.Type != ib.GSI && c.Type != ib.RD && c.Type != ib.XRCIni:
		return fmt.Errorf("%v: %w", c.Type, ib.ErrInvalidServiceType)
	case c.Flags&^ib.CreateBlockSelfMcastLB != 0:
		return fmt.Errorf("flags %#x: only CreateBlockSelfMcastLB is provided: %w", uint32(c.Flags), ib.EOPNOTSUPP)
	case c.Flags != 0 && c.Type != ib.UD:
		return fmt.Errorf("CreateBlockSelfMcastLB for %v, which sends to no multicast group: %w", c.Type, ib.EINVAL)
	case c.SendCQ == nil, (c.RecvCQ == nil) != (c.Type == ib.XRCIni):
		return ib.ErrInvalidCQ
	case c.SRQ != nil && (c.SRQ.PD() != p.ID || c.SRQ.XRCD() != nil || c.Type == ib.XRCIni):
		return ib.ErrInvalidSRQ
	case c.XRCD != nil:
		return ib.ErrInvalidXRCD
	case c.Type == ib.RD && !h.rdds[c.RDD]:
		return ib.ErrInvalidRDD
	case c.Cap.MaxSendWR > l.MaxQPWR || c.Cap.MaxRecvWR > l.MaxQPWR:
		return fmt.Errorf("%d send, %d receive; at most %d: %w", c.Cap.MaxSendWR, c.Cap.MaxRecvWR, l.MaxQPWR, ib.ErrTooManyWRs)
	case c.Cap.MaxSendSGE > l.MaxSGE || c.Cap.MaxRecvSGE > l.MaxSGE:
		return fmt.Errorf("%d gather, %d scatter; at most %d: %w", c.Cap.MaxSendSGE, c.Cap.MaxRecvSGE, l.MaxSGE, ib.ErrTooManySGEs)
	case c.Cap.MaxInlineData > l.MaxInlineData:
		return fmt.Errorf("%d bytes; at most %d: %w", c.Cap.MaxInlineData, l.MaxInlineData, ib.ErrTooMuchInline)
	}
	return nil
}

// DestroyQP destroys a QP in any state (V13). It detaches the QP from its
// multicast groups (call LeaveGroups before, to make the port leave them), and
// quarantines its QPN. The caller is in the shard.
func (h *HCA) DestroyQP(p *PD, q *qp.QP) {
	h.LeaveGroups(q)
	q.Destroy()
	h.shard.Remove(q)
	if q.Num() != ib.QPNGSI {
		h.qpns.Free(uint32(q.Num()))
	}
	h.use.QPs--
	if p != nil {
		p.use(-1)
	}
}
