package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// State is the state of a node.
type State uint8

// The states.
const (
	Pending   State = iota // neither connected nor failed
	Connected              // or a member of the group
	Ended                  // disconnected
	Failed
	numStates
)

// Node is an ID with its queue pair.
type Node struct {
	*adapter.Resources
	ID *rdmacm.ID

	test           *Test
	number         int // number in the test, from 1
	state          State
	queue          *adapter.Queue // of both directions
	mr             *verbs.MR
	sent, received int
	first          verbs.WC // of the first receive

	// The destination of UD messages.
	ah   *verbs.AH
	qpn  ib.QPN
	qkey ib.QKey
}

// Become moves the node to a state.
func (n *Node) Become(s State) {
	n.test.tally[n.state]--
	n.test.tally[s]++
	n.state = s
}

// Connected reports whether the node is in the state Connected.
func (n *Node) Connected() bool { return n.state == Connected }

// ResolveRoute sets the options of the connection and resolves the route, after the
// address is resolved.
func (n *Node) ResolveRoute() error {
	if tos := n.test.TOS; tos != nil {
		if err := n.ID.SetTOS(*tos); err != nil {
			return err
		}
	}
	if code := n.test.AckTimeout; code != nil {
		if err := n.ID.SetAckTimeout(*code); err != nil {
			return err
		}
	}
	return n.ID.ResolveRoute(resolveTimeout)
}

// Connect creates the queue pair of a client's node and sends the request.
func (n *Node) Connect(param *rdmacm.ConnParam) error {
	if err := n.Prepare(); err != nil {
		return err
	}
	return n.ID.Connect(param)
}

// Create creates the queue pair and its memory.
func (n *Node) Create() error {
	depth := max(n.test.Messages(), 1)
	n.queue = n.NewQueue(2 * depth)
	n.mr = n.NewMR(n.test.pd, n.test.buffer(), ib.AccessLocalWrite)
	n.NewIDQP(n.ID, n.test.pd, &verbs.QPInitAttr{
		Type: n.test.Service, SendCQ: n.queue.CQ, RecvCQ: n.queue.CQ, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: uint32(depth), MaxRecvWR: uint32(depth), MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return n.Err()
}

// Reach sets the destination of a UD node, which is connected then.
func (n *Node) Reach(to ib.AHAttr, qpn ib.QPN, qkey ib.QKey) error {
	n.ah, n.qpn, n.qkey = n.NewAH(n.test.pd, to), qpn, qkey
	if err := n.Err(); err != nil {
		return err
	}
	n.Become(Connected)
	return nil
}

// The wr_ids.
const (
	firstRecvID = iota + 1
	recvID
	sendID
)

// Prepare creates the queue pair and posts the receives.
func (n *Node) Prepare() error {
	if err := n.Create(); err != nil {
		return err
	}
	return n.PostRecvs()
}

// PostRecvs posts a receive for each message. All receives but the first share one
// buffer, which is never read. The first has its own, which is read while others arrive.
func (n *Node) PostRecvs() error {
	size := n.test.Size
	if n.test.Service == ib.UD {
		size += grhBytes
	}
	sgl := []verbs.SGE{n.mr.SGE(0, uint32(size)), n.mr.SGE(uint64(n.test.slot()), uint32(size))}
	wrs := make([]verbs.RecvWR, n.test.Messages())
	for i := range wrs {
		wrs[i] = verbs.RecvWR{WRID: recvID, SGList: sgl[1:]}
	}
	if len(wrs) > 0 {
		wrs[0] = verbs.RecvWR{WRID: firstRecvID, SGList: sgl[:1]}
	}
	return n.ID.QP().PostRecv(wrs...)
}

// PostSends posts all messages. UD messages carry the sender's QPN as immediate data.
func (n *Node) PostSends() error {
	q := n.ID.QP()
	wr := verbs.SendWR{WRID: sendID, Opcode: ib.WRSend}
	wr.SGList = []verbs.SGE{n.mr.SGE(uint64(2*n.test.slot()), uint32(n.test.Size))}
	if n.test.Service == ib.UD {
		wr.Opcode, wr.ImmData = ib.WRSendWithImm, uint32(q.QPN())
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = n.ah, n.qpn, n.qkey
	}
	wrs := make([]verbs.SendWR, n.test.Messages())
	for i := range wrs {
		wrs[i] = wr
	}
	return q.PostSend(wrs...)
}

// AwaitSends waits until all messages are sent, and for RC acknowledged.
func (n *Node) AwaitSends(ctx context.Context) error {
	return n.await(ctx, n.test.Idle, "sent", &n.sent, n.test.Messages())
}

// AwaitRecvs waits until all messages have arrived.
func (n *Node) AwaitRecvs(ctx context.Context) error {
	return n.await(ctx, n.test.Idle, "received", &n.received, n.test.Messages())
}

// AwaitFirst waits for the first message, at most limit unless that is 0. It returns
// the completion and the 40 bytes of GRH.
func (n *Node) AwaitFirst(ctx context.Context, limit time.Duration) (*verbs.WC, []byte, error) {
	err := n.await(ctx, limit, "received", &n.received, 1)
	return &n.first, n.mr.Bytes()[:grhBytes], err
}

// await waits until count is at least want, or the connection has ended. It waits at
// most limit for each message, and handles events meanwhile.
func (n *Node) await(ctx context.Context, limit time.Duration, what string, count *int, want int) error {
	var wcs [16]verbs.WC
	for *count < want && n.state != Ended {
		var k int
		var e *rdmacm.Event
		err := n.test.wait(ctx, limit, "messages", func(ctx context.Context) (err error) {
			if k, e, err = n.queue.WaitEither(ctx, n.test.Channel, wcs[:]); k > 0 {
				err = nil // the last messages arrived just in time
			}
			return err
		})
		if e != nil {
			err = n.test.Act(e)
			e.Ack()
		}
		for i := 0; i < k && err == nil; i++ {
			err = n.complete(&wcs[i])
		}
		if err != nil {
			return fmt.Errorf("%d of %d messages %s: %w", *count, n.test.Messages(), what, err)
		}
		n.tell(time.Now(), what, *count)
	}
	return nil
}

// tell prints the progress of the transfer at intervals.
func (n *Node) tell(now time.Time, what string, count int) {
	t := n.test
	if now.Sub(t.told) >= progress {
		t.told = now
		t.notice("connection %d of %d: %d of %d messages %s", n.number, t.Connections, count, t.Messages(), what)
	}
}

// complete counts a completion.
func (n *Node) complete(wc *verbs.WC) error {
	switch {
	case wc.Status == ib.WCWRFlushErr:
		return nil // the connection ends, and an event follows
	case wc.Status != ib.WCSuccess:
		return &completionError{wc.Status}
	case wc.WRID == sendID:
		n.sent++
	default:
		n.received++
	}
	if wc.WRID == firstRecvID {
		n.first = *wc
	}
	return nil
}

// completionError is a message that failed.
type completionError struct{ status ib.WCStatus }

// Error returns the status with advice.
func (e *completionError) Error() string {
	advice := "is the peer alive?"
	switch e.status {
	case ib.WCLocLenErr, ib.WCRemInvReqErr, ib.WCRemOpErr:
		advice = "have both sides the same message size (-S)?"
	case ib.WCRNRRetryExcErr:
		advice = "have both sides the same message count (-C)?"
	}
	return fmt.Sprintf("%v: %s", e.status, advice)
}
