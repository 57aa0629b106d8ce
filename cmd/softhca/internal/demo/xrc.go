package demo

import (
	"bytes"
	"context"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// messageBytes is the size of the messages over XRC.
const messageBytes = 100

// xrc is the scene of an extended reliable connection.
func (s *stage) xrc(ctx context.Context) error {
	s.title("XRC: one connection, several receive queues")
	s.text(0, "With extended reliable connections (XRC) the queue pair of A is an initiator, which only sends, and that of B a target, which has "+
		"no queues. Each request names one of B's shared receive queues, which have numbers. A sends a message to each of two.")
	r := [2]*adapter.Resources{adapter.NewResources(s.a.Device), adapter.NewResources(s.b.Device)}
	initiator := r[0].NewQP(s.a.pd, &verbs.QPInitAttr{Type: ib.XRCIni, SendCQ: s.a.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	domain := r[1].NewXRCDomain()
	target := r[1].NewXRCTarget(domain)
	queues := [2]*verbs.SRQ{r[1].NewXRCSRQ(s.b.pd, domain, s.b.cq, 1), r[1].NewXRCSRQ(s.b.pd, domain, s.b.cq, 1)}
	if err := inOrder(r[0].Err, r[1].Err, func() error { return s.joinByHand(initiator, target) }); err != nil {
		return err
	}
	for i, queue := range queues {
		// The receives are posted before the first message, so that each queue could take it.
		if err := queue.PostRecv(verbs.RecvWR{WRID: uint64(17 + i), SGList: []verbs.SGE{s.b.mr.SGE(place(i), messageBytes)}}); err != nil {
			return err
		}
	}
	for i, queue := range queues {
		err := s.postOn(ctx, initiator, verbs.SendWR{
			WRID: uint64(15 + i), Opcode: ib.WRSend, SGList: []verbs.SGE{s.a.mr.SGE(place(i), messageBytes)}, RemoteSRQN: queue.Number(),
		})
		if err != nil {
			return err
		}
		wc, err := s.b.next(ctx)
		if err != nil {
			return err
		}
		at := int(place(i))
		s.check(wc.WRID == uint64(17+i) && wc.Status == ib.WCSuccess && bytes.Equal(s.a.part(at, messageBytes), s.b.part(at, messageBytes)),
			"B: %v of queue %v completed, and has the data of A", wc.Opcode, queue.Number())
	}
	return inOrder(r[0].Close, r[1].Close)
}

// place returns the offset of a message over XRC in both memories.
func place(i int) uint64 { return landing + uint64(i)*messageBytes }
